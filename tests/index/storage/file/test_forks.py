"""A forked child uses nothing of its parent's index, takes nothing from it, and may open the index anew."""

import inspect
import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from index import Index, Parameters, Position, Turn
from index.errors import AlreadyOpenError, IndexClosedError, NeardupIndexError
from index.index import internals_of
from index.storage import store
from index.storage.file.commit_hooks import CommitHooks
from index.storage.file.forks import OwnDescriptor
from index.storage.layout import Table
from index.tools import backup
from tests.support.entries import ONE, Row, ends_of, entries_of
from tests.support.forks import forked

ROWS = [Row(0, 1, id="a"), Row(1, 1 << 40, id="b")]
FINGERPRINTS = np.array([[1]], np.uint64)

CALLS: dict[str, Callable[[Index], object]] = {
    "admit": lambda index: index.admit(entries_of(ROWS), ends_of(ROWS)),
    "applied": Index.applied,
    "are_given_back": lambda index: index.are_given_back([Position(ONE, 0)]),
    "begin": lambda index: index.begin(ONE, "topic", 0),
    "begin_all": lambda index: index.begin_all({ONE: 0}, {ONE.stream: "topic"}),
    "check": lambda index: index.check(entries_of(ROWS)),
    "clear_stories": lambda index: index.clear_stories(0),
    "decided": lambda index: index.decided(["a"]),
    "decided_at": lambda index: index.decided_at([Position(ONE, 0)]),
    "documents": lambda index: index.documents([0]),
    "due_stories": lambda index: index.due_stories(1),
    "find": lambda index: index.find(["a"]),
    "forget": lambda index: index.forget(["a"]),
    "forget_names": lambda index: index.forget_names("a"),
    "forget_streams": lambda index: index.forget_streams(["a"]),
    "give_back": lambda index: index.give_back(entries_of(ROWS)),
    "judged": lambda index: index.judged(entries_of(ROWS)),
    "newest_near": lambda index: index.newest_near(1),
    "query": lambda index: index.query(FINGERPRINTS),
    "query_exact": lambda index: index.query_exact(FINGERPRINTS),
    "require_open": Index.require_open,
    "restore": lambda index: index.restore(entries_of(ROWS), np.zeros(2, np.uint8), [None, None]),
    "set_applied": lambda index: index.set_applied(ONE, 1),
    "settle": lambda index: index.settle([Position(ONE, 0)]),
    "standings": lambda index: index.standings([0]),
    "states_at": lambda index: index.states_at([Position(ONE, 0)]),
    "statistics": Index.statistics,
    "stories": lambda index: index.stories(1),
    "story": lambda index: index.story(0),
    "stream_names": Index.stream_names,
    "streams": lambda index: index.streams("topic"),
    "take_stories_turn": Index.take_stories_turn,
    "take_turn": Index.take_turn,
    "undelivered": Index.undelivered,
    "watched_hosts": Index.watched_hosts,
}
TOOLS: dict[str, Callable[[Index], object]] = {
    "backup": lambda index: backup.copy(index, internals_of(index).directory.with_name("copy"), compact=False),
    "check_again": lambda index: internals_of(index).store.check_again(),
    "prepare": lambda index: internals_of(index).store.prepare(Table),
    "is_new": lambda index: internals_of(index).store.is_new(),
    "readers": lambda index: internals_of(index).store.readers(),
}


def opened(directory: Path, hooks: CommitHooks | None = None) -> Index:
    return Index.open(directory, Parameters(), map_bytes_max=2**24, hooks=hooks)


def refusals(index: Index) -> dict[str, str]:
    """What each call raises, by its name."""
    found = {}
    for name, call in (CALLS | TOOLS).items():
        try:
            call(index)
        except IndexClosedError as error:
            found[name] = str(error)
        except NeardupIndexError as error:
            found[name] = repr(error)
        else:
            found[name] = "nothing"
    return found


def test_every_public_method_is_among_the_calls_tried_here() -> None:
    methods = {name for name, _ in inspect.getmembers(Index, inspect.isfunction) if not name.startswith("_")}
    assert methods - {"close", "give_turn_back"} == set(CALLS)


def test_after_close_every_call_raises_an_error_of_the_index(tmp_path: Path) -> None:
    index = opened(tmp_path / "index")
    index.close()
    assert set(refusals(index).values()) == {f"The index in {tmp_path / 'index'} is closed. Open it again."}
    index.give_turn_back()
    index.close()


def test_in_a_forked_child_every_call_on_the_parents_index_raises_an_error_of_the_index(tmp_path: Path) -> None:
    with opened(tmp_path / "index") as index:
        index.admit(entries_of(ROWS), ends_of(ROWS))
        found = forked(lambda: refusals(index))()
        assert len(set(found.values())) == 1, found
        assert "was opened by the parent of this process" in found["admit"]
        index.close()
        assert "is closed" in refusals(index)["check"]


