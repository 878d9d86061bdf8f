"""Pure: when two fingerprints match, for SimHash, MinHash and the second look."""
