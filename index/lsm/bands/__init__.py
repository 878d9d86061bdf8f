"""Segments of MinHash: looking hashes up in them, and moving entries through their levels."""
