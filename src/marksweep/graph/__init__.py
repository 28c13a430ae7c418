"""Long-term memory on a graph.

memory      GraphMemory: remember, search, prune, restore. Start reading here
place       where a project keeps its store, its graph and its backups
notes       a text as chunks and entities; extract finds the entities
prune       the life of what may go: plan, soft delete, restore, purge
outcomes    what pruning is allowed, and what it says it did; texts puts that into words
refs        nodes as plans and the journal name them
merging     entities under two spellings
erasure     forgetting on request
backup      portable copies
crossing    one reachability over context segments and memories
background  collections at intervals
client      the calls of a plain client, by name
"""
