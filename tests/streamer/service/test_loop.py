"""The loop, crashed at every point: the outputs are those of an undisturbed run."""

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Condition, Event
from typing import Any, Literal, NoReturn

import numpy as np
import orjson
import pytest
from structlog.testing import capture_logs

from deploy.made_up_site import site as made_up_site
from index import Decisions, Entries, HostShare, Index, Verdict, errors
from index.storage.file.commit_hooks import CommitHooks
from index.tools import Record as ExportedRecord
from index.tools import frames_of
from streamer.errors import RecoveryRefused, TrialFailed
from streamer.fingerprint.documents import fingerprint_documents
from streamer.fingerprint.scheme import scheme_for
from streamer.observe.batch_report import STEPS
from streamer.records.decode import DeadLetter, Decoder, Document
from streamer.records.record import Batch, Headers, Lost, Outgoing, Record
from streamer.service.index_steps import ByIndex
from streamer.service.loop import Loop
from streamer.service.pipeline import Prefetcher, Work
from streamer.service.poison.trial import Trials, Tried
from streamer.service.state import State
from streamer.service.wiring import router_of
from streamer.settings.settings import Batching, Decode, Fingerprint, Recovery, Route, Settings, Workers, load
from streamer.settings.settings import Index as IndexSettings
from tests.support.indexes import all_records, looked_at
from tests.support.memory_broker import Crash, Crashed, CrashPoint, MemoryTransport, Stored
from tests.support.memory_service import SENTENCES, World, document
from tests.support.paths import ROOT
from tests.support.without_journal import forget_positions


def stream() -> list[bytes]:
    """Unique documents, near-duplicates in the same and in later batches, an undecidable one and dead letters."""
    items = [document(f"base-{number}", text) for number, text in enumerate(SENTENCES)]
    copies = [document(f"copy-{number}", text + "！") for number, text in enumerate(SENTENCES)]
    return [items[0], copies[0], *items[1:4], b"no json", document("empty", ""), *copies[1:4], *items[4:], *copies[4:]]


def settings(records_max: int = 3, **sections: object) -> Settings:
    return Settings.model_validate({"batch": Batching(records_max=records_max)} | sections)


def peaceful(directory: Path, chosen: Settings) -> World:
    world = World(directory, chosen)
    world.fill(stream())
    world.run()
    return world


def test_every_record_comes_out_once_with_its_verdict(tmp_path: Path) -> None:
    world = peaceful(tmp_path, settings())
    destinations = Counter(destination for destination, _ in world.outputs().values())
    assert destinations == {"documents-unique": 7, "documents-duplicate": 6, "documents-dead-letter": 1}
    assert world.starts == 1


def test_every_step_is_told_when_it_begins_and_a_turn_without_records_only_reads(tmp_path: Path) -> None:
    world = peaceful(tmp_path, settings(100))
    told = " ".join(world.steps)
    assert told.count(" ".join(STEPS)) == len(world.reports) == 1
    assert set(told.replace(" ".join(STEPS), "").split()) == {"read"}


def test_batches_of_any_size_give_the_same_outputs(tmp_path: Path) -> None:
    expected = peaceful(tmp_path / "3", settings()).outputs()
    for size in (1, 2, 5, 100):
        assert peaceful(tmp_path / str(size), settings(size)).outputs() == expected


