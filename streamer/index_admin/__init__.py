"""What `streamer index` does, as plain values and as tables."""
