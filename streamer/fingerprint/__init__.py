"""Texts to fingerprints, a batch at a time, by either scheme."""