class Prepared:
    """First offsets of the batches that are decided and routed; whoever delivers may wait for one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun: set[int] = set()
        self._told = Condition()
        route = ByIndex.route

        def tell(deciding: ByIndex, work: Work) -> None:
            route(deciding, work)
            with self._told:
                self.begun.add(work.batch.records[0].offset)
                self._told.notify_all()

        monkeypatch.setattr(ByIndex, "route", tell)

    def wait(self, offset: int) -> bool:
        with self._told:
            return self._told.wait_for(lambda: offset in self.begun, 60)


def test_a_batch_is_decided_and_routed_while_the_batch_before_it_is_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared, deliver = Prepared(monkeypatch), MemoryTransport.deliver

    def wait(transport: MemoryTransport, batch: Batch, outgoing: Sequence[Outgoing]) -> None:
        (end,) = batch.ends.values()
        assert end + 3 > len(stream()) or prepared.wait(end)
        deliver(transport, batch, outgoing)

    monkeypatch.setattr(MemoryTransport, "deliver", wait)
    assert len(peaceful(tmp_path, settings()).outputs()) == len(stream())
    assert prepared.begun == set(range(0, len(stream()), 3))


@pytest.mark.parametrize("insert", ["unique", "root"])
@pytest.mark.parametrize("point", list(CrashPoint))
def test_what_was_decided_ahead_of_a_delivery_that_crashed_comes_out_once_and_as_it_was_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: CrashPoint, insert: str
) -> None:
    chosen = settings(index={"insert": insert})
    expected = peaceful(tmp_path / "peace", chosen).outputs()
    prepared, deliver = Prepared(monkeypatch), MemoryTransport.deliver

    def wait(transport: MemoryTransport, batch: Batch, outgoing: Sequence[Outgoing]) -> None:
        assert batch.records[0].offset or prepared.wait(3)
        deliver(transport, batch, outgoing)

    monkeypatch.setattr(MemoryTransport, "deliver", wait)
    world = World(tmp_path / "crash", chosen)
    world.fill([*stream()[:1], Crash(point), *stream()[1:]])
    world.run()
    assert world.starts == 2
    assert world.outputs() == expected
    assert sum(report.replayed for report in world.reports) >= 3


def test_a_stop_delivers_what_is_decided_and_reads_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared, deliver, run, running = Prepared(monkeypatch), MemoryTransport.deliver, Loop.run, list[Loop]()

    def noted(service: Loop) -> None:
        running.append(service)
        run(service)

    def stop(transport: MemoryTransport, batch: Batch, outgoing: Sequence[Outgoing]) -> None:
        if batch.records[0].offset == 0:
            assert prepared.wait(3)
            running[-1].stop()
        deliver(transport, batch, outgoing)

    monkeypatch.setattr(Loop, "run", noted)
    monkeypatch.setattr(MemoryTransport, "deliver", stop)
    world = World(tmp_path, settings())
    world.fill(stream())
    world.run_once()
    assert prepared.begun == {0, 3}
    assert len(world.outputs()) == 6
    assert world.states[-2:] == [State.DRAINING, State.STOPPED]
    world.run_once()
    assert len(world.outputs()) == len(stream())
    assert not sum(report.replayed for report in world.reports)


def test_nothing_is_decided_behind_a_batch_that_could_not_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the first of two near-duplicates would be decided last."""
    admit, begin, both = Index.admit, Prefetcher.begin, Event()
    shutdown = ThreadPoolExecutor.shutdown

    def note(ahead: Prefetcher, batch: Batch, *arguments: Any) -> None:
        begin(ahead, batch, *arguments)
        if batch.records[0].offset == 6:
            both.set()

    def full(index: Index, entries: Entries, *arguments: Any) -> Decisions:
        if int(entries.offsets[0]) == 3:
            assert both.wait(60)
            raise errors.IndexFullError("no room")
        return admit(index, entries, *arguments)

    world = World(tmp_path, settings())
    world.fill(stream())
    with monkeypatch.context() as filled:
        filled.setattr(Index, "admit", full)
        filled.setattr(Prefetcher, "begin", note)
        filled.setattr(ThreadPoolExecutor, "shutdown", lambda thread, **_: shutdown(thread))
        with pytest.raises(errors.IndexFullError):
            world.run_once()
    with looked_at(tmp_path) as index:
        assert [applied.offset for applied in index.applied().values()] == [3]
    assert len(world.outputs()) == 3 == sum(report.records for report in world.reports)
    world.run()
    assert world.outputs() == peaceful(tmp_path / "peace", settings()).outputs()


