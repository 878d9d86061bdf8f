"""The parts that a service may run in: fingerprint, decide, route. Each wires verbs of the whole path."""
