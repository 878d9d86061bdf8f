"""A service's parts: fingerprint, decide, route, each with some verbs of the whole path."""
