"""Transactions: notes of their steps, and ends of hanging ones."""
