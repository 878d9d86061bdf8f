"""A site is wiped and comes back, over a real broker: foretold in shadow mode, seen and explained, given back once.

One story with one service, because services take long to start. Each part of it is a function.
"""

import dataclasses
import signal
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import psutil
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from deploy.kafka_run import Run, stop
from streamer.demo.demo import documents
from tests.support import doomed_command, doomed_worker
from tests.support.command_line import run as run_here
from tests.support.lives import exit_code_of
from tests.support.memory_service import SENTENCES
from tests.support.services import Started, make_run, wait_until

SITE = "site.example"
TEMPLATE = "".join(SENTENCES)
PAGES = 26
NEWS = list(documents(160))
START_MS = 1_700_000_000_000
TOKEN = "correct-horse-battery-staple"
STRICTER, LOOSER = ("minhash.similarity_min=0.95",), ("minhash.similarity_min=0.7",)
WIPED = ("index.templates=false", "batch.records_max=100")
AT_ONCE = 10
"""Records that commands give back at once."""
NEVER = 10_000


def own_words(number: int) -> str:
    name = f"page number {number:04}"
    return f"{name} {name[::-1]}"


def page(number: int, version: str = "") -> bytes:
    text = f"{TEMPLATE} {own_words(number)} {version}"
    return orjson.dumps({"id": f"page-{number}", "text": text, "host": SITE})


PAGES_AND_NEWS = [page(number) for number in range(PAGES)] + NEWS


def sent(run: Run, values: list[bytes], first: int = 0) -> None:
    """Send values with keys, headers and times of their own: the news to one partition, which keeps their order."""
    producer = KafkaProducer(bootstrap_servers=run.bootstrap_servers, acks="all")
    for number, value in enumerate(values, first):
        headers = [("trace", b"%d" % number), ("neardup.verdict", b"somebody else's")]
        partition = {} if number < PAGES else {"partition": 0}
        producer.send(
            run.input_topic, value, f"key {number}".encode(), headers, timestamp_ms=START_MS + number, **partition
        )
    producer.flush()
    producer.close()


def held(run: Run, topic: str) -> list[Any]:
    """All committed records of a topic."""
    consumer = KafkaConsumer(
        bootstrap_servers=run.bootstrap_servers,
        isolation_level="read_committed",
        enable_auto_commit=False,
        group_id=None,
    )
    partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    ends = consumer.end_offsets(partitions)
    found: list[Any] = []
    while any(consumer.position(at) < ends[at] for at in partitions):
        found += [record for records in consumer.poll(timeout_ms=200).values() for record in records]
    consumer.close()
    return found


def header(record: Any, name: str) -> bytes:
    value: bytes = dict(record.headers)[name]
    return value


def verdicts(records: list[Any]) -> Counter[str]:
    return Counter(header(record, "neardup.verdict").decode() for record in records)


def killed(run: Run, moment: str, commit: int, *command: str) -> bool:
    """Whether a command that kills itself did so."""
    return exit_code_of(doomed_command.command, moment, commit, run.arguments(*command)[3:]) == -signal.SIGKILL


def told(run: Run, *command: str) -> Any:
    done = run_here(*run.arguments(*command, "--json")[3:])
    assert done.code == 0, done.err
    return orjson.loads(done.out)


def ask(run: Run, path: str, asked: list[object] | None = None) -> tuple[int, Any]:
    body = None if asked is None else orjson.dumps({"documents": asked})
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{run.port}{path}", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, orjson.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, orjson.loads(error.read())


@pytest.fixture
def foretold(kafka: SimpleNamespace, tmp_path: Path) -> dict[str, int]:
    """Documents by verdict, of the site's pages and the news: what `compare` tells from a worker in shadow mode, which keeps all.

    The worker's own threshold is stricter, by which the pages are unique.
    """
    run = make_run(kafka.bootstrap_servers, tmp_path / "shadow", *WIPED, *STRICTER, "route.shadow=true")
    sent(run, PAGES_AND_NEWS)
    settings = [one for one in run.arguments() if "=" in one]
    assert exit_code_of(doomed_worker.live, "after-read", NEVER, len(PAGES_AND_NEWS), True, settings) == 0
    assert held(run, run.topic("duplicate")) == []
    kept = verdicts(held(run, run.topic("unique"))) + verdicts(held(run, run.topic("dead-letter")))
    assert kept.total() == len(PAGES_AND_NEWS)
    found = told(run, "compare", *(part for one in LOOSER for part in ("--set", one)))
    assert (found["documents"], found["of_unknown_order"], found["left_out"]) == (kept.total(), 0, {})
    assert found["delivered"]["duplicate"] == kept["duplicate"] > 0
    other: dict[str, int] = found["other"]
    return other


@pytest.fixture
def wiped(kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started]) -> Iterator[tuple[Run, Started]]:
    """A service that has dropped all pages of the site but one."""
    asked = ("ask.enabled=true", f"ask.token={TOKEN}", "ask.texts=true")
    run = make_run(kafka.bootstrap_servers, tmp_path, *WIPED, *asked, partitions=2)
    service = start(run)
    sent(run, PAGES_AND_NEWS)
    yield run, service
    assert stop(service.process) == 0


