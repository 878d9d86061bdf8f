"""Transports, the seam to the outside: one contract, kept over Kafka and over files."""
