"""A second count of a finished run, record by record: by a plain consumer, without code of the product or of the ledger.

It shares nothing with `streamer verify` and with `bench.chaos.ledger` but the wire format, so that one mistake cannot hide in
all three. It holds everything in memory, for some 100,000 documents.
"""

import hashlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafka import KafkaConsumer, TopicPartition

_SILENCE_SECONDS_MAX = 60.0
_OWN = "neardup."
_CONNECT = "__connect.errors."
_CONNECT_HEADERS = 10
_KEPT = ("unique", "update", "suspect", "given-back")
"""Verdicts whose documents come out in the unique topic, and that a duplicate may name."""

_DESTINATIONS = {
    **dict.fromkeys((*_KEPT, "undecidable"), "unique"),
    "duplicate": "duplicate",
    "dead-letter": "dead-letter",
}
LINES_MAX = 20

Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """One record as a topic has it; a header without a value counts as one with an empty value."""

    place: str
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers

    @property
    def own(self) -> dict[str, str]:
        return {name: value.decode(errors="replace") for name, value in self.headers if name.startswith(_OWN)}

    @property
    def foreign(self) -> Headers:
        return tuple(header for header in self.headers if not header[0].startswith(_OWN))


@dataclass
class Recount:
    """What went in by position, and what came out by the position that it names, with its destination.

    `problems` is what does not fit together, in words.
    """

    inputs: dict[str, Seen]
    outputs: Mapping[str, Sequence[Seen]]
    problems: list[str] = field(default_factory=list)

    def run(self) -> list[str]:
        """All problems: by position, by content, and by what duplicates name."""
        by_position: dict[str, list[tuple[str, Seen]]] = {}
        for destination, records in self.outputs.items():
            for record in records:
                by_position.setdefault(record.own.get("neardup.position", ""), []).append((destination, record))
        for position in sorted(by_position.keys() - self.inputs.keys()):
            places = [record.place for _, record in by_position[position]]
            self.problems.append(f"{position or 'no position'}: in {', '.join(places)}, and never went in")
        for position, record in self.inputs.items():
            outputs = by_position.get(position, [])
            delivered = [each for each in outputs if each[1].own.get("neardup.verdict") != "given-back"]
            if len(delivered) != 1:
                places = ", ".join(each.place for _, each in delivered) or "nowhere"
                self.problems.append(f"{position}: came out {len(delivered)} times: {places}")
            for destination, output in outputs:
                self._compare(position, record, destination, output)
        self._compare_contents()
        self._look_at_equal_records()
        self._look_at_originals(by_position)
        return self.problems

    def _compare(self, position: str, record: Seen, destination: str, output: Seen) -> None:
        verdict = output.own.get("neardup.verdict", "")
        kept = output.foreign
        if verdict == "dead-letter":
            kept, connect = kept[:-_CONNECT_HEADERS], kept[-_CONNECT_HEADERS:]
            if not all(name.startswith(_CONNECT) for name, _ in connect):
                self.problems.append(f"{position}: {output.place} lacks the headers of Kafka Connect")
        # confluent-kafka cannot write a timestamp of 0.
        one_for_zero = (record.timestamp_ms, output.timestamp_ms) == (0, 1)
        differences = {
            "value": output.value != record.value,
            "key": output.key != record.key,
            "timestamp": output.timestamp_ms != record.timestamp_ms and not one_for_zero,
            "headers": kept != record.foreign,
            "verdict": "neardup.shadow" not in output.own and _DESTINATIONS.get(verdict) != destination,
        }
        self.problems += [
            f"{position}: {output.place} has another {part}" for part, differs in differences.items() if differs
        ]

    def _compare_contents(self) -> None:
        """Count equal records without a look at positions: as many come out as went in."""
        went_in = Counter(_digest(record) for record in self.inputs.values())
        came_out = Counter(
            _digest(record)
            for records in self.outputs.values()
            for record in records
            if record.own.get("neardup.verdict") != "given-back"
        )
        for missing, words in ((went_in - came_out, "more often in than out"), (came_out - went_in, "more often out")):
            if count := missing.total():
                self.problems.append(f"{count} records by key and value: {words}")

    def _look_at_equal_records(self) -> None:
        """Records with the same key and value have the same id and text: at most one of them is unique."""
        uniques = Counter(
            _digest(record)
            for records in self.outputs.values()
            for record in records
            if record.own.get("neardup.verdict") == "unique"
        )
        if count := sum(each - 1 for each in uniques.values()):
            self.problems.append(f"{count} records are unique, and equal to another unique one by key and value")

    def _look_at_originals(self, by_position: Mapping[str, Sequence[tuple[str, Seen]]]) -> None:
        """What names an original is dropped for something that came out in the unique topic, and does not name itself."""
        for position, outputs in by_position.items():
            for _, output in outputs:
                original = output.own.get("neardup.original.position")
                if original is None:
                    continue
                verdicts = [record.own.get("neardup.verdict", "") for _, record in by_position.get(original, ())]
                if original == position:
                    self.problems.append(f"{position}: names itself")
                elif not any(verdict in _KEPT for verdict in verdicts) and not self._is_promoted(original, by_position):
                    verdict_texts = ", ".join(verdicts) or "nothing"
                    self.problems.append(f"{position}: names {original}, which came out as {verdict_texts}")

    def _is_promoted(self, original: str, by_position: Mapping[str, Sequence[tuple[str, Seen]]]) -> bool:
        """Whether a duplicate may be named, for an update took the place of what it was dropped for."""
        roots = {record.own.get("neardup.original.position") for _, record in by_position.get(original, ())}
        return any(
            record.own.get("neardup.verdict") == "update" and record.own.get("neardup.original.position") in roots
            for outputs in by_position.values()
            for _, record in outputs
        )


