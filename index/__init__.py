"""Fingerprints on disk: the near-duplicate index. It knows no text, no Kafka, no wall clock and no metrics library."""
