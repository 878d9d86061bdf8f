"""The same crawl, which leaves deciding to a service: items go to its input topic."""

from news.settings import *  # noqa: F403

# The filter. The service reads the items by the same file.
ITEM_PIPELINES = {"streamer.ask.scrapy.ToKafka": 300}
NEARDUP_CONFIG = "service.toml"
NEARDUP_SETTINGS = {}
