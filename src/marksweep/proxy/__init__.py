"""A proxy between a coding agent and its model: the agent is not changed, its requests fit.

endpoints.py   which requests ask a model, of which provider, in which conversation
projection.py  the body that goes out: the client's own bytes, or what is left after a sweep
usage.py       what an answer says about the tokens it took
app.py         the HTTP side: bytes in, bytes out, as they come
server.py      listening, and what `marksweep proxy` prints
clients.py     what each client needs to be wrapped; wrapping.py runs one
hooks.py       what the hooks of Claude Code do, for a plugin
recall.py      what was swept, for the model: over MCP and on the command line

Anything of ours that fails lets the client's own request through, with one line in the log. Keys
pass through: they are neither stored nor logged.
"""
