"""Pure functions: when two fingerprints match, by SimHash, by MinHash, and by the second look."""
