"""confluent-kafka (librdkafka) as the client that reads the input and writes the outputs."""
