"""What flows in while faults strike: documents of every sort, at a steady rate, and marks to measure recovery by."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import orjson
from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError

VALUE_BYTES_MAX = 50_000
"""For the service's setting: larger values are dead letters."""

_METADATA_SECONDS = 10.0
_WORDS = 70
_RECENT = 3_000
_LETTERS = np.array([*map(chr, range(0x4E00, 0x9FA6)), *"abcdefghijklmnopqrstuvwxyz" * 800])


@dataclass(frozen=True, slots=True)
class Sent:
    """A record for the input topic."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


def records(seed: int) -> Iterator[Sent]:
    """Endless records, the same for the same seed: new texts, near and exact copies, short texts, and what cannot be read."""
    chance = np.random.default_rng(seed)
    recent: list[list[str]] = []
    number = 0
    while True:
        number += 1
        sort = chance.choice(
            ["new", "near", "same", "short", "broken"],
            p=[0.5, 0.25, 0.15, 0.05, 0.05],
        )
        if sort == "broken":
            value = broken(number)
            # The client sends no record without both.
            yield Sent(value, None if value else f"key-{number}".encode())
            continue
        if sort == "short":
            text = f"短{chance.integers(50)}"
        elif sort == "new" or not recent:
            letters = "".join(chance.choice(_LETTERS, 4 * _WORDS))
            words = [letters[4 * at : 4 * at + 1 + at % 4] for at in range(_WORDS)]
            recent = [*recent[-_RECENT:], words]
            text = " ".join(words)
        else:
            words = list(recent[chance.integers(len(recent))])
            if sort == "near":
                words[chance.integers(_WORDS)] = "changed"
            text = " ".join(words)
        value = orjson.dumps({"id": f"chaos-{number}", "text": text})
        yield Sent(value, f"key-{number}".encode(), (("crawler", b"7"),)) if number % 3 else Sent(value)


def broken(number: int) -> bytes | None:
    """The n-th record that cannot be decoded; None is a tombstone."""
    values = (
        b"{no JSON",
        b"\xff\xfe\xfa",
        b'{"id": "without text"}',
        b'{"id": "number", "text": 7}',
        b"[" * 5_000,
        orjson.dumps({"id": "large", "text": "x" * (VALUE_BYTES_MAX + 1)}),
        orjson.dumps({"id": "wordless", "text": "?!"}),
        '{"id": "cut", "text": "é'.encode()[:-1],
        b"",
    )
    return values[number % len(values)] if number % 10 else None


class PatientProducer:
    """Producer that is replaced by a new one after any failure. For one thread."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers
        self._producer: KafkaProducer | None = None
        # A producer's finaliser mutes the logger of its module, so all of them live on.
        self._given_up: list[KafkaProducer] = []

    def send(self, topic: str, by_partition: dict[int, list[Sent]], timeout_seconds: float) -> dict[int, int]:
        """Send records, and wait until all are acknowledged. Returns the last offset by partition. Raises KafkaError."""
        try:
            if self._producer is None:
                self._producer = KafkaProducer(
                    bootstrap_servers=self._servers,
                    acks="all",
                    linger_ms=2,
                    request_timeout_ms=3_000,
                    delivery_timeout_ms=6_000,
                    max_block_ms=3_000,
                    metadata_max_age_ms=1_000,
                    reconnect_backoff_max_ms=300,
                    compression_type="lz4",
                )
            _require_partitions(self._producer, topic, set(by_partition))
            futures = {
                partition: [
                    self._producer.send(
                        topic, value=sent.value, key=sent.key, headers=list(sent.headers), partition=partition
                    )
                    for sent in batch
                ]
                for partition, batch in by_partition.items()
                if batch
            }
            return {
                partition: max(future.get(timeout=timeout_seconds).offset for future in each)
                for partition, each in futures.items()
            }
        except KafkaError:
            self.close()
            raise

    def close(self) -> None:
        if self._producer is not None:
            self._given_up.append(self._producer)
            try:
                self._producer.close(timeout=0)
            except KafkaError:
                self._producer._sender.force_close()
            self._producer = None


def _require_partitions(producer: KafkaProducer, topic: str, wanted: set[int]) -> None:
    """Wait until the client knows partitions, some of which may be new. Raises KafkaTimeoutError."""
    deadline = time.monotonic() + _METADATA_SECONDS
    while not wanted <= (producer.partitions_for(topic) or set()):
        if time.monotonic() > deadline:
            raise KafkaTimeoutError(f"{topic} has no partitions {sorted(wanted)}")
        time.sleep(0.1)


class Traffic:
    """Documents that flow into all partitions of a topic from a thread of their own; a context manager."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int, rate: float, seed: int) -> None:
        """`rate`: records a second, about; less while the broker is away."""
        self.partitions = partitions
        """Partitions of the topic; may grow."""
        self._topic, self._rate = topic, rate
        self._records = records(seed)
        self._chance = np.random.default_rng([seed, 1])
        self._flowing, self._marking = PatientProducer(bootstrap_servers), PatientProducer(bootstrap_servers)
        self._marks = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._flow, name="traffic", daemon=True)

    def __enter__(self) -> "Traffic":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        self._marking.close()

    def stop(self) -> None:
        """Let nothing more flow in but marks."""
        self._stopped.set()
        self._thread.join()

    @property
    def flows(self) -> bool:
        """Whether documents flow in: False once stopped, and where the thread has failed."""
        return self._thread.is_alive()

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    def mark(self) -> dict[int, int] | None:
        """Send one document to every partition. Returns their offsets, or None where the broker does not take them."""
        self._marks += 1
        text = f"mark number {self._marks} of this run, which is like no other document: {self._marks * 7_919}"
        by_partition = {
            partition: [Sent(orjson.dumps({"id": f"mark-{self._marks}", "text": f"{text} {partition}"}))]
            for partition in range(self.partitions)
        }
        try:
            return self._marking.send(self._topic, by_partition, timeout_seconds=6)
        except KafkaError:
            return None

    def _flow(self) -> None:
        while not self._stopped.is_set():
            begin = time.monotonic()
            by_partition: dict[int, list[Sent]] = {}
            count = max(1, round(self._rate / 5))
            for partition in self._chance.integers(self.partitions, size=count).tolist():
                by_partition.setdefault(partition, []).append(next(self._records))
            try:
                self._flowing.send(self._topic, by_partition, timeout_seconds=8)
            except KafkaError:
                # Whether they went in or not: what stands in the topic is what counts.
                time.sleep(0.1)
            self._stopped.wait(max(0.0, begin + count / self._rate - time.monotonic()))
        self._flowing.close()
