"""A crawl that drops near-duplicates by itself: no broker, no service."""

BOT_NAME = "news"
SPIDER_MODULES = ["news.spiders"]
ROBOTSTXT_OBEY = True

# The filter.
ITEM_PIPELINES = {"streamer.ask.scrapy.NearDuplicates": 300}
NEARDUP_INDEX = "seen"
NEARDUP_SETTINGS = {"decode.id": "/url", "decode.text": "/body", "decode.host": "/url"}
