"""Families: pages of one template, which vote for it and are judged by it; see `index.matching.template`."""
