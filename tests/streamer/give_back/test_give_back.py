"""Giving back over the broker in memory: what was lost comes back once, wherever the command dies, and stays."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import copytree
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.made_up_site import LANGUAGES, Language, site
from index import Index, Verdict, errors
from index.storage.file.commit_hooks import CommitHooks
from streamer.errors import DeliveryDoubtful, RecoveryRefused, SettingsError
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.give_back.give_back import GiveBack, Survey, lock_give_back, require_whole
from streamer.give_back.selection import Selection
from streamer.records.decode import Decoder
from streamer.settings.settings import Batching, Settings
from streamer.transports.output_log import GIVE_BACK
from streamer.verification.verify import verify
from streamer.what_if.compare import compared
from tests.support.examples import examples
from tests.support.memory_broker import Crashed, CrashPoint, Stored
from tests.support.memory_output_log import MemoryOutputLog
from tests.support.memory_service import SENTENCES, World

SITE, OTHER = "site.example", "other.example"
TEMPLATE = "".join(SENTENCES)
START_MS = 1_700_000_000_000


def page(number: int, host: str = SITE, version: str = "") -> Stored:
    name = f"page number {number:04}"
    value = orjson.dumps({"id": f"{host}/{number}", "text": f"{TEMPLATE} {name} {name[::-1]} {version}", "host": host})
    headers = (("trace", b"%d" % number), ("neardup.verdict", b"somebody else's"), ("empty", None))
    return Stored(f"key {number}".encode(), value, START_MS + number, headers)


def wiped(directory: Path, pages: int = 12, **sections: object) -> World:
    """A site whose pages were dropped but one, and another site with the same template."""
    index = {"templates": False} | dict(sections.get("index") or {})  # type: ignore[call-overload]
    sections = {"batch": Batching(records_max=4)} | sections | {"index": index}
    world = World(directory, Settings.model_validate(sections))
    world.broker.create_for(world.settings, 2)
    found = [*(page(number) for number in range(pages)), *(page(number, OTHER) for number in range(4))]
    world.broker.write("documents", 0, found[::2])
    world.broker.write("documents", 1, found[1::2])
    world.run()
    return world


def is_given_back(record: Stored) -> bool:
    return ("neardup.verdict", b"given-back") in record.headers


def given_back(world: World) -> list[Stored]:
    return [record for record in world.broker.records(world.settings.topics.unique) if is_given_back(record)]


@contextmanager
def command(world: World, *crashes: CrashPoint | None, hooks: CommitHooks | None = None) -> Iterator[GiveBack]:
    scheme = scheme_for(world.settings)
    parameters = parameters_for(world.settings, scheme.stamp())
    with Index.open(world.directory, parameters, map_bytes_max=2**30, hooks=hooks) as index:
        output_log = MemoryOutputLog(world.broker, world.settings, crashes=list(crashes))
        require_whole(output_log, index)
        output_log.open(GIVE_BACK)
        yield GiveBack(output_log, index, Decoder(world.settings.decode), scheme, world.settings.batch)


def run(world: World, selection: Selection) -> Survey:
    with command(world) as giving:
        return giving.run(selection)


def verified(world: World) -> dict[str, list[str]]:
    with Index.open(world.directory, None, map_bytes_max=2**30, read_only=True) as index:
        output_log = MemoryOutputLog(world.broker, world.settings)

        @contextmanager
        def no_bar(_title: str, _total: int | None) -> Iterator[Any]:
            yield lambda _done: None

        findings = verify(world.settings, output_log, index, no_bar, sample=None)
    return {each.check: each.examples for each in findings if each.wrong}


def lost(world: World) -> Counter[str]:
    return Counter(
        orjson.loads(record.value or b"")["host"] for record in world.broker.records(world.settings.topics.duplicate)
    )


def test_a_site_that_was_wiped_comes_back_with_keys_values_and_headers_as_they_came(tmp_path: Path) -> None:
    world = wiped(tmp_path)
    assert lost(world) == {SITE: 11, OTHER: 4}
    found = run(world, Selection(host=SITE))
    assert (found.matched, found.given_back, found.before) == (11, 11, 0)
    assert found.hosts == {SITE: 11}
    came = {(each.key, each.value, each.timestamp_ms) for each in map(page, range(1, 12))}
    back = given_back(world)
    assert {(each.key, each.value, each.timestamp_ms) for each in back} == came
    assert len(back) == 11
    for each in back:
        headers = dict(each.headers)
        assert set(headers) == {
            *("trace", "empty", "neardup.verdict", "neardup.position", "neardup.stream", "neardup.id"),
            *("neardup.original.id", "neardup.original.position", "neardup.original.stream"),
        }
        assert headers["neardup.original.id"] == f"{SITE}/0".encode()
        assert each.headers[0] == ("trace", (each.key or b"").removeprefix(b"key "))
    assert verified(world) == {}


def test_what_was_given_back_is_not_given_back_again_whoever_asks(tmp_path: Path) -> None:
    world = wiped(tmp_path)
    assert run(world, Selection(id=f"{SITE}/3")).given_back == 1
    with command(world) as giving:
        preview = giving.preview(Selection(host=SITE))
    assert (preview.matched, preview.given_back, preview.before) == (11, 0, 1)
    assert len(given_back(world)) == 1
    found = run(world, Selection(host=SITE))
    assert (found.given_back, found.before) == (10, 1)
    found = run(world, Selection(original=f"{SITE}/0", since_ms=START_MS + 5))
    assert (found.matched, found.given_back) == (7, 0)
    assert run(world, Selection(id="nobody")).matched == 0
    assert len(given_back(world)) == 11


def test_what_was_given_back_is_not_dropped_for_another_document_again(tmp_path: Path) -> None:
    world = wiped(tmp_path)
    run(world, Selection(host=SITE))
    positions = len(world.broker.records("documents"))
    changed = [page(number, version="a few words more") for number in (3, 4)]
    world.broker.write("documents", 0, [*changed, page(99, OTHER)])
    world.starts = 0
    world.run()
    assert len(world.broker.records("documents")) == positions + 3
    new = [each for each in world.broker.records(world.settings.topics.unique) if each.value == changed[0].value]
    # Its own version came back, so no other document decides on it.
    assert [dict(each.headers)["neardup.original.id"] for each in new] == [f"{SITE}/3".encode()]
    assert verified(world) == {}


CRASHES = st.lists(st.sampled_from([None, *CrashPoint]), max_size=4)


@examples(12)
@given(
    st.lists(st.tuples(CRASHES, st.sampled_from([None, 1, 2, 3, 4])), max_size=4), st.sampled_from(["unique", "root"])
)
def test_wherever_the_command_dies_every_page_comes_back_once(
    tmp_path_factory: pytest.TempPathFactory, lives: list[tuple[list[CrashPoint | None], int | None]], insert: str
) -> None:
    world = wiped(tmp_path_factory.mktemp("wiped"), index={"insert": insert})
    selections = [Selection(host=SITE), Selection(original=f"{SITE}/0")]
    for life, (crashes, commit) in enumerate(lives):
        with suppress(Crashed), command(world, *crashes, hooks=dying_at(commit)) as giving:
            giving.run(selections[life % 2])
    run(world, Selection(host=SITE))
    run(world, Selection(host=SITE))
    back = Counter(each.key for each in given_back(world) if SITE.encode() in (each.value or b""))
    assert back == {f"key {number}".encode(): 1 for number in range(1, 12)}
    assert max(Counter(dict(each.headers)["neardup.position"] for each in given_back(world)).values()) == 1
    assert verified(world) == {}


def dying_at(commit: int | None) -> CommitHooks:
    """The process dies before its n-th commit to the index, counted from 1; None: it does not."""
    left = commit

    def before() -> None:
        nonlocal left
        left = None if left is None else left - 1
        if left == 0:
            raise Crashed(f"before commit {commit}")

    return CommitHooks(before_commit=before)


def test_a_command_that_was_taken_over_sends_no_more_and_settles_nothing_of_the_other(tmp_path: Path) -> None:
    world = wiped(tmp_path)
    with command(world) as giving:
        MemoryOutputLog(world.broker, world.settings).open(GIVE_BACK)
        with pytest.raises(DeliveryDoubtful):
            giving.run(Selection(host=SITE))
        assert len(giving.index.undelivered()) == 4
    assert given_back(world) == []
    found = run(world, Selection(id="nobody"))
    assert (found.finished, found.gone) == (4, [])
    assert len(given_back(world)) == 4


def test_one_command_at_a_time_gives_back_by_an_index(tmp_path: Path) -> None:
    with (
        lock_give_back(tmp_path),
        pytest.raises(errors.GivingBackError, match="wait for its end"),
        lock_give_back(tmp_path),
    ):
        pass
    with lock_give_back(tmp_path):
        pass


def test_a_decided_record_that_has_left_the_duplicates_is_told(tmp_path: Path) -> None:
    world = wiped(tmp_path)
    with suppress(Crashed), command(world, CrashPoint.BEFORE_COMMIT) as giving:
        giving.run(Selection(host=SITE))
    for number, log in enumerate(world.broker.topics[world.settings.topics.duplicate].partitions):
        world.broker.delete_before(world.settings.topics.duplicate, number, log.end)
    found = run(world, Selection(host=SITE))
    assert (found.finished, len(found.gone), found.matched) == (0, 4, 0)
    assert run(world, Selection(host=SITE)).gone == []


@pytest.mark.parametrize("insert", ["unique", "root"])
def test_an_index_restored_from_the_outputs_knows_what_was_given_back(tmp_path: Path, insert: str) -> None:
    world = wiped(tmp_path / "first", index={"insert": insert})
    run(world, Selection(host=SITE))
    again = [page(number, version="a few words more") for number in range(1, 6)]
    restored = World(tmp_path / "second", world.settings, broker=world.broker)
    restored.broker.write("documents", 0, again)
    restored.run()
    for each in world.broker.records(world.settings.topics.duplicate):
        if each.value in {record.value for record in again}:
            own = orjson.loads(each.value or b"")["id"].encode()
            assert dict(each.headers)["neardup.original.id"] == own
    assert run(restored, Selection(original=f"{SITE}/0", host=SITE)).given_back == 0
    assert verified(restored) == {}


def test_an_index_that_lost_what_was_given_back_learns_it_and_sends_nothing_twice(tmp_path: Path) -> None:
    world = wiped(tmp_path / "index")
    copytree(tmp_path / "index", tmp_path / "older")
    run(world, Selection(host=SITE))
    older = World(tmp_path / "older", world.settings, broker=world.broker)
    found = run(older, Selection(host=SITE))
    assert (found.given_back, found.before) == (0, 11)
    assert len(given_back(world)) == 11
    with command(older) as giving:
        assert [each.verdict for each in giving.index.decided({f"{SITE}/3"})] == [Verdict.DUPLICATE, Verdict.GIVEN_BACK]


def test_other_settings_are_compared_with_what_was_decided_not_with_what_a_person_gave_back(tmp_path: Path) -> None:
    world = wiped(tmp_path)
    run(world, Selection(host=SITE))

    @contextmanager
    def no_bar(_title: str, _total: int | None) -> Iterator[Any]:
        yield lambda _done: None

    with compared(world.settings, MemoryOutputLog(world.broker, world.settings), no_bar) as differences:
        verdicts = [(each["delivered"]["verdict"], each["other"]["verdict"]) for each in differences.lines()]
    assert Counter(verdicts) == {("duplicate", "duplicate"): 15, ("unique", "unique"): 1}


def test_an_index_that_is_behind_or_of_another_group_gives_nothing_back(tmp_path: Path) -> None:
    world = wiped(tmp_path / "first")
    copytree(tmp_path / "first", tmp_path / "older")
    world.broker.write("documents", 0, [page(99)])
    world.starts = 0
    world.run()
    older = World(tmp_path / "older", world.settings, broker=world.broker)
    with pytest.raises(RecoveryRefused, match="lags its group"), command(older):
        pass
    group = world.broker.group(world.settings.kafka.group)
    group.claims = dict.fromkeys(group.committed, ("another", True))
    with pytest.raises(SettingsError, match="not the group"), command(world):
        pass


def test_pages_lost_before_their_template_was_known_come_back_and_copies_do_not(tmp_path: Path) -> None:
    world = World(tmp_path, Settings.model_validate({"batch": {"records_max": 8}}))
    crawled = site("en", 0.1, pages=30, copies=0)
    texts = [*crawled.texts, crawled.texts[20]]
    values = [orjson.dumps({"id": str(n), "text": text, "host": SITE}) for n, text in enumerate(texts)]
    world.fill([Stored(None, value, START_MS + n) for n, value in enumerate(values)])
    world.run()
    dropped = world.broker.records(world.settings.topics.duplicate)
    assert [each.value for each in dropped] == [*values[1:7], values[30]]
    selection = Selection(for_template=True)
    with command(world) as giving:
        assert giving.preview(selection).matched == 6
    found = run(world, selection)
    assert (found.matched, found.given_back, found.hosts) == (6, 6, {SITE: 6})
    assert [each.value for each in given_back(world)] == values[1:7]
    assert run(world, selection).matched == 0
    assert verified(world) == {}


@pytest.mark.parametrize("language", LANGUAGES)
def test_pages_dropped_while_a_new_design_of_a_known_host_waited_come_back(language: Language, tmp_path: Path) -> None:
    """The first pages of the design look like versions of one. Its copy, the last record, stays a duplicate."""
    world = World(tmp_path, Settings.model_validate({"batch": {"records_max": 8}}))
    ordinary = site(language, 0.7, pages=60, copies=0, seed=5).texts
    redesigned = site(language, 0.1, pages=50, copies=0, seed=6).texts
    texts = [*ordinary, *redesigned, redesigned[40]]
    values = [orjson.dumps({"id": str(n), "text": text, "host": SITE}) for n, text in enumerate(texts)]
    world.fill([Stored(None, value, START_MS + n) for n, value in enumerate(values)])
    world.run()
    dropped = [each.value for each in world.broker.records(world.settings.topics.duplicate)]
    assert dropped[-1] == values[-1]
    assert 3 <= len(dropped[:-1]) <= 14
    assert set(dropped[:-1]) <= set(values[60:110])
    found = run(world, Selection(for_template=True))
    assert [each.value for each in given_back(world)] == dropped[:-1]
    assert found.hosts == {SITE: len(dropped) - 1}
    assert verified(world) == {}
