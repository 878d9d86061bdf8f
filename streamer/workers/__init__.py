"""A service's processes: the supervisor, its workers, and their heartbeats."""
