"""Deciding a batch: look up, decide by the rule, write, and retire entries that no longer count."""
