"""The demo: synthetic news, filtered by both schemes."""
