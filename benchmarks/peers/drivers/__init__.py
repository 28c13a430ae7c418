"""One script per peer, each run in the interpreter of that peer."""
