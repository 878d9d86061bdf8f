"""The demo: made-up news through the real engine by both schemes."""
