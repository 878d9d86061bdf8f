"""Clusters: the documents in an output folder that stand for themselves, each with its duplicates."""
