"""The seam to Kafka. The only importers of the Kafka client."""