@pytest.mark.parametrize("preset", ["minhash", "simhash-plain", "simhash-improved-1"])
def test_outputs_show_similarities_of_every_method_that_measures_them(preset: str) -> None:
    """The part `route` has no index to ask."""
    chosen = load(None, (), {}, preset=preset)
    router = router_of(chosen, scheme_for(chosen), "0")
    assert router.measure.by_similarity is (preset != "simhash-plain")


def decisions_of(world: World) -> dict[str, Headers]:
    return {position: headers for position, (_, headers) in world.outputs().items()}


def switched(world: World, *, shadow: bool) -> None:
    world.settings = world.settings.model_copy(update={"route": Route(shadow=shadow)})


def test_in_shadow_mode_every_document_goes_with_the_unique_ones_and_no_decision_changes(tmp_path: Path) -> None:
    world = peaceful(tmp_path / "shadow", settings(route={"shadow": True}))
    destinations = Counter(destination for destination, _ in world.outputs().values())
    assert destinations == {"documents-unique": 13, "documents-dead-letter": 1}
    expected = peaceful(tmp_path / "filter", settings())
    assert decisions_of(world) == decisions_of(expected)
    assert [report.outcomes for report in world.reports] == [report.outcomes for report in expected.reports]


@pytest.mark.parametrize("shadow", [True, False])
@pytest.mark.parametrize("point", list(CrashPoint))
def test_a_batch_that_was_decided_before_shadow_mode_was_switched_comes_out_once_and_as_it_was_decided(
    tmp_path: Path, point: CrashPoint, shadow: bool
) -> None:
    expected = peaceful(tmp_path / "peace", settings())
    world = World(tmp_path / "crash", settings(route={"shadow": not shadow}))
    world.fill([*stream()[:9], Crash(point), *stream()[9:]])
    with pytest.raises(Crashed):
        world.run_once()
    before = world.outputs()
    switched(world, shadow=shadow)
    world.run()
    assert decisions_of(world) == decisions_of(expected)
    late = [name for position, (name, _) in world.outputs().items() if position not in before]
    assert ("documents-duplicate" in late) is not shadow


def site(count: int) -> list[bytes]:
    """Pages of one template with a little text of their own, and a copy of the first."""
    page = "".join(SENTENCES)
    texts = [f"{page} {name} {name[::-1]}" for name in (f"page number {number:04}" for number in range(count))]
    return [
        orjson.dumps({"id": str(number), "text": text, "url": f"https://Site.example/{number}"})
        for number, text in enumerate([*texts, texts[0]])
    ]


@pytest.mark.parametrize("crash", [None, CrashPoint.BEFORE_COMMIT, CrashPoint.AFTER_COMMIT])
def test_a_site_whose_pages_are_dropped_is_told_once_and_counted_whatever_crashes(
    tmp_path: Path, crash: CrashPoint | None
) -> None:
    world = World(tmp_path, settings(5, guard={"documents_min": 10}, index=IndexSettings(templates=False)))
    items: list[bytes | Crash] = list(site(30))
    world.fill(items if crash is None else [*items[:17], Crash(crash), *items[17:]])
    with capture_logs() as told:
        world.run()
    beyond = [line for line in told if "guard.share_max" in line["event"]]
    assert [(line["event"], line["host"], line["log_level"]) for line in beyond] == [
        ("host beyond guard.share_max", "site.example", "warning")
    ]
    # The first page is unique, and the copy of it is equal. A batch is not reported where its worker dies before.
    unreported = 5 if crash is CrashPoint.AFTER_COMMIT else 0
    assert sum(report.unequal for report in world.reports) == 29 - unreported
    with looked_at(tmp_path) as index:
        assert index.watched_hosts().worst == [HostShare("site.example", 30, 29, True)]


