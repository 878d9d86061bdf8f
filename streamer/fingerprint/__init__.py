"""Texts -> fingerprints, a batch at a time: SimHash, MinHash, and what both share."""
