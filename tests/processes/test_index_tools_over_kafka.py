"""The operator's commands that ask the broker, run beside the service."""

import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deploy.kafka_run import Outputs, Run, fill, stop
from index import DATA_FILE
from streamer.demo.demo import documents
from tests.support import command_line
from tests.support.doomed_command import command
from tests.support.indexes import looked_at, wrong
from tests.support.lives import exit_code_of
from tests.support.services import make_run, wait_until

DOCUMENTS = 240


def told(run: Run, *arguments: object, settings: tuple[str, ...] = ()) -> Any:
    chosen = (part for one in settings for part in ("--set", one))
    done = command_line.run(*run.arguments()[3:-1], *chosen, "index", *arguments, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def served(run: Run, log: Path, count: int) -> dict[str, Any]:
    """Run the service until `count` positions are delivered. Returns the statistics that it had meanwhile."""
    process = run.start(log)
    try:
        outputs = Outputs(run)
        assert outputs.wait_for(count, timeout_seconds=180)
        outputs.close()
        found: dict[str, Any] = {}

        def all_is_committed() -> bool:
            found.update(told(run, "stats", "--kafka"))
            return all(each["applied"] == each["committed"] for each in found["sources"])

        wait_until(all_is_committed)
        assert told(run, "check")["sound"] is True
        assert stop(process) == 0
        return found
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def run(kafka: SimpleNamespace, tmp_path: Path) -> Run:
    # The same documents enter by both schemes.
    return make_run(kafka.bootstrap_servers, tmp_path, "index.insert=unique", partitions=2)


def test_an_index_is_looked_at_rebuilt_from_the_topics_though_it_was_damaged_and_switched_to(
    run: Run, tmp_path: Path
) -> None:
    values = list(documents(DOCUMENTS + 60))
    fill(run.bootstrap_servers, run.input_topic, values[:DOCUMENTS])
    stats = served(run, tmp_path / "log", DOCUMENTS)
    assert {source["name"] for source in stats["sources"]} == {run.input_topic}
    assert sum(source["committed"] for source in stats["sources"]) >= DOCUMENTS
    changed = ("fingerprint.scheme=simhash", "fingerprint.bits=128", "index.distance_max=7")
    arguments = [*run.arguments()[3:-1], *(part for one in changed for part in ("--set", one))]
    arguments += ["index", "rebuild", str(tmp_path / "new"), "--topics"]
    assert exit_code_of(command, "after", 6, arguments) == -signal.SIGKILL
    # Applied offsets move at the end: duplicates may still name undelivered originals.
    assert wrong(tmp_path / "new").keys() == {"applied"}
    # The index in place may be damaged meanwhile: the group knows how far to go.
    in_place = run.directory / run.name / DATA_FILE
    in_place.write_bytes(in_place.read_bytes()[:-4_096])
    done = told(run, "rebuild", tmp_path / "new", "--topics", "--switch", settings=changed)
    assert done["switched"]["former"]
    with looked_at(tmp_path / "new") as index:
        statistics = index.statistics()
        assert index.parameters.bits == 128
        assert {source.partition: at.offset for source, at in index.applied().items()} == {
            source["partition"]: source["applied"] for source in stats["sources"]
        }
    assert statistics.entries + statistics.exact_entries == stats["entries"] + stats["exact_entries"]
    fill(run.bootstrap_servers, run.input_topic, values)
    after = Run(run.name, run.bootstrap_servers, run.input_topic, run.directory, run.port, (*run.settings, *changed))
    stats = served(after, tmp_path / "log", 2 * DOCUMENTS + 60)
    known = statistics.entries + statistics.exact_entries
    grown = stats["entries"] + stats["exact_entries"] - known
    # Every unique document came again and was known. Only a document that was a duplicate, or is new, may enter.
    assert 0 < grown <= DOCUMENTS + 60 - known
