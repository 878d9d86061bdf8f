"""Decisions on a batch: look up, apply the rule, write, and retire."""
