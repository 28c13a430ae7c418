"""The knowledge graph, stored: nouns, the protocol, and its implementations."""
