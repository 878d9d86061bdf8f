"""Made-up documents with planted near-duplicates, and a thread that writes them at a steady rate."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Self

import numpy as np
import orjson
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from deploy.flink_service import PARTITIONS
from streamer.settings.settings import Settings

WORDS, VOCABULARY, CHANGED_MAX, TEMPLATE_WORDS = 120, 10**6, 4, 60
HOSTS = 20
NEAR_SHARE, RECENT_SHARE, LONGER_SHARE, MOVED_SHARE, BROKEN_SHARE = 0.3, 0.5, 0.1, 0.2, 0.01
RECENT = 50
BROKEN = b"no document"
TICK_SECONDS = 0.5
"""All partitions get documents at once, and each some."""


def made_up(seed: int, again_share: float = 0.0) -> Iterator[bytes]:
    """Endless documents. A share resembles earlier ones, half of these a document that may be in flight; some are longer,
    or on another host. `again_share` of them are pages that came before.

    A few are broken. Half of the hosts have a template, which all their pages share.
    """
    random = np.random.default_rng(seed)
    templates = [_words(random, TEMPLATE_WORDS * (host % 2)) for host in range(HOSTS)]
    made: list[tuple[int, list[str]]] = []
    pages: list[tuple[int, str]] = []
    while True:
        if random.random() < BROKEN_SHARE:
            yield BROKEN
            continue
        host = int(random.integers(HOSTS))
        if made and random.random() < NEAR_SHARE:
            back = min(RECENT, len(made)) if random.random() < RECENT_SHARE else len(made)
            former, words = made[-1 - int(random.integers(back))]
            host, words = host if random.random() < MOVED_SHARE else former, words.copy()
            for place in random.integers(len(words), size=int(random.integers(CHANGED_MAX + 1))).tolist():
                words[place] = f"w{random.integers(VOCABULARY)}"
            if random.random() < LONGER_SHARE:
                words += _words(random, WORDS // 5)
        else:
            words = _words(random, WORDS)
        made.append((host, words))
        identity = f"https://host-{host}.example/{len(made)}"
        if again_share and pages and random.random() < again_share:
            host, identity = pages[int(random.integers(len(pages)))]
        pages.append((host, identity))
        yield orjson.dumps({"id": identity, "text": " ".join(templates[host] + words)})


def _words(random: np.random.Generator, count: int) -> list[str]:
    return [f"w{number}" for number in random.integers(0, VOCABULARY, count).tolist()]


def copies(given: Sequence[bytes]) -> Iterator[bytes]:
    """Endless copies of whole documents under other ids, in the same order."""
    whole = [orjson.loads(each) for each in given]
    for number in itertools.count():
        yield orjson.dumps(whole[number % len(whole)] | {"id": f"copy-{number}"})


def written(settings: Settings) -> set[str]:
    """Positions of all documents in the input topic."""
    topic = settings.topics.input
    with KafkaConsumer(bootstrap_servers=settings.kafka.bootstrap_servers) as consumer:
        ends = consumer.end_offsets([TopicPartition(topic, partition) for partition in range(PARTITIONS)])
    return {f"{topic}/{at.partition}/{offset}" for at, end in ends.items() for offset in range(end)}


class Flow:
    """Writes documents to the input topic, in turn to each partition, from its start to its end."""

    def __init__(
        self, settings: Settings, documents_per_second: float, seed: int = 1, again_share: float = 0.0
    ) -> None:
        self.sent: list[bytes] = []
        self._topic, self._rate = settings.topics.input, documents_per_second
        self._documents = made_up(seed, again_share)
        self._producer = KafkaProducer(bootstrap_servers=settings.kafka.bootstrap_servers, linger_ms=5)
        self._sending, self._over = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._send_all, name="flow", daemon=True)

    def send(self, count: int) -> None:
        """Send so many documents at once."""
        with self._sending:
            for document in itertools.islice(self._documents, count):
                self._producer.send(self._topic, document, partition=len(self.sent) % PARTITIONS)
                self.sent.append(document)

    def repeat(self, is_chosen: Callable[[int], bool]) -> None:
        """From now on send copies of chosen documents, by their number. Returns when the broker has all that was sent before.

        Only of those that are their pages' last versions.
        """
        with self._sending:
            last = {orjson.loads(each)["id"]: number for number, each in enumerate(self.sent) if each != BROKEN}
            self._documents = copies([self.sent[number] for number in sorted(last.values()) if is_chosen(number)])
            self._producer.flush()

    def wait_for(self, count: int, timeout_seconds: float) -> None:
        """Wait until `count` documents are sent. Raises TimeoutError."""
        deadline = time.monotonic() + timeout_seconds
        while len(self.sent) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(self.sent)} of {count} documents are sent after {timeout_seconds:g} s")
            time.sleep(TICK_SECONDS)
        with self._sending:
            self._producer.flush()

    def _send_all(self) -> None:
        begin, sent = time.monotonic(), 0
        while not self._over.wait(TICK_SECONDS):
            due = int((time.monotonic() - begin) * self._rate)
            self.send(due - sent)
            sent = due

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
        self._producer.close()
