"""Notes of attempts: a death amid a batch is seen by whoever reads the batch next, an orderly end leaves nothing."""

import errno
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from index.entry import Source
from index.errors import IndexFullError
from streamer.errors import DeliveryDoubtful
from streamer.records.record import Batch, Record
from streamer.service.poison import attempts
from streamer.service.poison.attempts import IDLE, Attempts, OffsetRange, death_of, deaths, ranges_of
from tests.support.paths import ROOT

FIRST, SECOND = Source("stream", 0), Source("stream", 1)


class Killed(BaseException):
    """The process ends without a word."""


def batch_of(*stretches: tuple[Source, range]) -> Batch:
    records = [Record(source, "documents", offset, None, b"", 0) for source, offsets in stretches for offset in offsets]
    return Batch(records, {source: offsets.stop for source, offsets in stretches})


def die(folder: Path, batch: Batch, step: str = "decode", error: type[BaseException] = Killed) -> None:
    with suppress(error), Attempts(folder, 3) as mine:
        mine.loop.name(batch)
        mine.loop.enter(step)
        raise error


def suspects(folder: Path, batch: Batch, deaths_max: int, begins: dict[Source, int] | None = None) -> bool:
    with Attempts(folder, deaths_max) as mine:
        mine.look(begins if begins is not None else {FIRST: 0, SECOND: 0})
        return mine.suspects(batch.records)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def test_a_batch_is_suspected_from_the_last_death_allowed_on(folder: Path) -> None:
    batch = batch_of((FIRST, range(10, 20)))
    for number in range(3):
        assert not suspects(folder, batch, 3), f"after {number} deaths"
        die(folder, batch)
    assert suspects(folder, batch, 3)
    assert len(list(deaths(folder))) == 3


def test_only_records_that_every_death_had_in_its_batch_are_suspected(folder: Path) -> None:
    for offsets in (range(10, 20), range(15, 30), range(10, 18)):
        die(folder, batch_of((FIRST, offsets), (SECOND, range(offsets.start + 70, offsets.start + 72))))
    assert suspects(folder, batch_of((FIRST, range(17, 19))), 3)
    assert not suspects(folder, batch_of((FIRST, range(10, 15))), 3)
    assert not suspects(folder, batch_of((SECOND, range(80, 82))), 3)


def test_what_lies_before_the_offset_where_reading_begins_is_suspected_no_more(folder: Path) -> None:
    die(folder, batch_of((FIRST, range(10, 20))))
    assert suspects(folder, batch_of((FIRST, range(19, 20))), 1, {FIRST: 19})
    assert not suspects(folder, batch_of((FIRST, range(20, 30))), 1, {FIRST: 20})
    assert not list(deaths(folder)), "the note of a batch that is delivered stays for ever"


def test_a_note_of_several_sources_stays_as_long_as_one_of_them_may_be_behind(folder: Path) -> None:
    die(folder, batch_of((FIRST, range(10, 20)), (SECOND, range(5))))
    assert not suspects(folder, batch_of((FIRST, range(20, 30))), 1, {FIRST: 20})
    assert suspects(folder, batch_of((SECOND, range(5))), 1, {SECOND: 0})


@pytest.mark.parametrize("step", ["decide", "route", "commit"])
def test_a_death_in_a_step_that_is_not_pure_puts_no_record_under_suspicion(folder: Path, step: str) -> None:
    batch = batch_of((FIRST, range(10)))
    die(folder, batch, step)
    assert not suspects(folder, batch, 1)
    assert not list(deaths(folder))


@pytest.mark.parametrize("error", [DeliveryDoubtful, IndexFullError])
def test_an_orderly_end_is_no_death(folder: Path, error: type[Exception]) -> None:
    die(folder, batch_of((FIRST, range(10))), error=error)
    assert not list(folder.iterdir())


def test_a_death_between_batches_is_nobody_s_fault(folder: Path) -> None:
    die(folder, batch_of((FIRST, range(10))), IDLE)
    assert not list(deaths(folder))
    assert not list(folder.iterdir())


def test_the_attempt_of_a_process_that_lives_is_no_death(folder: Path) -> None:
    with Attempts(folder, 1) as other:
        other.ahead[0].name(batch_of((FIRST, range(10))))
        other.ahead[0].enter("fingerprint")
        assert not suspects(folder, batch_of((FIRST, range(10))), 1)


def test_a_process_that_is_killed_leaves_its_step_and_its_positions(folder: Path) -> None:
    program = f"""
import os
from pathlib import Path
from tests.streamer.service.poison.test_attempts import FIRST, SECOND, Attempts, batch_of
with Attempts(Path({os.fspath(folder)!r}), 3) as mine:
    mine.loop.name(batch_of((FIRST, range(10, 20)), (SECOND, range(3))))
    mine.loop.enter("fingerprint")
    os.kill(os.getpid(), {int(signal.SIGKILL)})
"""
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT) as process:
        assert process.wait() == -signal.SIGKILL
    death = death_of(folder, process.pid)
    assert death is not None
    assert death.step == "fingerprint"
    assert list(map(str, death.ranges)) == ["documents/0 offsets 10 to 19", "documents/1 offsets 0 to 2"]
    assert death_of(folder, process.pid + 1) is None


def test_a_note_that_makes_no_sense_or_is_old_is_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = batch_of((FIRST, range(10)))
    die(folder, batch)
    (folder / "1-1.attempt").write_bytes(b"decode          \n[[1, 2], 3")
    assert [death.ranges for death in deaths(folder)] == [ranges_of(batch)]
    monkeypatch.setattr(attempts, "DEATHS_KEPT_SECONDS", -1.0)
    assert not list(deaths(folder))
    assert not list(folder.iterdir())


def test_a_batch_of_very_many_sources_is_noted_as_far_as_there_is_room(folder: Path) -> None:
    many = batch_of(*((Source("stream", number), range(10**12, 10**12 + 1)) for number in range(5_000)))
    die(folder, many)
    (death,) = deaths(folder)
    assert len(death.ranges) > 500
    assert death.ranges[0] == OffsetRange("documents", FIRST, range(10**12, 10**12 + 1))


def test_a_folder_that_takes_no_note_is_told_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(IndexFullError, match=f"{tmp_path}/missing"), Attempts(tmp_path / "missing", 3):
        pass


def test_of_two_batches_under_way_the_one_in_a_pure_step_is_what_a_process_died_of(folder: Path) -> None:
    with suppress(Killed), Attempts(folder, 3) as mine:
        mine.loop.name(batch_of((FIRST, range(10))))
        mine.loop.enter("commit")
        mine.ahead[0].name(batch_of((FIRST, range(10, 20))))
        mine.ahead[0].enter("decode")
        raise Killed
    death = death_of(folder, os.getpid())
    assert death is not None
    assert (death.step, death.ranges[0].offsets) == ("decode", range(10, 20))
    assert not suspects(folder, batch_of((FIRST, range(10))), 1)
    assert suspects(folder, batch_of((FIRST, range(10, 20))), 1)


def test_an_attempt_for_which_there_is_room_for_one_note_alone_leaves_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = os.posix_fallocate

    def second_fails(file: int, begin: int, length: int) -> None:
        monkeypatch.setattr(os, "posix_fallocate", full)
        taken(file, begin, length)

    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", second_fails)
    with pytest.raises(IndexFullError, match="No space left"), Attempts(folder, 3):
        pass
    assert not list(folder.iterdir())
