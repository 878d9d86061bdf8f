"""A Scrapy project with the filter; see the README beside it."""
