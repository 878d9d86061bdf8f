"""The surroundings of the service: a local Kafka broker and the configuration of what watches it."""
