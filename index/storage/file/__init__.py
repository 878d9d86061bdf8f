"""Helpers for the store: checksums, hooks around commits, the lock file, and value places in the map."""
