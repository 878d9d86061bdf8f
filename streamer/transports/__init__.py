"""Transports: one contract for Kafka and for files."""
