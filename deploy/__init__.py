"""Deployment: container, example settings, alerts and dashboard, and a local Kafka broker."""