def test_pages_one_host_are_kept_beside_its_frame_and_counted_by_their_reason(tmp_path: Path) -> None:
    world = World(tmp_path, settings(5))
    texts = made_up_site("en", 0.03, pages=40, copies=0).texts
    values = [{"id": f"https://site.example/{number}", "text": text} for number, text in enumerate(texts)]
    world.fill([orjson.dumps(value) for value in values])
    world.run()
    outcomes = sum((Counter(report.outcomes) for report in world.reports), Counter())
    assert outcomes["duplicate", "similar"] <= 15
    assert outcomes["unique", "template"] > 0
    with looked_at(tmp_path) as index:
        (frame,) = frames_of(index, 10)
    assert (frame.host, frame.kept) == ("site.example", outcomes["unique", "template"])


def passing(records_max: int = 5) -> Settings:
    return settings(
        records_max, guard={"documents_min": 10, "policy": "pass"}, index=IndexSettings(insert="root", templates=False)
    )


def test_beyond_the_limits_a_site_passes_as_suspect_and_names_what_it_resembles(tmp_path: Path) -> None:
    world = World(tmp_path, passing())
    world.fill(site(30))
    world.run()
    told = [dict(record.headers) for record in world.broker.records("documents-unique")]
    verdicts = Counter(headers["neardup.verdict"] for headers in told)
    assert verdicts == {b"unique": 1, b"suspect": 19}
    suspects = [headers for headers in told if headers["neardup.verdict"] == b"suspect"]
    assert {headers["neardup.reason"] for headers in suspects} == {b"host-beyond-limits"}
    assert {headers["neardup.original.id"] for headers in suspects} == {b"0"}
    assert all(float(headers["neardup.similarity"] or 0) >= 0.7 for headers in suspects)
    # The copy of the first page is equal, and stays a duplicate.
    dropped = [dict(record.headers)["neardup.id"] for record in world.broker.records("documents-duplicate")]
    assert dropped == [str(number).encode() for number in (*range(1, 11), 30)]


@pytest.mark.parametrize("point", list(CrashPoint))
@pytest.mark.parametrize("offset", [0, 12, 22])
def test_suspects_come_out_once_and_the_same_whatever_crashes(tmp_path: Path, offset: int, point: CrashPoint) -> None:
    expected = peaceful_site(tmp_path / "peace").outputs()
    world = World(tmp_path / "crash", passing())
    items: list[bytes | Crash] = list(site(30))
    items.insert(offset, Crash(point))
    world.fill(items)
    world.run()
    assert world.starts == 2
    assert world.outputs() == expected


@pytest.mark.parametrize("kept", [0, 5, 20])
def test_a_lost_index_is_restored_with_its_suspects(tmp_path: Path, kept: int) -> None:
    """Their copies are duplicates after it as before, and so is what resembles them."""
    values = site(30)
    world = World(tmp_path / "index", passing())
    world.fill(values[:kept])
    world.run()
    shutil.copytree(tmp_path / "index", tmp_path / "old-copy")
    world.fill(values[kept:])
    world.run()
    world.directory = tmp_path / "old-copy" if kept else tmp_path / "new"
    world.fill(values[11:31])
    world.run()
    assert sum(world.restored) == 31 - kept
    outputs = world.outputs()
    assert {outputs[f"documents/0/{offset}"][0] for offset in range(31, 51)} == {"documents-duplicate"}
    with looked_at(tmp_path / "index") as first, looked_at(world.directory) as second:
        expected = {_restorable(each) for each in all_records(first)}
        assert expected == {_restorable(each) for each in all_records(second) if each.offset < 31}
        assert Counter(verdict for _, _, verdict, _, _ in expected)[Verdict.SUSPECT] == 19


def crawls() -> list[bytes]:
    """Six pages, crawled four times: as they were, changed, changed again or as a copy of another, and as they were at first."""
    first = [document(f"page-{number}", text) for number, text in enumerate(SENTENCES)]
    second = [document(f"page-{number}", f"{text} 最新消息。") for number, text in enumerate(SENTENCES)]
    third = [document(f"page-{number}", text) for number, text in enumerate([*SENTENCES[1:], SENTENCES[0] * 2])]
    return [*first[:4], *first, *second, *third, *first]


