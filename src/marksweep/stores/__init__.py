"""Stores: what survives a restart. One protocol, several backends.

base        what a store is
open        from a location (a string) to a store
memory, sqlite, json_file, redis   the backends
tables      a workspace in memory, behind the store in memory and the JSON store
database    a SQLite file: transactions, versions, errors as text
files       private files, durable replacement, the lock between processes
codec       nouns to bytes and back
heartbeat   what renews a lease while it is held
health      who may read the files, what was left behind, whether they are intact
salvage     reads what is readable in a damaged store
"""
