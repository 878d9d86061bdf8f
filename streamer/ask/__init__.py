"""Asking the index: from Python, and for the service's port."""
