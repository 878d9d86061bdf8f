"""SimHash over weighted words or shingles of words."""
