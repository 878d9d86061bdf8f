"""Transport over Kafka; the only importers of its clients."""
