"""A service's parts: fingerprint, decide, route. Each wires verbs from the whole path."""
