"""Item pipelines for Scrapy: drop near-duplicates in the crawl's own process, or hand all items to the service over Kafka.

    ITEM_PIPELINES = {"streamer.ask.scrapy.NearDuplicates": 300}
    NEARDUP_INDEX = "seen"
    NEARDUP_SETTINGS = {"decode.text": "/body"}

The settings of Scrapy that either reads, beside those of the project:

    NEARDUP_INDEX     folder of the index, made where there is none (`NearDuplicates` alone; default: `index.directory`)
    NEARDUP_CONFIG    TOML file with settings of the filter (default: what STREAMER_CONFIG names, if anything)
    NEARDUP_SETTINGS  dict: `section.key` of a setting -> its value; wins over the file

Items are JSON to the filter, so pointers such as `decode.text` name their fields. Both pipelines need Scrapy's asyncio, which is
its default. While the disk or the brokers are waited for, the crawl goes on; the items that come meanwhile go together next.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
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
    """Pipeline that drops items which the index has seen, or something very much like them; others enter the index.

    An item that cannot be decoded is no duplicate: it is logged as an error and goes on. The crawl's statistics count items by
    verdict, as `neardup/unique`.

    A decision outlives the crawl from the moment it is made. Where the crawl is killed before it has stored an item that was
    kept, the next crawl drops that page as seen. Who must not lose it takes `ToKafka`.
    """

    def __init__(self, opened: Filter, stats: StatsCollector) -> None:
        """Use `from_crawler`, as Scrapy does."""
        self._filter = opened
        self._stats = stats
        self._answer: InTurn[bytes, Answer] = InTurn(opened.admit)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Open the index that the settings name. Raises SettingsError, IndexProblem, so that no crawl begins."""
        settings, index = filter_settings(crawler.settings), crawler.settings.get("NEARDUP_INDEX")
        return cls(Filter.open(settings.index.directory if index is None else index, settings), _stats(crawler))

    async def process_item(self, item: Any, spider: object = None) -> Any:  # noqa: ARG002
        """The item itself. Raises DropItem, which names the document that it resembles."""
        answer = await self._answer(_json_of(item, bytes_as_text=True))
        self._stats.inc_value(f"neardup/{answer.verdict}")
        if answer.verdict == "dead-letter":
            log.error("an item cannot be compared: %s (%s): it goes on", answer.reason, answer.detail)
        elif not answer.kept:
            raise DropItem(f"near-duplicate of {answer.original_id}: {answer.reason}")
        return item

    def close_spider(self, spider: object = None) -> None:  # noqa: ARG002
        """Close the index."""
        self._filter.close()


class ToKafka:
    """Pipeline that sends every item to `topics.input`, where the service decides. An item goes on once a broker has it.

    An item that cannot be sent is an error of that item: Scrapy logs and counts it. The key of a record is empty.
    """

    def __init__(self, loader: Loader, stats: StatsCollector) -> None:
        """Use `from_crawler`, as Scrapy does."""
        self._loader = loader
        self._stats = stats
        self._send: InTurn[bytes, None] = InTurn(self._sent)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Connect to the brokers that the settings name. Raises SettingsError, BrokerUnavailable, so that no crawl begins."""
        settings = filter_settings(crawler.settings)
        return cls(Loader(settings, settings.topics.input), _stats(crawler))

    async def process_item(self, item: Any, spider: object = None) -> Any:  # noqa: ARG002
        """The item itself, once it is written. Raises BrokerUnavailable."""
        await self._send(_json_of(item, bytes_as_text=False))
        self._stats.inc_value("neardup/sent")
        return item

    def close_spider(self, spider: object = None) -> None:  # noqa: ARG002
        """End the connections."""
        self._loader.close()

    def _sent(self, values: Sequence[bytes]) -> Sequence[None]:
        self._loader.send(values)
        return [None] * len(values)


class InTurn(Generic[Value, Result]):
    """A function of many values, for callers with one each: while it runs in a thread, callers gather for its next run."""

    def __init__(self, function: Callable[[Sequence[Value]], Sequence[Result]]) -> None:
        self._function = function
        self._waiting: list[tuple[Value, asyncio.Future[Result]]] = []
        self._running: asyncio.Task[None] | None = None

    async def __call__(self, value: Value) -> Result:
        """The result for a value. Raises what the function raises, to all who went together."""
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
                    # Whoever asked has given up.
                    continue
                if isinstance(results, BaseException):
                    waiting.set_exception(results)
                else:
                    waiting.set_result(results[place])
        self._running = None


def filter_settings(settings: BaseSettings) -> Settings:
    """Settings of the filter, as a crawl's settings name them. Raises SettingsError, with one line per problem."""
    file, chosen = settings.get("NEARDUP_CONFIG"), settings.getdict("NEARDUP_SETTINGS")
    overrides = [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in chosen.items()]
    return load(None if file is None else Path(file), overrides)


class _WithBytes(ScrapyJSONEncoder):
    """As Scrapy's exports, with bytes as text."""

    def default(self, o: Any) -> Any:
        return o.decode(errors="replace") if isinstance(o, bytes) else super().default(o)


def _json_of(item: Any, *, bytes_as_text: bool) -> bytes:
    fields: Mapping[str, Any] = ItemAdapter(item).asdict()
    return json.dumps(fields, cls=_WithBytes if bytes_as_text else ScrapyJSONEncoder, ensure_ascii=False).encode(
        "utf-8", "surrogatepass"
    )


def _stats(crawler: Crawler) -> StatsCollector:
    assert crawler.stats is not None, "Scrapy counts before it makes pipelines"
    return crawler.stats
