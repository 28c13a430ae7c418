"""Text search for the working set, the stash, recall and the long-term memory.

words    the one tokenizer: text to search words
bm25     the weight of a word and the score of a text: the one formula, and an in-memory index
ranking  which chunks of code and notes match best, by their text, symbol and path
recall   which texts of a sequence answer a question, including their neighbours

Stores find candidates: SQLite and FalkorDB with their own indexes of our words, the others with the
index here. Only this package decides how words are split and weighted.
"""
