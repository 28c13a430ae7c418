"""The MCP server: the three heaps as tools for an agent.

1. server_state.py      What a server works on: a store, its workspaces, the folders it may read.
2. tool.py              What all tools share: unknown parameters refused, errors as text, answers
                        as data with a short text.
3. asking.py            What a tool asks of its client: its folders, a confirmation, a summary.
4. context_tools.py     Add, focus, pin, recall, configure.
5. analyze_tool.py      What could be swept and why; also in a recorded session.
   gc_tools.py          Prune, undo, history, shorten.
6. memory_tools.py      Index, search and prune the long-term memory.
   upkeep_tools.py      Restore it, its history, pins, roots, duplicate entities.
7. resources.py, prompts.py
8. app.py               All of it as one server. Start reading here.
9. stdio.py             For the client that started it.
   http.py, guard.py    Over HTTP: who may come in, how often, and what they see.
10. background.py       Background collections of the long-term memory.

Only `marksweep serve` imports this; the MCP package takes a second to load.
"""
