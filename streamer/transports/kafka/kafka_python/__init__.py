"""kafka-python as the Kafka client."""