def test_a_child_opens_the_index_anew_beside_its_parent_and_closes_nothing_of_it(tmp_path: Path) -> None:
    def child(index: Index) -> tuple[list[bool], int]:
        index.close()
        with opened(tmp_path) as own:
            replayed = own.admit(entries_of(ROWS), ends_of(ROWS)).replayed.tolist()
            later = [Row(2, 7 << 50, id="c")]
            own.admit(entries_of(later), ends_of(later))
            grandchild = forked(lambda: [refusals(each)["admit"] for each in (index, own)])()
            assert all("by the parent" in each for each in grandchild)
            return replayed, own.statistics().journal_rows

    with opened(tmp_path) as index:
        index.admit(entries_of(ROWS), ends_of(ROWS))
        waiting = [forked(lambda: child(index)) for _ in range(3)]
        index.admit(entries_of([Row(9, 9 << 30, id="d")]), {ONE: 10})
        assert [wait()[0] for wait in waiting] == [[True, True]] * 3
        assert index.statistics().journal_rows == 4
        assert len(internals_of(index).store.readers()) <= 1


def test_a_child_that_outlives_its_parents_opening_keeps_no_lock_of_it(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    index = opened(tmp_path / "index")
    assert index.take_turn()
    assert index.take_stories_turn()

    def child() -> tuple[bool, bool]:
        os.close(writing)
        os.read(reading, 1)
        return index.parameters is not None, True

    wait = forked(child)
    index.give_turn_back()
    assert Turn(tmp_path / "index" / "data.mdb").take()
    index.close()
    with opened(tmp_path / "index") as again:
        assert again.take_stories_turn()
    # It replaces the file, which no process may have open.
    backup.replace(tmp_path / "index", tmp_path / "index", keep_former=False)
    os.close(writing)
    assert wait() == (True, True)
    os.close(reading)


def test_a_turn_of_the_parent_is_none_of_the_child(tmp_path: Path) -> None:
    turn = Turn(tmp_path / "file")
    assert turn.take(create=True)
    assert forked(turn.take)() is False
    turn.give_back()
    assert forked(turn.take)() is True


def in_a_call(index: Index, inside: threading.Event, until: threading.Event) -> threading.Thread:
    """A thread amid a write; returns once it is there."""

    def operation(*_: object) -> None:
        inside.set()
        assert until.wait(20)

    thread = threading.Thread(target=lambda: internals_of(index).store.write(operation))
    thread.start()
    assert inside.wait(20)
    return thread


def test_a_fork_waits_for_the_calls_of_other_threads(tmp_path: Path) -> None:
    until = threading.Event()
    with opened(tmp_path) as index:
        thread = in_a_call(index, threading.Event(), until)
        threading.Timer(0.2, until.set).start()

        def child() -> int:
            with opened(tmp_path) as own:
                return own.statistics().entries

        assert forked(child)() == 0
        thread.join()
        index.admit(entries_of(ROWS), ends_of(ROWS))
        assert index.statistics().journal_rows == 2


def test_a_fork_amid_a_call_that_does_not_end_leaves_the_parents_transaction_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "FORK_WAIT_SECONDS", 0.1)
    until = threading.Event()
    with opened(tmp_path) as index:
        thread = in_a_call(index, threading.Event(), until)

        def child() -> str:
            assert "by the parent" in refusals(index)["check"]
            with pytest.raises(AlreadyOpenError) as refusal:
                opened(tmp_path)
            index.close()
            return str(refusal.value)

        assert "already open" in forked(child)()
        until.set()
        thread.join()
        assert len(index.admit(entries_of(ROWS), ends_of(ROWS)).verdicts) == 2


def test_threads_that_call_while_others_fork_and_open_lose_nothing(tmp_path: Path) -> None:
    ending = threading.Event()

    def write(index: Index) -> None:
        offset = 10
        while not ending.is_set():
            index.admit(entries_of([Row(offset, offset << 20)]), {ONE: offset + 1})
            index.check(entries_of(ROWS))
            offset += 1

    def child(number: int) -> int:
        with opened(tmp_path) as own:
            own.admit(entries_of([Row(2**40 + number, 5 << 40)]), {})
            return own.statistics().journal_rows

    with opened(tmp_path) as index:
        thread = threading.Thread(target=write, args=(index,))
        thread.start()
        rows = [forked(lambda number=each: child(number))() for each in range(10)]  # type: ignore[misc]
        ending.set()
        thread.join()
        assert rows == sorted(rows)
        assert index.statistics().journal_rows == index.applied()[ONE].offset - 10 + 10


def test_a_descriptor_that_a_child_closed_is_closed_no_second_time(tmp_path: Path) -> None:
    descriptor = OwnDescriptor(os.open(tmp_path, os.O_RDONLY))

    def child() -> bool:
        other = os.open(tmp_path, os.O_RDONLY)
        descriptor.close()
        return other == descriptor.number and os.fstat(other) is not None

    assert forked(child)()
    os.fstat(descriptor.number)
    descriptor.close()
