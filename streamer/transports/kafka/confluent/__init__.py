"""confluent-kafka (librdkafka) as the Kafka client."""
