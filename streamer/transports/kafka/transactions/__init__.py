"""Transactions: the note on their last step, and the end of hanging ones."""
