"""The seams to the outside: one contract, kept over Kafka and over files."""
