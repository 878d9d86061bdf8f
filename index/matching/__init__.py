"""Pure comparisons: SimHash, MinHash, and the second look."""
