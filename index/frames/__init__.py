"""Frames of hosts: what the pages of a host have often, and the rule by which pages are compared beside it."""