def crawling(insert: str = "unique") -> Settings:
    return settings(5, index=IndexSettings(insert=insert))  # type: ignore[arg-type]


@pytest.mark.parametrize("point", list(CrashPoint))
@pytest.mark.parametrize("offset", [0, 11, 13, 20])
def test_updates_come_out_once_and_the_same_whatever_crashes(tmp_path: Path, offset: int, point: CrashPoint) -> None:
    expected = World(tmp_path / "peace", crawling())
    expected.fill(crawls())
    expected.run()
    assert sum(report.outcomes.get(("update", "recrawled"), 0) for report in expected.reports) >= 6
    world = World(tmp_path / "crash", crawling())
    items: list[bytes | Crash] = list(crawls())
    items.insert(offset, Crash(point))
    world.fill(items)
    world.run()
    assert world.starts == 2
    assert world.outputs() == expected.outputs()
    with looked_at(tmp_path / "peace") as first, looked_at(world.directory) as second:
        assert first.statistics().forgotten == second.statistics().forgotten > 0


@pytest.mark.parametrize("insert", ["unique", "root"])
@pytest.mark.parametrize("kept", [0, 9, 14])
def test_a_lost_index_is_restored_with_its_updates(tmp_path: Path, insert: str, kept: int) -> None:
    """What was replaced counts no more, and what is crawled again is decided as by the index that was lost."""
    values, following = crawls()[:20], crawls()[20:]
    world = World(tmp_path / "index", crawling(insert))
    world.fill(values[:kept])
    world.run()
    shutil.copytree(tmp_path / "index", tmp_path / "old-copy")
    world.fill(values[kept:])
    world.run()
    peaceful = World(tmp_path / "peace", crawling(insert))
    peaceful.fill([*values, *following])
    peaceful.run()
    world.directory = tmp_path / "old-copy" if kept else tmp_path / "new"
    world.fill(following)
    world.run()
    assert world.restored
    assert world.outputs() == peaceful.outputs()


def peaceful_site(directory: Path) -> World:
    world = World(directory, passing())
    world.fill(site(30))
    world.run()
    return world


def _restorable(record: ExportedRecord) -> tuple[object, ...]:
    """What a restoration brings back of a decision."""
    return record.source, record.offset, record.verdict, record.reason, record.origin


@pytest.mark.parametrize("point", list(CrashPoint))
@pytest.mark.parametrize("offset", range(len(stream())))
def test_a_crash_in_delivery_changes_no_output(tmp_path: Path, offset: int, point: CrashPoint) -> None:
    expected = peaceful(tmp_path / "peace", settings()).outputs()
    world = World(tmp_path / "crash", settings())
    items: list[bytes | Crash] = list(stream())
    items.insert(offset, Crash(point))
    world.fill(items)
    world.run()
    assert world.starts == 2
    assert world.outputs() == expected


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("passage", range(1, 8))
def test_a_crash_around_the_index_commit_changes_no_output(tmp_path: Path, passage: int, side: str) -> None:
    expected = peaceful(tmp_path / "peace", settings()).outputs()
    world = World(tmp_path / "crash", settings())
    world.fill(stream())
    left = passage

    def crash() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Crashed(side)

    world.run(CommitHooks(**{f"{side}_commit": crash}))
    assert world.starts == 2
    assert world.outputs() == expected


def test_a_crash_before_every_single_delivery_changes_no_output(tmp_path: Path) -> None:
    expected = peaceful(tmp_path / "peace", settings()).outputs()
    world = World(tmp_path / "crash", settings(1))
    world.fill([item for value in stream() for item in (Crash(CrashPoint.BEFORE_COMMIT), value)])
    world.run()
    assert world.starts == 1 + len(stream())
    assert world.outputs() == expected


