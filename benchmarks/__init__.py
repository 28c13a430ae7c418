"""Benchmarks: each module has `rows()`; `python -m benchmarks` prints them all."""
