"""Segments as bytes: their keys, the compaction state, and the codec of hashes."""
