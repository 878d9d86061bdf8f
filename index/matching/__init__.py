"""Pure functions: when two fingerprints match, by SimHash, by MinHash, and at the second look."""
