"""The bench of throughput: its command line; the measurement itself has its own command."""
