"""Scrapy item pipelines: drop near-duplicates inside the crawler, or send all items to the service through Kafka.

    ITEM_PIPELINES = {"streamer.ask.scrapy.NearDuplicates": 300}
    NEARDUP_INDEX = "seen"
    NEARDUP_SETTINGS = {"decode.text": "/body"}

Scrapy settings:

    NEARDUP_INDEX     folder of the index, created if missing (`NearDuplicates` only; default: `index.directory`)
    NEARDUP_CONFIG    TOML file with settings of the filter (default: the file that STREAMER_CONFIG names)
    NEARDUP_SETTINGS  dict from `section.key` to value; overrides the file

Items become JSON, so pointers such as `decode.text` name their fields. Both pipelines need Scrapy's default asyncio
reactor. The crawl continues during waits for disk or brokers.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Self, TypeVar

from itemadapter import ItemAdapter
from scrapy.crawler import Crawler
from scrapy.exceptions import DropItem
from scrapy.settings import BaseSettings
from scrapy.statscollectors import StatsCollector
from scrapy.utils.serialize import ScrapyJSONEncoder

from streamer.ask.answer import Answer
from streamer.ask.filter import Filter
from streamer.settings.settings import Settings, load
from streamer.transports.kafka.topics import Loader

log = logging.getLogger(__name__)

Value = TypeVar("Value")
Result = TypeVar("Result")


class NearDuplicates:
    """Pipeline that drops duplicates and near-duplicates; unique items enter the index.

    It logs an undecodable item as an error and passes it on. Statistics count items by verdict, as `neardup/unique`.

    Decisions are durable at once: a crawl that dies before it stores a kept item loses that page. `ToKafka` does not.
    """

    def __init__(self, opened: Filter, stats: StatsCollector) -> None:
        self._filter = opened
        self._stats = stats
        self._answer: Batcher[bytes, Answer] = Batcher(opened.admit)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Open the index. Raises SettingsError or NeardupIndexError, which stops the crawl at its start."""
        settings, index = filter_settings(crawler.settings), crawler.settings.get("NEARDUP_INDEX")
        return cls(Filter(settings.index.directory if index is None else index, settings), _stats(crawler))

    async def process_item(self, item: Any, spider: object = None) -> Any:  # noqa: ARG002
        """Return the item. Raises DropItem with the original."""
        answer = await self._answer(_json_of(item, bytes_as_text=True))
        self._stats.inc_value(f"neardup/{answer.verdict}")
        if answer.problem is not None:
            log.error("item passed on without comparison: %s", answer.problem)
        elif not answer.kept:
            raise DropItem(f"near-duplicate of {answer.original_id}: {answer.reason}")
        return item

    def close_spider(self, spider: object = None) -> None:  # noqa: ARG002
        """Close the index."""
        self._filter.close()


class ToKafka:
    """Pipeline that sends every item to `topics.input`, and passes it on once a broker stores it.

    Scrapy counts an unsent item as an error. Records have no key.
    """

    def __init__(self, loader: Loader, stats: StatsCollector) -> None:
        self._loader, self._stats = loader, stats
        self._send: Batcher[bytes, None] = Batcher(self._sent)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Connect to the brokers. Raises SettingsError or BrokerUnavailable, which stops the crawl at its start."""
        settings = filter_settings(crawler.settings)
        return cls(Loader(settings, settings.topics.input), _stats(crawler))

    async def process_item(self, item: Any, spider: object = None) -> Any:  # noqa: ARG002
        """Return the item once a broker stores it. Raises BrokerUnavailable."""
        await self._send(_json_of(item, bytes_as_text=False))
        self._stats.inc_value("neardup/sent")
        return item

    def close_spider(self, spider: object = None) -> None:  # noqa: ARG002
        """Close the connections."""
        self._loader.close()

    def _sent(self, values: Sequence[bytes]) -> Sequence[None]:
        self._loader.send(values)
        return [None] * len(values)


class Batcher(Generic[Value, Result]):
    """Batches single calls to a function of many values: calls during one run form the next.

    >>> lengths = Batcher(lambda texts: [*map(len, texts)])
    >>> asyncio.run(lengths("four"))
    4
    """

    def __init__(self, function: Callable[[Sequence[Value]], Sequence[Result]]) -> None:
        self._function = function
        self._waiting: list[tuple[Value, asyncio.Future[Result]]] = []
        self._running: asyncio.Task[None] | None = None

    async def __call__(self, value: Value) -> Result:
        """Result for one value. An error reaches every caller of the batch."""
        result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((value, result))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await result

    async def _run(self) -> None:
        while self._waiting:
            together, self._waiting = self._waiting, []
            values = [value for value, _ in together]
            (results,) = await asyncio.gather(asyncio.to_thread(self._function, values), return_exceptions=True)
            for place, (_, waiting) in enumerate(together):
                if waiting.done():
                    # The caller was cancelled.
                    continue
                if isinstance(results, BaseException):
                    waiting.set_exception(results)
                else:
                    waiting.set_result(results[place])
        self._running = None


def filter_settings(settings: BaseSettings) -> Settings:
    """The filter's settings from Scrapy's. Raises SettingsError, with one line per problem."""
    file, chosen = settings.get("NEARDUP_CONFIG"), settings.getdict("NEARDUP_SETTINGS")
    return load(file, chosen)


class _WithBytes(ScrapyJSONEncoder):
    def default(self, o: Any) -> Any:
        return o.decode(errors="replace") if isinstance(o, bytes) else super().default(o)


def _json_of(item: Any, *, bytes_as_text: bool) -> bytes:
    fields: Mapping[str, Any] = ItemAdapter(item).asdict()
    return json.dumps(fields, cls=_WithBytes if bytes_as_text else ScrapyJSONEncoder, ensure_ascii=False).encode(
        # Half a pair of surrogates becomes its escape sequence in JSON.
        "utf-8",
        "backslashreplace",
    )


def _stats(crawler: Crawler) -> StatsCollector:
    assert crawler.stats is not None, "Scrapy creates its statistics before pipelines"
    return crawler.stats
