"""marksweep in agent frameworks: one line each.

langchain.py         MarksweepMiddleware, for LangChain and LangGraph agents
pydantic_ai.py       Marksweep, a capability
openai_agents.py     MarksweepFilter and MarksweepSession
litellm.py           hook, for the proxy and the library
google_adk.py        MarksweepPlugin
agent_framework.py   MarksweepStrategy, for Microsoft's Agent Framework
core.py              shared by all: limits, conversations by key, usage, recall, error handling

Each converts the framework's messages to a provider's format, passes them to `Fit`, and returns the
framework's own objects.
"""
