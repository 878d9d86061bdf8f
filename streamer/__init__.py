"""The streaming near-duplicate filter: read, decode, fingerprint, decide, route, commit."""
