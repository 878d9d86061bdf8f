"""MinHash over character or word shingles."""
