"""A spider like any other: it knows nothing of the filter."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import scrapy
from scrapy.http import Response


class PagesSpider(scrapy.Spider):
    """Follows every link below `start`, and makes an item of every page that has an article."""

    name = "pages"

    async def start(self) -> AsyncIterator[Any]:
        """Begin at `scrapy crawl pages -a first=URL`."""
        yield scrapy.Request(self.first)

    def parse(self, response: Response, **_: Any) -> Iterator[Any]:
        """One item a page, and all links of the page."""
        paragraphs = response.css("article p::text").getall()
        if paragraphs:
            yield {"url": response.url, "title": response.css("title::text").get(), "body": "\n".join(paragraphs)}
        else:
            self.logger.info("no item: %s has no article", response.url)
        yield from response.follow_all(css="a")
