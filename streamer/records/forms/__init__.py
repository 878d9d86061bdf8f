"""Forms of a value: times, and what no setting reads."""
