"""The transport over Kafka. The only importers of the Kafka client."""
