"""Strategies: each one only ranks. What ranks first goes first, and every proposal has a reason."""
