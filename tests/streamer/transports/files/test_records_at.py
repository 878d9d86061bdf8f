"""Lines by position: from the inputs, and from the outputs where an input is gone."""

from pathlib import Path

import pytest

from index.entry import Position, Source
from streamer.demo.demo import documents
from streamer.errors import SettingsError
from streamer.records.record import Record
from streamer.settings.settings import Batching
from streamer.transports.files.output_folder import DeliveryHooks, OutputFolder
from streamer.transports.files.output_log import FileOutputLog
from streamer.transports.output_log import Absent
from tests.support.command_line import run


@pytest.fixture
def lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Lines of one.jsonl, filtered into `out` together with two.jsonl, which has the last of them first."""
    monkeypatch.chdir(tmp_path)
    found = list(documents(100))[60:]
    Path("one.jsonl").write_bytes(b"\n".join(found))
    Path("two.jsonl").write_bytes(b"\n".join(found[::-1]))
    assert run("filter", "one.jsonl", "two.jsonl", "--out", "out", "--index", "index").code == 0
    return found


def position(name: str, offset: int) -> Position:
    _, inputs = OutputFolder(Path("out"), DeliveryHooks()).look()
    (stream,) = (each.stream for each in inputs if each.name == name)
    return Position(Source(stream, 0), offset)


def values(*asked: Position) -> list[bytes | None]:
    found = FileOutputLog(Path("out"), Batching()).records_at(asked)
    assert all(not isinstance(each, Record) or each.position.endswith(f"/0/{each.offset}") for each in found.values())
    return [record.value if isinstance(record := found[each], Record) else None for each in asked]


def test_lines_come_from_the_inputs_in_any_order_and_twice(lines: list[bytes]) -> None:
    asked = [position("one.jsonl", 39), position("two.jsonl", 3), position("one.jsonl", 0), position("one.jsonl", 39)]
    Path("out/unique.jsonl").unlink()
    assert values(*asked) == [lines[39], lines[36], lines[0], lines[39]]


@pytest.mark.parametrize("left", [0, 5])
def test_lines_of_an_input_that_is_gone_or_was_cut_come_from_the_outputs(lines: list[bytes], left: int) -> None:
    asked = [position("one.jsonl", offset) for offset in range(40)]
    if left:
        Path("one.jsonl").write_bytes(b"\n".join(lines[:left]))
    else:
        Path("one.jsonl").unlink()
    assert values(*asked, position("two.jsonl", 0)) == [*lines, lines[39]]


@pytest.mark.usefixtures("lines")
def test_what_is_nowhere_says_so() -> None:
    unknown, beyond = Position(Source("elsewhere", 0), 1), position("one.jsonl", 40)
    found = FileOutputLog(Path("out"), Batching()).records_at([unknown, beyond])
    assert found[unknown] == Absent("it was filtered into another folder than out")
    assert found[beyond] == Absent("neither the input nor the outputs have its line any more")


def test_a_folder_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="holds no checkpoint"):
        FileOutputLog(tmp_path, Batching()).open(None)
