"""kafka-python as the client that reads the input and writes the outputs."""
