"""Stores: what survives a restart. One protocol, several backends.

base        the store protocol
location    reads where a store or a graph is
open        opens a store from a location string
memory, sqlite, json_file, redis   the backends; memory also holds the JSON store's tables
database    a SQLite file: transactions, versions, error messages
files       private files, durable replacement, the lock between processes
codec       encodes and decodes nouns
leases      exclusive access across machines
checked_lines   files of backups and exports
health      file permissions, leftover files, integrity
salvage     recovers readable data from a damaged store
"""
