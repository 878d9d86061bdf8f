"""A trial proves which records end a process, and gives of all others what the worker itself would have got."""

import errno
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from index.entry import Kind, Source
from streamer.errors import ProcessRefused, RegistryUnavailable, SettingsError
from streamer.fingerprint.documents import fingerprint_documents
from streamer.fingerprint.key import PUBLIC
from streamer.fingerprint.scheme import scheme_for
from streamer.records.decode import DeadLetter, Decoder, Document
from streamer.records.reason import Reason
from streamer.records.record import Record
from streamer.service.poison import trial
from streamer.service.poison.trial import Trials, Tried
from streamer.settings.settings import Settings
from tests.support.memory_service import SENTENCES
from tests.support.paths import ROOT
from tests.support.schema_registry import framed
from tests.support.services import free_port

SETTINGS = Settings.model_validate(
    {"workers": {"document_timeout_ms": 1_000}, "fingerprint": {"markup": "html"}, "decode": {"id": "/id"}}
)


def records_of(*values: bytes) -> list[Record]:
    source = Source("stream", 2)
    return [Record(source, "documents", 10 + n, b"key %d" % n, value, n) for n, value in enumerate(values)]


def sound(number: int) -> bytes:
    return orjson.dumps({"id": f"sound {number}", "text": SENTENCES[number % len(SENTENCES)]})


def deadly(word: str) -> bytes:
    return orjson.dumps({"id": "deadly", "text": f"deadly-{word}"})


@pytest.fixture(autouse=True)
def _deadly_children(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'tests/support/poisoned'}:{ROOT}")
    monkeypatch.setenv("DEADLY_ONCE", str(tmp_path / "once"))


@pytest.fixture
def _signals() -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGALRM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


def never() -> bool:
    return False


def tried_of(found: Tried | None) -> Tried:
    assert found is not None
    return found


def trials(seconds_max: float = 600.0) -> Trials:
    return Trials(SETTINGS, scheme_for(SETTINGS), seconds_max=seconds_max)


def test_sound_records_come_out_as_from_the_worker_itself() -> None:
    records = records_of(*map(sound, range(6)), b"{", sound(0), b'{"text": ""}')
    decoded = Decoder(SETTINGS.decode).decode(records)
    expected = fingerprint_documents(scheme_for(SETTINGS), decoded)
    beats: list[int] = []
    tried = tried_of(trials().run(records, lambda: beats.append(1), never))
    assert tried.documents == decoded
    for column in ("kinds", "reasons", "fingerprints", "feature_counts", "digests"):
        assert np.array_equal(getattr(tried.fingerprints, column), getattr(expected, column)), column
    assert tried.fingerprints.looks is None
    assert beats


def test_every_record_that_ends_the_process_is_poison_and_no_other() -> None:
    words = {"segfault": "SIGSEGV", "endless": "document_timeout_ms = 1000", "error": "exit code 1"}
    values = [value for word in words for value in (sound(0), deadly(word))]
    tried = tried_of(trials().run(records_of(*values, sound(1)), lambda: None, never))
    assert [type(document) for document in tried.documents] == [Document, DeadLetter] * len(words) + [Document]
    letters = [document for document in tried.documents if isinstance(document, DeadLetter)]
    for number, (letter, how) in enumerate(zip(letters, words.values(), strict=True)):
        assert letter.reason is Reason.POISON
        assert how in letter.detail
        assert letter.id == f"key {2 * number + 1}"
    assert tried.fingerprints.kinds.tolist()[1::2] == [Kind.DEAD_LETTER] * len(words)
    assert tried.fingerprints.reasons.tolist()[1::2] == [Reason.POISON] * len(words)


def test_a_process_that_somebody_killed_once_proves_nothing() -> None:
    tried = tried_of(trials().run(records_of(sound(0), deadly("once"), sound(1)), lambda: None, never))
    assert all(isinstance(document, Document) for document in tried.documents)


