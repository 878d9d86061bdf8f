"""MinHash over shingles of characters or words."""
