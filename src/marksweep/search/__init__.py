"""Text search, once: the working set, the stash, recall and the long-term memory use it.

words    text to the words it is found by: the one tokenizer
bm25     how much a word says, how well a text matches: the one formula, and an index in memory
ranking  which chunks of code and notes match best, by their text, symbol and path
recall   which of many texts in order answer a question, with what surrounds them

Stores find: SQLite and FalkorDB by their own indexes, fed with our words, the others by the
index here. What a search weighs and how a word is split is decided in this package alone.
"""