def test_without_the_journal_a_crash_after_the_decision_does_change_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: with equal outputs here, the tests above would prove nothing."""
    expected = peaceful(tmp_path / "peace", settings()).outputs()
    forget_positions(monkeypatch)
    world = World(tmp_path / "crash", settings())
    world.fill([Crash(CrashPoint.BEFORE_DELIVER), *stream()])
    world.run()
    assert world.starts == 2
    assert world.outputs() != expected


def test_replayed_verdicts_are_counted_as_such(tmp_path: Path) -> None:
    world = World(tmp_path, settings())
    world.fill([Crash(CrashPoint.BEFORE_COMMIT), *stream()])
    world.run()
    # The first batch, and the second one where it was decided before the crash.
    assert sum(report.replayed for report in world.reports) in {3, 6}
    assert sum(report.records for report in world.reports) == len(stream())


@pytest.mark.parametrize("insert", ["unique", "root"])
@pytest.mark.parametrize("kept", [0, 5, 9])
def test_an_index_that_lost_commits_is_restored_from_the_outputs(tmp_path: Path, kept: int, insert: str) -> None:
    """A copy of the index after `kept` records, or an empty one, takes the place of the index."""
    chosen = settings(index=IndexSettings(insert=insert))  # type: ignore[arg-type]
    late = [document(f"late-{number}", text + "。") for number, text in enumerate(SENTENCES)]
    whole = World(tmp_path / "whole", chosen)
    whole.fill([*stream(), *late])
    whole.run()

    world = World(tmp_path / "index", chosen)
    world.fill(stream()[:kept])
    world.run()
    shutil.copytree(tmp_path / "index", tmp_path / "old-copy")
    world.fill(stream()[kept:])
    world.run()
    world.directory = tmp_path / "old-copy" if kept else tmp_path / "new"
    world.fill(late)
    world.run()
    assert sum(world.restored) > 0
    assert _verdicts(world) == _verdicts(whole)


def _verdicts(world: World) -> dict[str, object]:
    return {position: (destination, headers[:2]) for position, (destination, headers) in world.outputs().items()}


def test_a_worker_that_gets_no_source_stands_by_and_is_ready(tmp_path: Path) -> None:
    world = World(tmp_path, settings())
    world.fill(stream())
    owner = MemoryTransport(world.broker, world.settings, "owner")
    owner.open()
    owner.read()
    world.run()
    assert world.reports == []
    assert world.states == [State.STARTING, State.RUNNING, State.DRAINING, State.STOPPED]


def test_a_recreated_topic_stops_the_service_and_is_read_anew_where_the_policy_says_so(tmp_path: Path) -> None:
    world = peaceful(tmp_path, settings())
    world.broker.create("documents")
    world.fill([document("new", "A topic made anew holds a new document, which nobody has seen before in this place.")])
    with pytest.raises(RecoveryRefused, match="deleted and made again"):
        world.run()
    world.run_once(policy=Recovery(topic_recreated="continue"))
    assert sum(report.records for report in world.reports) == len(stream()) + 1


def test_records_gone_by_retention_stop_the_service_or_are_counted(tmp_path: Path) -> None:
    world = World(tmp_path, settings())
    world.fill(stream()[:3])
    world.run()
    world.fill(stream()[3:])
    world.broker.delete_before("documents", 0, 7)
    with pytest.raises(RecoveryRefused, match="4 offsets from 3 on were deleted by retention"):
        world.run()
    world.run_once(policy=Recovery(offsets_gone="skip"))
    assert [skipped for skipped in world.skipped if skipped[2]] == [("documents", 0, 4)]
    assert len(world.outputs()) == len(stream()) - 4


@pytest.mark.parametrize("answer", ["stop", "skip"])
def test_records_gone_by_retention_under_a_running_service_are_decided_about_without_a_restart(
    tmp_path: Path, answer: Literal["stop", "skip"]
) -> None:
    world = World(tmp_path, settings(recovery=Recovery(offsets_gone=answer)))
    world.fill(stream())

    class Steps(list[str]):
        def append(self, step: str) -> None:
            super().append(step)
            if self.count("commit") == 1:
                world.broker.delete_before("documents", 0, 9)

    world.steps = Steps()
    if answer == "stop":
        with pytest.raises(RecoveryRefused, match="3 offsets from 6 on were deleted by retention"):
            world.run()
    else:
        world.run()
        # The second batch was at hand while the first was delivered.
        assert [skipped for skipped in world.skipped if skipped[2]] == [("documents", 0, 3)]
        assert len(world.outputs()) == len(stream()) - 3
    assert world.starts == 1


def test_records_that_cannot_be_read_leave_one_dead_letter_and_their_offsets_are_counted(tmp_path: Path) -> None:
    world = World(tmp_path, settings())
    world.fill(stream()[:3])
    world.broker.write("documents", 0, [Crash(), Stored(None, None, lost=Lost(4, "offsets 3 to 6 are damaged"))])
    world.fill(stream()[3:])
    world.run()
    assert world.starts == 2
    assert [skipped for skipped in world.skipped if skipped[2]] == [("documents", 0, 4)]
    letters = [dict(letter.headers) for letter in world.broker.records(world.settings.topics.dead_letter)]
    (headers,) = [headers for headers in letters if headers["neardup.reason"] == b"unreadable"]
    assert headers["neardup.position"] == b"documents/0/3"
    assert headers["__connect.errors.exception.message"] == b"unreadable: offsets 3 to 6 are damaged"
    assert len(world.outputs()) == len(stream()) + 1


def test_a_group_that_lost_its_offsets_goes_on_where_the_index_is(tmp_path: Path) -> None:
    world = peaceful(tmp_path, settings())
    world.broker.group("neardup").committed.clear()
    with pytest.raises(RecoveryRefused, match=r"recovery\.committed_missing"):
        world.run()
    world.run_once(policy=Recovery(committed_missing="applied"))
    assert len(world.outputs()) == len(stream())


def simhash_settings(**sections: object) -> Settings:
    # The sentences are short, and their copies end in one more punctuation mark.
    return settings(fingerprint=Fingerprint(scheme="simhash", features_min=1, second_look="none"), **sections)


def test_duplicates_show_their_similarity(tmp_path: Path) -> None:
    world = peaceful(tmp_path, settings())
    similarities = np.concatenate([report.similarities for report in world.reports])
    assert similarities.tolist() == [1.0] * 6
    assert not any(len(report.distances) for report in world.reports)
    shown = [dict(headers) for destination, headers in world.outputs().values() if destination == "documents-duplicate"]
    assert {headers["neardup.similarity"] for headers in shown} == {b"1.0"}
    assert {headers["neardup.distance"] for headers in shown} == {None}


def test_simhash_walks_the_same_path_and_shows_distances(tmp_path: Path) -> None:
    world = peaceful(tmp_path, simhash_settings())
    outputs = world.outputs()
    assert Counter(destination for destination, _ in outputs.values()) == {
        "documents-unique": 7,
        "documents-duplicate": 6,
        "documents-dead-letter": 1,
    }
    distances = np.concatenate([report.distances for report in world.reports])
    assert distances.tolist() == [0] * 6
    assert not any(len(report.similarities) for report in world.reports)
    shown = [dict(headers) for destination, headers in outputs.values() if destination == "documents-duplicate"]
    assert {headers["neardup.distance"] for headers in shown} == {b"0"}
    assert {headers["neardup.similarity"] for headers in shown} == {None}


# --- a second look ---------------------------------------------------------------------------------------------------


def looking_settings(kind: str, **sections: object) -> Settings:
    return settings(
        fingerprint=Fingerprint(scheme="simhash", features_min=1, second_look=kind),  # type: ignore[arg-type]
        decode=Decode(metadata=["/id"]),
        **sections,
    )


def test_a_second_look_at_metadata_tells_similarities(tmp_path: Path) -> None:
    world = peaceful(tmp_path, looking_settings("metadata"))
    similarities = np.concatenate([report.similarities for report in world.reports])
    # A copy differs in one punctuation mark. Documents share metadata, which are their ids, only by chance.
    assert len(similarities) == 6
    assert ((similarities >= 0.9) & (similarities < 0.91)).all()
    assert not any(len(report.distances) for report in world.reports)
    shown = [dict(headers) for place, headers in world.outputs().values() if place == "documents-duplicate"]
    assert sorted(float(headers["neardup.similarity"] or b"") for headers in shown) == sorted(similarities.tolist())
    assert {headers["neardup.distance"] for headers in shown} == {None}


def test_a_record_that_kills_every_worker_is_tried_apart_and_becomes_a_dead_letter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'tests/support/poisoned'}:{ROOT}")
    world = World(tmp_path, settings())
    poison = document("poison", "deadly-segfault")
    world.fill([*stream()[:5], poison, *stream()[5:]])
    decode = Decoder.decode

    def deadly(decoder: Decoder, records: Sequence[Record]) -> list[Document | DeadLetter]:
        if any(record.value == poison for record in records):
            raise Crashed
        return decode(decoder, records)

    monkeypatch.setattr(Decoder, "decode", deadly)
    world.run()
    assert world.starts == 1 + world.settings.workers.deaths_max
    outputs = world.outputs()
    assert len(outputs) == len(stream()) + 1
    destination, headers = outputs["documents/0/5"]
    assert (destination, dict(headers)["neardup.reason"]) == (world.settings.topics.dead_letter, b"poison")
    (letter,) = [each for each in world.broker.records(destination) if each.value == poison]
    assert b"SIGSEGV" in (dict(letter.headers)["__connect.errors.exception.message"] or b"")
    others = Counter(destination for position, (destination, _) in outputs.items() if position != "documents/0/5")
    assert others == {"documents-unique": 7, "documents-duplicate": 6, "documents-dead-letter": 1}


def test_a_trial_that_is_cut_short_delivers_what_it_has_and_a_fresh_worker_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, settings(workers=Workers(deaths_max=1)))
    world.fill(stream())
    monkeypatch.setattr(Decoder, "decode", raises(Crashed))
    with pytest.raises(Crashed):
        world.run_once()
    monkeypatch.undo()
    monkeypatch.setattr(Trials, "run", lambda trials, records, *_: tried(world.settings, records[:2]))
    ends = 0
    while True:
        try:
            world.run_once()
            break
        except TrialFailed:
            ends += 1
            assert len(world.outputs()) == 2 * ends
    assert ends
    assert len(world.outputs()) == len(stream())


@pytest.mark.parametrize("count", [0, 2])
def test_a_stop_amid_a_trial_delivers_what_was_tried_and_ends_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    world = World(tmp_path, settings(workers=Workers(deaths_max=1)))
    world.fill(stream())
    with monkeypatch.context() as deadly:
        deadly.setattr(Decoder, "decode", raises(Crashed))
        with pytest.raises(Crashed):
            world.run_once()
    run, running = Loop.run, list[Loop]()

    def noted(service: Loop) -> None:
        running.append(service)
        run(service)

    def stopped(_: Trials, records: Sequence[Record], __: object, stop_asked: Callable[[], bool]) -> Tried | None:
        assert not stop_asked()
        running[-1].stop()
        assert stop_asked()
        return tried(world.settings, records[:count]) if count else None

    monkeypatch.setattr(Loop, "run", noted)
    monkeypatch.setattr(Trials, "run", stopped)
    world.run_once()
    assert world.states[-2:] == [State.DRAINING, State.STOPPED]
    assert len(world.outputs()) == count
    monkeypatch.setattr(Trials, "run", lambda _, records, *__: tried(world.settings, records))
    world.run_once()
    assert len(world.outputs()) == len(stream())


def tried(chosen: Settings, records: Sequence[Record]) -> Tried:
    documents = Decoder(chosen.decode).decode(records)
    return Tried(documents, fingerprint_documents(scheme_for(chosen), documents))


def raises(error: type[Exception]) -> Callable[..., NoReturn]:
    def refuse(*_: object) -> NoReturn:
        raise error

    return refuse
