"""Long-term memory on a graph. Start reading at `memory`.

memory            KnowledgeGraph: remember, search, prune, restore; GraphMemory for event loops
agent_memory      what an agent does: remember, recall over all heaps, forget
strategies        what a collection deletes: each only ranks. The heap is `heaps.graph`
pruning           its settings, and what it returns
call_graph        who calls, imports or inherits what, and what a change reaches
roots             what was indexed, and which roots are no longer there
notes             a text as chunks and entities; extract finds the entities
erasure           forgetting on request
backup            portable copies
cross_references  one reachability over context segments and memories
background        collections at intervals
place             where a project keeps its store, its graph and its backups
client            the calls of a plain client, by name
"""