def recount(bootstrap_servers: str, input_topic: str, outputs: Mapping[str, str]) -> list[str]:
    """What is wrong, in words: of the input topic and the output topics, by destination. Reads all that is committed."""
    # The outputs first, so that each of them names a record that the input has by then.
    came_out = {destination: read(bootstrap_servers, topic) for destination, topic in outputs.items()}
    inputs = {record.place: record for record in read(bootstrap_servers, input_topic)}
    problems = Recount(inputs, came_out).run()
    more = [f"and {len(problems) - LINES_MAX} more"] if len(problems) > LINES_MAX else []
    return [f"recount: {line}" for line in (*problems[:LINES_MAX], *more)]


def read(bootstrap_servers: str, topic: str) -> list[Seen]:
    """All committed records of a topic, to the ends of now."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap_servers, isolation_level="read_committed", group_id=None, enable_auto_commit=False
    )
    try:
        parts = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        ends, seen = consumer.end_offsets(parts), []
        consumer.assign(parts)
        consumer.seek_to_beginning(*parts)
        moved_at = time.monotonic()
        while any(consumer.position(part) < ends[part] for part in parts):
            polled = consumer.poll(timeout_ms=200)
            moved_at = time.monotonic() if polled else moved_at
            if time.monotonic() - moved_at > _SILENCE_SECONDS_MAX:
                raise TimeoutError(f"recount: {topic} gives no more records before its ends {ends}")
            seen += [
                Seen(
                    f"{topic}/{part.partition}/{record.offset}",
                    record.key,
                    record.value,
                    record.timestamp,
                    tuple((name, value or b"") for name, value in record.headers),
                )
                for part, records in polled.items()
                for record in records
            ]
        return seen
    finally:
        consumer.close()


def _digest(record: Seen) -> bytes:
    parts = (b"-" if part is None else b"+%d:%b" % (len(part), part) for part in (record.key, record.value))
    return hashlib.blake2b(b"".join(parts), digest_size=16).digest()
