"""Versions of documents: earlier records with an id."""
