"""Queries to the index: the `Filter` library, Scrapy pipelines and the HTTP API."""
