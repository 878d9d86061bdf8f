"""Deciding a batch: look up, apply the rule, write, and retire entries that no longer count."""
