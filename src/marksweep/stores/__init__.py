"""Stores: what survives a restart. One protocol, several backends.

base        the store protocol
open        opens a store from a location string
memory, sqlite, json_file, redis   the backends; memory also holds the JSON store's tables
database    a SQLite file: transactions, versions, error messages
files       private files, durable replacement, the lock between processes
codec       encodes and decodes nouns
leases      exclusive access across machines
health      file permissions, leftover files, integrity
salvage     recovers readable data from a damaged store
"""
