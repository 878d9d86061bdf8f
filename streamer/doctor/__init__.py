"""Checks for `streamer doctor`: settings against brokers, rights, topics and this machine."""
