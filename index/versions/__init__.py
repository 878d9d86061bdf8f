"""Versions of documents: what came with an id before, and how near it is."""
