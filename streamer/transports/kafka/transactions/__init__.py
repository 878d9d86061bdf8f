"""Transactions: the note of their last step, and the end of hanging ones."""
