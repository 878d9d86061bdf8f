"""Transport over Kafka."""
