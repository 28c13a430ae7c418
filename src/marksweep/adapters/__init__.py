"""marksweep in the frameworks people use: one line for each.

langchain.py         MarksweepMiddleware, for LangChain and LangGraph agents
pydantic_ai.py       Marksweep, a capability
openai_agents.py     MarksweepFilter and MarksweepSession
litellm.py           hook, for the proxy and the library
google_adk.py        MarksweepPlugin
agent_framework.py   MarksweepStrategy, for Microsoft's Agent Framework
core.py              what they share: limits, conversations by key, usage, recall, and going on

Each turns the framework's messages into those of a provider, lets `Fit` decide, and gives the
framework its own objects back.
"""
