"""The note of a transaction whose commit was never asked for, and when it counts for nothing."""

from pathlib import Path

import pytest

from index import Source
from streamer.records.record import Record
from streamer.settings.settings import Settings
from streamer.transports.kafka.transactions import commit_note
from streamer.transports.kafka.transactions.commit_note import CommitNote, Unasked, note_path, unasked
from tests.support.transport_worlds import make_settings

PRODUCER = (7, 3)


def settings_in(folder: Path) -> Settings:
    settings = make_settings()
    index = settings.index.model_copy(update={"directory": folder})
    kafka = settings.kafka.model_copy(update={"group": "news/room"})
    return settings.model_copy(update={"index": index, "kafka": kafka})


def begun(folder: Path) -> CommitNote:
    """A note of a second transaction, with records of two partitions."""
    note = CommitNote(note_path(settings_in(folder), "0-0"))
    note.committed({0: (4, "note")})
    note.begin(
        [Record(Source("a", partition), "in", at, None, b"", 0, ()) for partition, at in ((0, 5), (1, 2), (0, 6))],
        PRODUCER,
    )
    return note


def test_a_transaction_is_known_as_never_asked_for_from_its_begin_to_the_question(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    assert unasked(settings, "0-0") is None
    note = begun(tmp_path)
    assert unasked(settings, "0-0") == Unasked(PRODUCER, {0: 5, 1: 2}, {0: 4})
    assert unasked(settings, "0-1") is None, "of another worker"
    note.ask()
    assert unasked(settings, "0-0") is None
    note.close()


def test_a_transaction_without_offsets_leaves_the_committed_ones_noted(tmp_path: Path) -> None:
    begun(tmp_path).close()
    note = CommitNote(note_path(settings_in(tmp_path), "0-0"))
    note.committed({0: (4, "note")})
    note.committed({})
    note.begin([], PRODUCER)
    assert unasked(settings_in(tmp_path), "0-0") == Unasked(PRODUCER, {}, {0: 4})
    note.close()


def test_a_note_of_an_earlier_boot_counts_for_nothing_for_it_may_be_older_than_the_last_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(tmp_path).close()
    boot = tmp_path / "boot"
    monkeypatch.setattr(commit_note, "_BOOT_ID", boot)
    for content in (None, "another"):
        if content is not None:
            boot.write_text(content)
        assert unasked(settings_in(tmp_path), "0-0") is None


def test_a_note_that_makes_no_sense_counts_for_nothing(tmp_path: Path) -> None:
    begun(tmp_path).close()
    (file,) = tmp_path.glob("*.transaction")
    file.write_bytes(file.read_bytes()[:20])
    assert unasked(settings_in(tmp_path), "0-0") is None


def test_too_many_partitions_for_a_note_count_as_asked_for(tmp_path: Path) -> None:
    note = CommitNote(note_path(settings_in(tmp_path), "0-0"))
    note.committed(dict.fromkeys(range(10000), (10**12, "")))
    note.begin([], PRODUCER)
    assert unasked(settings_in(tmp_path), "0-0") is None
    note.close()


def test_a_part_without_the_folder_of_an_index_notes_nothing(tmp_path: Path) -> None:
    note = begun(tmp_path / "missing")
    note.ask()
    note.close()
    assert unasked(settings_in(tmp_path / "missing"), "0-0") is None
    assert not (tmp_path / "missing").exists()
