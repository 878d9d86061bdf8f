"""Services in memory, held against what they delivered; and outputs that are changed behind their backs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from index import Index
from streamer.records.record import Headers
from streamer.verification.findings import Findings
from streamer.verification.verify import verify
from tests.support.memory_broker import Partition, Stored
from tests.support.memory_output_log import MemoryOutputLog
from tests.support.memory_service import World


@contextmanager
def no_bar(_title: str, _total: int | None) -> Iterator[Callable[[int], None]]:
    yield lambda _done: None


def verified(world: World, output_log: MemoryOutputLog | None = None, sample: int | None = None) -> Findings:
    output_log = output_log or MemoryOutputLog(world.broker, world.settings)
    with Index.open(world.directory, None, map_bytes_max=2**30, read_only=True) as index:
        return verify(world.settings, output_log, index, no_bar, sample=sample)


def wrong(findings: Findings) -> dict[str, list[str]]:
    """What is wrong, by the kind of problem."""
    return {each.check: each.examples for each in findings if each.wrong}


def outputs(world: World, name: str) -> list[tuple[Partition, int, Stored]]:
    """All records of an output, each with its log and its offset there."""
    logs = world.broker.topics[name].partitions
    return [(log, offset, record) for log in logs for offset, record in log.records.items()]


def position_of(record: Stored) -> str:
    return (dict(record.headers)["neardup.position"] or b"").decode()


def with_header(headers: Headers, name: str, value: str) -> Headers:
    return tuple((key, value.encode() if key == name else old) for key, old in headers)
