"""SimHash over weighted words or word shingles."""
