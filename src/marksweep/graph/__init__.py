"""Long-term memory on a graph.

memory     GraphMemory: remember, search, prune, restore. Start reading here
notes      a text as chunks and entities; extract finds the entities
prune      the life of what may go: plan, soft delete, restore, purge
merging    entities under two spellings
erasure    forgetting on request
backup     portable copies
crossing   one reachability over context segments and memories
client     the calls of a plain client, by name
"""
