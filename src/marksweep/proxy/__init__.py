"""A proxy between a coding agent and its model: requests fit, and the agent is not changed.

endpoints.py   which requests ask a model, of which provider, in which conversation
projection.py  the body to send: the client's own bytes, or what is left after a sweep
usage.py       the token usage that an answer reports
app.py         the HTTP side: passes requests and streams answers
server.py      the server process
clients.py     what each client needs to be wrapped; wrapping.py runs one
hooks.py       the hooks that plugins of clients call

If anything in the proxy fails, the client's own request is sent, with one line in the log. Keys
pass through; they are neither stored nor logged.
"""

KEEP_DAYS = 30.0
"""Days without a message after which a conversation is deleted from the store.

Higher lets `recall` reach further back, and needs more space.
"""
