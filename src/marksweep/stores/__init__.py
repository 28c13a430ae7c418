"""Stores: what survives a restart. One protocol, several places.

base        what a store is
open        a string that says where → a store
memory, sqlite, json_file, redis   the places
tables      a workspace in memory, behind the store in memory and the JSON store
database    a SQLite file: transactions, versions, errors as text
files       private files, durable replacement, the lock between processes
codec       nouns to bytes and back
heartbeat   what renews a lease while it is held
health      who may read the files, what was left behind, whether they are sound
salvage     what can still be read of a damaged store
"""
