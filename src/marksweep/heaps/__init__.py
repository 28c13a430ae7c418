"""Heaps: where segments live, how a snapshot is taken, and how a plan is carried out."""
