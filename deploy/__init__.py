"""Deployment: container, manifests, alerts, dashboard, local Kafka and Flink, and their checks."""
