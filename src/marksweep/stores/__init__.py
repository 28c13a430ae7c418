"""Stores: what survives a restart. One protocol, several places."""
