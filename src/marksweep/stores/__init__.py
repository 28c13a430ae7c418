"""Stores: what survives a restart. One protocol, several places.

base        what a store is
open        a string that says where → a store
memory, sqlite, json_file, redis   the places
words       how text becomes words to search by, the same for all
ranking     which match is better, the same for all
salvage     what can still be read of a damaged store
"""