@pytest.mark.parametrize("together", [1, 3, 4, 100])
def test_records_are_tried_together_and_one_by_one_only_next_to_poison(
    together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    ask = trial._Nursery.ask

    def noted(nursery: trial._Nursery, records: Sequence[Record]) -> trial.Answer | str:
        asked.append(len(records))
        return ask(nursery, records)

    monkeypatch.setattr(trial._Nursery, "ask", noted)
    monkeypatch.setattr(trial, "RECORDS_TOGETHER", together)
    monkeypatch.setattr(trial, "RECORDS_AFTER_POISON", 2)
    values = [deadly("segfault") if number == 5 else sound(number) for number in range(12)]
    records = records_of(*values)
    trying = trials()
    tried = tried_of(trying.run(records, lambda: None, never))
    expected = Decoder(SETTINGS.decode).decode(records)
    assert [place for place, document in enumerate(tried.documents) if document != expected[place]] == [5]
    assert len(tried.fingerprints) == len(records)
    assert not trying.expects_poison
    # The group with the poison once more one by one, the poison twice; two sound ones after it; then groups again.
    assert (
        asked
        == {
            1: [1] * 13,
            3: [3, 3, 1, 1, 1, 1, 1, 1, 3, 1],
            4: [4, 4, 1, 1, 1, 1, 1, 4],
            100: [12] + [1] * 13,
        }[together]
    )


def test_a_trial_that_takes_too_long_gives_what_it_has_and_at_least_one_record() -> None:
    tried = tried_of(trials(seconds_max=-1.0).run(records_of(deadly("abort"), sound(0)), lambda: None, never))
    assert [type(document) for document in tried.documents] == [DeadLetter]
    assert len(tried.fingerprints) == 1


@pytest.mark.parametrize("sound_records", [0, 2])
def test_a_stop_ends_the_child_at_once_and_nothing_is_told_of_the_record_that_it_was_at(
    sound_records: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = SETTINGS.workers.model_copy(update={"document_timeout_ms": 600_000})
    patient = SETTINGS.model_copy(update={"workers": limits})
    records = records_of(*map(sound, range(sound_records)), deadly("endless"), sound(3))
    asked: list[Sequence[Record]] = []
    ask = trial._Nursery.ask

    def noted(nursery: trial._Nursery, records: Sequence[Record]) -> trial.Answer | str:
        asked.append(records)
        return ask(nursery, records)

    monkeypatch.setattr(trial._Nursery, "ask", noted)
    monkeypatch.setattr(trial, "RECORDS_TOGETHER", 1)
    began = time.monotonic()
    found = Trials(patient, scheme_for(SETTINGS), seconds_max=600.0).run(
        records, lambda: None, lambda: len(asked) > sound_records
    )
    assert time.monotonic() - began < 300, "the child was waited for"
    assert not multiprocessing.active_children()
    assert len(asked) == sound_records + 1
    if sound_records:
        assert [type(document) for document in tried_of(found).documents] == [Document] * sound_records
    else:
        assert found is None


def test_a_stop_while_the_child_gets_ready_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "_BEAT_SECONDS", 0.01)
    assert trials().run(records_of(sound(0)), lambda: None, lambda: True) is None
    assert not multiprocessing.active_children()


def test_a_child_that_does_not_get_ready_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "START_SECONDS_MAX", 0.0)
    monkeypatch.setattr(trial, "_BEAT_SECONDS", 0.01)
    with pytest.raises(trial.TrialFailed, match="did not get ready"):
        trials().run(records_of(sound(0)), lambda: None, never)


def test_a_registry_that_cannot_be_asked_makes_no_record_poison() -> None:
    settings = Settings.model_validate(
        {"decode": {"format": "avro", "registry_url": f"http://127.0.0.1:{free_port()}"}}
    )
    trying = Trials(settings, scheme_for(settings), seconds_max=600)
    with pytest.raises(RegistryUnavailable, match="none is lost"):
        trying.run(records_of(framed(7, b"\0")), lambda: None, never)


def test_a_package_that_cannot_be_imported_makes_no_record_poison() -> None:
    with pytest.raises(SettingsError, match=r"the package jieba cannot be imported.*--force-reinstall jieba=="):
        trials().run(records_of(sound(0), deadly("import")), lambda: None, never)


def test_poison_in_quantity_costs_one_start_and_two_children_each(monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[int] = []
    asked: list[int] = []
    start, ask = trial._Nursery.__init__, trial._Nursery.ask

    def started(nursery: trial._Nursery, *arguments: Any) -> None:
        starts.append(1)
        start(nursery, *arguments)

    def noted(nursery: trial._Nursery, records: Sequence[Record]) -> trial.Answer | str:
        asked.append(len(records))
        return ask(nursery, records)

    monkeypatch.setattr(trial._Nursery, "__init__", started)
    monkeypatch.setattr(trial._Nursery, "ask", noted)
    values = [deadly("segfault") if number % 4 == 3 else sound(number) for number in range(80)]
    tried = tried_of(trials().run(records_of(*values), lambda: None, never))
    letters = [place for place, document in enumerate(tried.documents) if isinstance(document, DeadLetter)]
    assert letters == list(range(3, 80, 4))
    assert len(starts) == 1
    assert asked == [80] + [1] * (80 + len(letters))


@pytest.mark.parametrize(("records_after", "expected"), [(3, [True, True, False]), (0, [False, False, False])])
def test_after_poison_the_next_records_are_tried_by_the_same_process_until_enough_were_sound(
    monkeypatch: pytest.MonkeyPatch, records_after: int, expected: list[bool]
) -> None:
    monkeypatch.setattr(trial, "RECORDS_AFTER_POISON", records_after)
    trying = trials()
    seen: list[bool] = []
    processes: list[list[int | None]] = []
    for values in ([sound(0), deadly("segfault")], [sound(1), sound(2)], [sound(3)]):
        trying.run(records_of(*values), lambda: None, never)
        seen.append(trying.expects_poison)
        processes.append([process.pid for process in multiprocessing.active_children()])
    assert seen == expected
    assert [len(each) for each in processes] == expected
    assert processes[0] == processes[1]


@pytest.mark.usefixtures("_signals")
def test_a_child_that_the_system_refuses_makes_no_record_poison(monkeypatch: pytest.MonkeyPatch) -> None:
    # The body of the nursery, in this process: it forks nothing.
    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    own, other = multiprocessing.Pipe()
    own.send(records_of(sound(0)))
    thread = threading.Thread(target=lambda: (own.recv(), answers.append(own.recv()), own.close()))
    answers: list[object] = []
    thread.start()
    trial._serve(SETTINGS, PUBLIC, other)
    thread.join()
    assert isinstance(answers[0], ProcessRefused)
    assert "ulimit -u" in str(answers[0])
