"""What was delivered, as one table on disk that checks and comparisons query."""
