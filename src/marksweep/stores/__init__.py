"""Stores: what survives a restart. One protocol, several places.

base        what a store is
open        a string that says where → a store
memory, sqlite, json_file, redis   the places
health      who may read the files, what was left behind, whether they are sound
salvage     what can still be read of a damaged store
"""
