"""Observation from outside: metrics, the HTTP port, logs."""
