"""Segments as bytes: their keys, the state of the compaction, and the codec of MinHash."""
