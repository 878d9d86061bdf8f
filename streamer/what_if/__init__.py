"""Decisions by other settings on all delivered documents."""
