"""Presets by name: where the records of known crawlers have their fields."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Preset:
    """Where a known crawler puts the fields (JSON pointers; None: nowhere).

    `lists`: every field is an array of strings. Text and title are then its items joined by line breaks, other fields
    its first item.
    """

    text: str
    title: str | None = None
    id: str | None = None
    time: str | None = None
    host: str | None = None
    lists: bool = False


PRESETS = {
    "plain": Preset(text="/text", title="/title", id="/id"),
    # One crawlid has many pages, and several urls may be redirected to one response_url: only url names one page.
    "scrapy-cluster": Preset(text="/body", id="/url", time="/timestamp", host="/response_url"),
    # The Kafka index writer puts every field of a page into an array of strings, dates as Java prints them.
    "nutch": Preset(text="/content", title="/title", id="/id", time="/tstamp", host="/host", lists=True),
}
