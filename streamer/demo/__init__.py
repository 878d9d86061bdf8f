"""The demo: made-up news, filtered by both schemes of the real engine."""
