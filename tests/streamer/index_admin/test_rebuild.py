"""An index rebuilt from the output topics, whatever stands in its place."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from index import DATA_FILE, Insert, Position, Source, Verdict
from index.storage.layout import STAMP_KEY, Table
from index.tools import FORMER_FILE
from streamer.errors import BrokerUnavailable
from streamer.index_admin import rebuild
from streamer.records.record import Destination, Record
from streamer.settings.settings import Route, Settings, load
from streamer.transports.transport import Trimmed
from tests.support.command_line import Done, run
from tests.support.indexes import all_records, changed, looked_at, opened, wrong
from tests.support.memory_broker import Crash, Crashed, MemoryTransport
from tests.support.memory_service import SENTENCES, World, document, with_an_undelivered_original
from tests.support.verified import verified
from tests.support.verified import wrong as verified_wrong


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A service that has delivered SENTENCES; what a rebuild asks of Kafka is answered by its broker."""
    world = World(tmp_path / "index")
    world.fill([document(f"first-{number}", text) for number, text in enumerate(SENTENCES)])
    world.run()
    answer_from(world, monkeypatch)
    return world


def answer_from(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the world's broker answer what a rebuild asks of Kafka."""
    kafka = world.settings.kafka.model_copy(update={"group": "reader"})
    reader = MemoryTransport(world.broker, world.settings.model_copy(update={"kafka": kafka}), "reader")
    reader.open()

    def committed(_: Settings) -> dict[Source, int]:
        return dict(world.broker.group(world.settings.kafka.group).committed)

    def changelog(
        _: Settings, ranges: Mapping[Source, range], destinations: Sequence[Destination]
    ) -> Iterator[list[Record]]:
        return reader.changelog(ranges, destinations)

    def inputs(_: Settings, positions: Collection[Position]) -> Iterator[list[Record]]:
        return reader.inputs_at(positions)

    def trimmed(
        _: Settings, ranges: Mapping[Source, range], destinations: Sequence[Destination]
    ) -> Iterator[Trimmed | None]:
        return reader.trimmed(ranges, destinations)

    monkeypatch.setattr(rebuild, "committed_offsets", committed)
    monkeypatch.setattr(rebuild, "read_changelog", changelog)
    monkeypatch.setattr(rebuild, "read_inputs", inputs, raising=False)
    monkeypatch.setattr(rebuild, "find_trimmed", trimmed)


def old_format(directory: Path) -> None:
    with looked_at(directory) as index:
        parameters = index.parameters
    stamp = json.dumps(json.loads(parameters.stamp()) | {"format": 2}).encode()
    with opened(directory, parameters) as index:
        changed(index, lambda transaction: transaction.put(Table.META, STAMP_KEY, stamp))


def cut_short(directory: Path) -> None:
    file = directory / DATA_FILE
    file.write_bytes(file.read_bytes()[:-4_096])


def empty(directory: Path) -> None:
    (directory / DATA_FILE).write_bytes(b"")


unreadable = pytest.mark.parametrize("spoil", [old_format, cut_short, empty])


def rebuilt(world: World, new: Path, *arguments: object) -> Done:
    return run("index", "--directory", world.directory, "rebuild", new, "--topics", *arguments)


def ids_in(directory: Path) -> set[str]:
    with looked_at(directory) as index:
        return {document.id for document in index.documents(range(len(SENTENCES) + 1)) if document is not None}


@unreadable
def test_an_index_that_cannot_be_read_is_rebuilt_and_replaced_by_one_command(
    world: World, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(world.directory)
    spoiled = (world.directory / DATA_FILE).read_bytes()
    assert run("index", "--directory", world.directory, "stats").code in (65, 78)
    done = rebuilt(world, tmp_path / "new", "--switch")
    assert done.code == 0, done.err
    assert "the index in place cannot be read" in done.err
    assert (world.directory / FORMER_FILE).read_bytes() == spoiled
    assert wrong(world.directory) == {}
    assert ids_in(world.directory) == {f"first-{number}" for number in range(len(SENTENCES))}
    world.fill([document(f"again-{number}", text) for number, text in enumerate(SENTENCES)])
    world.run()
    assert [name for name, _ in world.outputs().values()][-1] == world.settings.topics.duplicate
    assert len(world.broker.records(world.settings.topics.unique)) == len(SENTENCES)


@unreadable
def test_a_rebuild_that_fails_leaves_an_index_that_cannot_be_read_as_it_was(
    world: World, tmp_path: Path, spoil: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(world.directory)
    spoiled = (world.directory / DATA_FILE).read_bytes()

    def away(*_: object) -> NoReturn:
        raise BrokerUnavailable("no answer")

    for part in ("read_changelog", "committed_offsets"):
        monkeypatch.setattr(rebuild, part, away)
        assert rebuilt(world, tmp_path / "new", "--switch").code == 75
        assert not (tmp_path / "new").exists()
        assert (world.directory / DATA_FILE).read_bytes() == spoiled
        assert not (world.directory / FORMER_FILE).exists()


def test_what_is_delivered_after_a_rebuild_enters_the_new_index_also_where_it_was_decided_before(
    world: World, tmp_path: Path
) -> None:
    late = "Volunteers counted more wading birds on the mudflats this winter than in any year since the dam was built."
    world.fill([Crash(), document("late", late)])
    with pytest.raises(Crashed):
        world.run_once()
    assert rebuilt(world, tmp_path / "new").code == 0
    world.run()
    world.directory = tmp_path / "new"
    world.fill([document("repost", late)])
    world.run()
    destinations = [name for name, _ in world.outputs().values()]
    assert destinations[-1] == world.settings.topics.duplicate
    assert len(destinations) == len(SENTENCES) + 2


@pytest.mark.parametrize("insert", ["unique", "root"])
def test_an_original_that_a_delivered_duplicate_names_enters_a_rebuilt_index_before_its_own_delivery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, insert: Insert
) -> None:
    world = with_an_undelivered_original(tmp_path / "index", insert)
    answer_from(world, monkeypatch)
    assert rebuilt(world, tmp_path / "new", "--set", f"index.insert={insert}").code == 0
    world.directory = tmp_path / "new"
    world.run()
    topics = world.settings.topics
    destinations = {at.removeprefix(topics.input): where for at, (where, _) in world.outputs().items()}
    assert destinations == {"/1/0": topics.unique, "/0/0": topics.duplicate, "/0/1": topics.duplicate}
    assert verified_wrong(verified(world)) == {}


@pytest.mark.parametrize("insert", ["unique", "root"])
def test_a_rebuild_without_the_input_leaves_out_an_original_that_a_delivered_duplicate_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, insert: Insert
) -> None:
    """The same without the safeguard."""
    world = with_an_undelivered_original(tmp_path / "index", insert)
    answer_from(world, monkeypatch)
    monkeypatch.setattr(rebuild, "read_inputs", lambda *_: iter(()))
    assert rebuilt(world, tmp_path / "new", "--set", f"index.insert={insert}").code == 0
    world.directory = tmp_path / "new"
    world.run()
    topic = world.settings.topics.input
    assert verified_wrong(verified(world))["original-not-unique"] == [f"{topic}/0/0: names {topic}/1/0"]


@pytest.mark.parametrize("insert", ["unique", "root"])
def test_what_came_out_in_shadow_mode_enters_a_rebuilt_index_as_what_it_was_decided_to_be(
    world: World, tmp_path: Path, insert: str
) -> None:
    for shadow in (True, False):
        world.settings = world.settings.model_copy(update={"route": Route(shadow=shadow)})
        world.fill([document(f"copy-{shadow}-{number}", text + "!") for number, text in enumerate(SENTENCES)])
        world.run()
    assert len(world.broker.records(world.settings.topics.unique)) == 2 * len(SENTENCES)
    done = rebuilt(world, tmp_path / "new", "--set", f"index.insert={insert}")
    assert done.code == 0
    with looked_at(tmp_path / "new") as index:
        found = Counter(record.verdict for record in all_records(index))
    count = len(SENTENCES)
    # The unique output is read once more for the duplicates in it, and each record counts once.
    assert f"{found.total()} records in {tmp_path / 'new'}" in done.out
    assert found == {Verdict.UNIQUE: count} | ({} if insert == "unique" else {Verdict.DUPLICATE: 2 * count})


@pytest.mark.parametrize(
    ("first", "then", "late"),
    [
        ("minhash.similarity_min=0.9", "minhash.similarity_min=0.5", "duplicate"),
        ("minhash.similarity_min=0.5", "minhash.similarity_min=0.9", "unique"),
        ("minhash.similarity_min=0.9", "fingerprint.scheme=simhash", "duplicate"),
    ],
)
def test_a_rebuild_from_the_outputs_decides_later_documents_by_other_thresholds_or_another_scheme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, then: str, late: str
) -> None:
    paragraph = " ".join(SENTENCES[2:4] + SENTENCES[5:])
    world = World(tmp_path / "index", load(None, [first], {}))
    world.fill(
        [document("first", paragraph), document("second", paragraph.replace("harbour council", "city assembly"))]
    )
    world.run()
    answer_from(world, monkeypatch)
    chosen = ("--set", then, "index", "--directory", world.directory)
    assert run(*chosen, "rebuild", tmp_path / "new", "--topics").code == 0
    assert wrong(tmp_path / "new") == {}
    world = World(tmp_path / "new", load(None, [then], {}), world.broker)
    world.fill([document("third", paragraph.replace("summer season", "winter storms"))])
    world.run()
    destinations = [name.removeprefix("documents-") for _, (name, _) in sorted(world.outputs().items())]
    assert destinations == ["unique", "duplicate" if late == "unique" else "unique", late]


def test_an_output_that_has_lost_records_is_told_of(world: World, tmp_path: Path) -> None:
    assert "missing" not in rebuilt(world, tmp_path / "whole").err
    world.broker.delete_before(world.settings.topics.unique, 0, 2)
    done = rebuilt(world, tmp_path / "new")
    assert done.code == 0
    assert "documents may be missing in the new index" in done.err
    assert len(ids_in(tmp_path / "new")) == len(SENTENCES) - 2


def test_a_topic_of_which_nothing_was_decided_is_no_source_of_an_index(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild, "committed_offsets", lambda _: {})
    cut_short(world.directory)
    done = rebuilt(world, tmp_path / "new")
    assert done.code == 78
    assert "correct topics.input, kafka.group or index.directory" in done.err
    assert not (tmp_path / "new").exists()
