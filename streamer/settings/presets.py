"""Presets by name: the fields in known crawlers' records."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Preset:
    """Fields in a known crawler's records (JSON pointers; None: no such field).

    `host`: fields with a host or URL; the first that names a host counts.
    `lists`: every field is an array of strings. Text and title are then its items joined by line breaks, other fields
    its first item.
    """

    text: str
    title: str | None = None
    id: str | None = None
    time: str | None = None
    host: tuple[str, ...] = ()
    lists: bool = False


PRESETS = {
    "plain": Preset(text="/text", title="/title", id="/id", host=("/host", "/url")),
    # Lines made from WARC or WET records. The id is the record's own: with /url, pages crawled again become updates.
    "warc": Preset(text="/text", id="/id", time="/time", host=("/url",)),
    # Only url names a single page: a crawlid has many pages, and several urls may redirect to one response_url.
    "scrapy-cluster": Preset(text="/body", id="/url", time="/timestamp", host=("/response_url", "/url")),
    # The Kafka index writer puts every field of a page into an array of strings, dates as Java prints them.
    "nutch": Preset(text="/content", title="/title", id="/id", time="/tstamp", host=("/host", "/url"), lists=True),
}
