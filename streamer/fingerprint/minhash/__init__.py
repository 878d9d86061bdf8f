"""MinHash over shingles."""
