"""Texts -> fingerprints, a batch at a time: SimHash, MinHash, and their common parts."""