def test_a_wiped_site_is_foretold_seen_explained_and_given_back_once_though_commands_and_answers_are_killed(
    foretold: dict[str, int], wiped: tuple[Run, Started]
) -> None:
    run, service = wiped
    wait_until(lambda: run.delivered() == len(PAGES_AND_NEWS))
    dropped = held(run, run.topic("duplicate"))
    assert len(dropped) == foretold["duplicate"]
    lost = {record.key: record for record in dropped if orjson.loads(record.value).get("host") == SITE}
    assert len(lost) == PAGES - 1
    (original,) = {header(record, "neardup.original.id").decode() for record in lost.values()}
    require_seen_and_explained(run, original)
    require_answers_after_a_kill(run, service)
    require_given_back_once(run, original, lost)
    require_replayed_once(run, len(held(run, run.topic("dead-letter"))))
    require_not_dropped_again(run)
    verified = told(run, "verify", "--all")
    assert verified["sound"], [each for each in verified["checks"] if each["wrong"]]
    assert verified["counts"]["given-back"] == PAGES - 1


def require_seen_and_explained(run: Run, original: str) -> None:
    """The page and `streamer why` name the site, the original and the words."""
    # 404: it answers, and knows nothing of this id.
    wait_until(lambda: ask(run, "/v1/pairs")[0] == 200 and ask(run, "/v1/documents/none")[0] == 404)
    # Workers tell of hosts every few seconds.
    wait_until(lambda: [each["host"] for each in ask(run, "/v1/status")[1]["hosts"] if each["unequal"]] == [SITE])
    status = ask(run, "/v1/status")[1]
    assert sum(status["documents"].values()) == len(PAGES_AND_NEWS)
    assert status["hosts"][0]["unequal"] > PAGES // 2
    lost = next(number for number in range(PAGES) if f"page-{number}" != original)
    for why in (
        told(run, "why", f"page-{lost}")["decisions"][0],
        ask(run, f"/v1/documents/{urllib.parse.quote(f'page-{lost}', safe='')}")[1]["decisions"][0],
    ):
        assert (why["verdict"], why["original"]["id"]) == ("duplicate", original)
        for side, number in (("own", lost), ("other", int(original.removeprefix("page-")))):
            spans = why["texts"][side]["spans"]
            differing = "".join(text for kind, text in spans if kind == "differing")
            assert f"{number:04}" in differing
            assert SENTENCES[0] not in differing
    pairs = ask(run, "/v1/pairs")[1]["pairs"]
    assert pairs
    assert all(pair["original_id"] != pair["id"] for pair in pairs)


def require_answers_after_a_kill(run: Run, service: Started) -> None:
    """The port answers from the index of the workers, and outlives the process that answers."""
    known = orjson.loads(page(0))["text"]
    status, answer = ask(run, "/v1/check", [{"text": known}, {"text": "A text of quite other words."}, {"id": "none"}])
    assert status == 200
    first, second, third = answer["answers"]
    assert first["verdict"] == "duplicate"
    assert first["original_position"].startswith(run.input_topic)
    assert (second["verdict"], third["reason"]) == ("unique", "no-text")
    answering(service).send_signal(signal.SIGKILL)
    wait_until(lambda: ask(run, "/v1/check", [{"text": known}])[0] == 503)
    assert run.ready()
    wait_until(lambda: ask(run, "/v1/check", [{"text": known}])[0] == 200)
    assert 'neardup_worker_restarts_total{cause="killed"} 0.0' in run.metrics()


def answering(service: Started) -> psutil.Process:
    """The process that checks: the supervisor starts the worker, then this one, then the one that reads texts."""
    children = psutil.Process(service.process.pid).children()
    spawned = [child for child in children if "spawn_main" in " ".join(child.cmdline())]
    return sorted(spawned, key=psutil.Process.create_time)[1]


def require_given_back_once(run: Run, original: str, lost: dict[bytes, Any]) -> None:
    """What was lost stands in the unique topic once, as it came, though a command was killed."""
    run = dataclasses.replace(run, settings=(*run.settings, f"batch.records_max={AT_ONCE}"))
    # One batch has come out, and all of the next has arrived, uncommitted.
    assert killed(run, "sending", 2, "give-back", "--host", SITE)
    found = told(run, "give-back", "--host", SITE)
    # What an earlier command finished counts as given back before.
    assert (found["finished"], found["given_back"], found["given_back_before"]) == (
        AT_ONCE,
        PAGES - 1 - 2 * AT_ONCE,
        2 * AT_ONCE,
    )
    assert (found["originals"], found["gone"]) == ({original: PAGES - 1}, [])
    assert told(run, "give-back", "--original", original)["given_back"] == 0
    back = [record for record in held(run, run.topic("unique")) if ("neardup.verdict", b"given-back") in record.headers]
    assert Counter(record.key for record in back) == dict.fromkeys(lost, 1)
    for record in back:
        number = int(record.key.removeprefix(b"key "))
        assert (record.value, record.timestamp) == (page(number), START_MS + number)
        assert record.headers[0] == ("trace", b"%d" % number)
        assert header(record, "neardup.position") == header(lost[record.key], "neardup.position")


def require_replayed_once(run: Run, broken: int) -> None:
    assert killed(run, "sending", 1, "dead-letters", "replay")
    assert sum(each["count"] for each in told(run, "dead-letters", "list")["reasons"]) == broken
    assert told(run, "dead-letters", "replay")["replayed"] == broken
    replays = [record for record in held(run, run.input_topic) if "neardup.replayed" in dict(record.headers)]
    again = Counter(header(record, "neardup.replayed") for record in replays)
    assert max(again.values()) == 1


def require_not_dropped_again(run: Run) -> None:
    """A page that was given back and comes again changed is an update of itself, and no copy of the page that was kept."""
    changed = page(7, "a few words more")

    def came() -> list[Any]:
        return [record for record in held(run, run.topic("unique")) if record.value == changed]

    sent(run, [changed], first=7)
    wait_until(lambda: len(came()) == 1)
    assert header(came()[0], "neardup.verdict") == b"update"
    assert header(came()[0], "neardup.original.id") == b"page-7"
