"""Transactions: the note of the step that one has reached, and what ends one that hangs."""
