"""Accuracy of settings on documents with known truth."""
