"""For plugin authors and for our own tests: contracts, builders, hypothesis strategies."""
