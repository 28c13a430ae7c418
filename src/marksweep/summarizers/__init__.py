"""Summarizers: text in, shorter text out."""
