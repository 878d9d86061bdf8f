import gzip
import io
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from index.entry import Source
from streamer.errors import (
    InputChanged,
    InputUnreadable,
    OutputFull,
    RecoveryRefused,
    SettingsError,
    StreamerError,
)
from streamer.records.record import Batch, Destination
from streamer.settings.settings import Batching, Settings
from streamer.transports.files.formats import record_test
from streamer.transports.files.line_reader import is_blank
from streamer.transports.files.output_folder import DeliveryHooks
from streamer.transports.files.transport import FileTransport
from streamer.transports.transport import FINISHED, Assigned, Transport
from tests.support.examples import examples
from tests.support.file_filter import SMALL, Crashed, Decider, Disk, begin, filter_files, outputs, pipe_of
from tests.support.paths import ROOT
from tests.support.tiers import first_of

CONTENT = b"one\ntwo\r\none\n-\n\xff\xfe\nthree\ntwo\ntwo\r\nfour\nlast"


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def crash() -> None:
    raise Crashed


def put_together(out: Path) -> dict[str, list[bytes]]:
    """Lines of the inputs, as verdicts and outputs together give them back."""
    contents = outputs(out)
    files = {name: io.BytesIO(contents[f"{name}.jsonl"]) for name in ("unique", "duplicate", "dead-letter")}
    inputs: dict[str, list[bytes]] = {}
    for line in contents["verdicts.jsonl"].splitlines():
        verdict = orjson.loads(line)
        told = inputs.setdefault(verdict["source"], [])
        # Blank lines have numbers and no verdicts.
        told += [b""] * (verdict["line"] - 1 - len(told))
        told.append(files[verdict["verdict"].replace("undecidable", "unique")].readline()[:-1])
    for file in files.values():
        assert file.read() == b""
    return inputs


def records_in(lines: list[bytes]) -> list[bytes]:
    """Lines as `put_together` gives them: blank ones are empty, and none ends the file."""
    records = [b"" if is_blank(line) else line for line in lines]
    while records and not records[-1]:
        records.pop()
    return records


def test_lines_go_to_four_files_byte_for_byte(tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", CONTENT)
    filter_files([path], tmp_path / "out", Decider())
    assert outputs(tmp_path / "out") | {"verdicts.jsonl": b""} == {
        "unique.jsonl": b"one\ntwo\r\n-\nthree\ntwo\nfour\nlast\n",
        "duplicate.jsonl": b"one\ntwo\r\n",
        "dead-letter.jsonl": b"\xff\xfe\n",
        "verdicts.jsonl": b"",
    }
    verdicts = [orjson.loads(line) for line in outputs(tmp_path / "out")["verdicts.jsonl"].splitlines()]
    assert [verdict["line"] for verdict in verdicts] == list(range(1, 11))
    assert verdicts[2] == {
        "source": str(path),
        "line": 3,
        "id": f"{path}/0/2",
        "verdict": "duplicate",
        "original": f"{path}/0/0",
        "distance": 0,
        "reason": "similar",
    }


@examples(40)
@given(
    inputs=st.lists(
        st.tuples(
            st.lists(
                st.one_of(
                    st.binary(max_size=9), st.sampled_from([b"", b"\r", b"-", b"a", b"a\r", b"\xff", "中文".encode()])
                ),
                max_size=12,
            ),
            st.booleans(),
            st.sampled_from(["jsonl", "jsonl.gz", "jsonl.zst"]),
        ),
        max_size=3,
    ),
    batch=st.builds(Batching, records_max=st.integers(1, 6), bytes_max=st.integers(1, 30)),
    stop_after=st.integers(1, 9),
    compression=st.sampled_from([None, "gz", "zst"]),
    ahead=st.integers(0, 4),
)
def test_nothing_is_lost_doubled_or_changed_whatever_the_lines(
    tmp_path_factory: pytest.TempPathFactory,
    inputs: list[tuple[list[bytes], bool, str]],
    batch: Batching,
    stop_after: int,
    compression: str | None,
    ahead: int,
) -> None:
    folder = tmp_path_factory.mktemp("files")
    pack = {"jsonl": bytes, "jsonl.gz": gzip.compress, "jsonl.zst": zstandard.ZstdCompressor().compress}
    wanted: dict[str, list[bytes]] = {}
    for number, (raw, ended, kind) in enumerate(inputs):
        # An input whose first line begins like a compressed file would be taken for one.
        lines = [b"{}", *[line.replace(b"\n", b"") for line in raw]]
        path = folder / f"{number}.{kind}"
        path.write_bytes(pack[kind](b"\n".join(lines) + (b"\n" if ended else b"")))
        wanted[str(path)] = records_in(lines)
    left = iter([lambda: None] * stop_after + [crash] + [lambda: None] * 1000)
    decider = Decider()
    for _ in range(2):
        try:
            batches = filter_files(
                list(wanted),
                folder / "out",
                decider,
                batch=batch,
                after_admit=lambda: next(left)(),
                compression=compression,
                ahead=ahead,
            )
        except Crashed:
            continue
        break
    assert put_together(folder / "out") == wanted
    for delivered in batches:
        ends = {record.source: record.end for record in delivered.records}
        # Blank lines are no records, and pass with the next ones.
        assert ends.keys() <= delivered.ends.keys()
        assert all(end <= delivered.ends[source] for source, end in ends.items())
    assert filter_files(list(wanted), folder / "out", decider, batch=batch) == []


def undisturbed(tmp_path: Path, paths: list[Path]) -> dict[str, bytes]:
    filter_files(paths, tmp_path / "undisturbed", Decider())
    return outputs(tmp_path / "undisturbed")


def two_files(tmp_path: Path) -> list[Path]:
    return [
        write(tmp_path / "a.jsonl", CONTENT),
        write(tmp_path / "b.jsonl.gz", gzip.compress(b"five\n" + CONTENT[4:])),
    ]


def crash_at_every_step(
    tmp_path: Path,
    paths: list[Path],
    *,
    power: bool,
    lying: bool = False,
    with_journal: bool = True,
    compression: str | None = None,
) -> list[str]:
    """Crash at the first step on the disk, and start again; the same at the second, and so on. Returns the faults."""
    wanted = undisturbed(tmp_path, paths)
    wrong: list[str] = []
    for step in range(1, 1000):
        out = tmp_path / f"out-{step}"
        out.mkdir()
        decider = Decider(with_journal=with_journal)
        with pytest.MonkeyPatch.context() as patch:
            disk = Disk(patch, out, step, lying=lying)
            try:
                filter_files(paths, out, decider, compression=compression)
                assert step > 50
                return wrong
            except Crashed:
                if power:
                    disk.cut_power()
            disk = Disk(patch, out, 0)
            try:
                filter_files(paths, out, decider, compression=compression)
            except RecoveryRefused as error:
                wrong.append(f"{step}: {error}")
                continue
        if outputs(out) != wanted:
            wrong.append(f"{step}: other outputs")
    raise AssertionError("never came to the end")


@pytest.mark.parametrize("compression", first_of(None, "gz", "zst"))
@pytest.mark.parametrize("power", [False, True], ids=["killed", "power cut"])
def test_a_crash_at_any_step_changes_no_byte_of_the_outputs(
    tmp_path: Path, power: bool, compression: str | None
) -> None:
    assert crash_at_every_step(tmp_path, two_files(tmp_path), power=power, compression=compression) == []


@pytest.mark.parametrize("compression", first_of(None, "gz", "zst"))
def test_the_crash_test_notices_a_disk_that_does_not_keep_the_outputs(tmp_path: Path, compression: str | None) -> None:
    assert crash_at_every_step(tmp_path, two_files(tmp_path), power=True, lying=True, compression=compression)


def test_the_crash_test_notices_an_index_that_does_not_keep_its_verdicts(tmp_path: Path) -> None:
    assert crash_at_every_step(tmp_path, two_files(tmp_path), power=False, with_journal=False)


def test_a_pipe_fed_again_after_a_crash_goes_on_where_it_was(tmp_path: Path) -> None:
    wanted = outputs_of_pipe(tmp_path / "undisturbed", Decider())
    for crash_after in range(5):
        decider = Decider()
        steps = iter([lambda: None] * crash_after + [crash])
        with pytest.raises(Crashed):
            outputs_of_pipe(tmp_path / f"{crash_after}", decider, lambda steps=steps: next(steps)())
        assert outputs_of_pipe(tmp_path / f"{crash_after}", decider) == wanted


def outputs_of_pipe(
    out: Path, decider: Decider, after_admit: Callable[[], None] = lambda: None, content: bytes = CONTENT * 2
) -> dict[str, bytes]:
    reading = pipe_of(content)
    try:
        filter_files(["-"], out, decider, standard_input=reading, after_admit=after_admit)
    finally:
        os.close(reading)
    return outputs(out)


def test_a_pipe_in_a_new_folder_is_a_new_input(tmp_path: Path) -> None:
    decider = Decider()
    first = outputs_of_pipe(tmp_path / "first", decider, content=b"one\ntwo\n")
    second = outputs_of_pipe(tmp_path / "second", decider, content=b"one\ntwo\n")
    assert first["unique.jsonl"] == second["duplicate.jsonl"] == b"one\ntwo\n"


def test_another_pipe_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    decider = Decider()
    outputs_of_pipe(tmp_path / "out", decider, content=b"one\ntwo\n")
    for content in (b"one\nTWO\n", b"one\n", b""):
        with pytest.raises(InputChanged, match=r"-: its first 2 lines are not those.*another --out"):
            outputs_of_pipe(tmp_path / "out", decider, content=content)


def test_a_pipe_with_nothing_new_gives_an_empty_batch(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    decider = Decider()
    transport = FileTransport([Path("-")], tmp_path / "out", SMALL, decider.known_streams, standard_input=reading)
    transport.open()
    assigned = transport.read()
    assert isinstance(assigned, Assigned)
    begin(transport, assigned, decider)
    assert transport.read() == Batch([])
    transport.deliver(Batch([]), [])
    os.write(writing, b"one\n")
    batch = transport.read()
    assert isinstance(batch, Batch)
    assert [record.value for record in batch.records] == [b"one"]
    os.close(writing)
    assert transport.read() is FINISHED
    assert transport.read() is FINISHED
    transport.close()
    os.close(reading)


def test_a_file_that_has_grown_goes_on_behind_its_old_end(tmp_path: Path) -> None:
    decider = Decider()
    path = write(tmp_path / "in.jsonl", b"one\ntwo\nthree\nfour")
    filter_files([path], tmp_path / "out", decider)
    write(path, b"one\ntwo\nthree\nfour\none\nfive\n")
    (batch,) = filter_files([path], tmp_path / "out", decider)
    assert [(record.offset, record.value) for record in batch.records] == [(4, b"one"), (5, b"five")]
    assert put_together(tmp_path / "out") == {str(path): [b"one", b"two", b"three", b"four", b"one", b"five"]}


IS_RECORD = record_test(Settings().decode)


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz"])
@pytest.mark.parametrize("dies", [False, True])
def test_half_a_last_line_comes_once_when_it_is_whole_and_nothing_else_comes_twice(
    tmp_path: Path, suffix: str, dies: bool
) -> None:
    decider, path, pack = Decider(), tmp_path / f"in.{suffix}", gzip.compress if suffix.endswith("gz") else bytes
    whole = b"".join(b'{"id":"%d","text":"text %d"}\n' % (number, number) for number in range(8))
    for cut in range(len(whole) - 60, len(whole) + 1):
        write(path, pack(whole[:cut]))
        if dies:
            with suppress(Crashed):
                filter_files([path], tmp_path / "out", decider, after_admit=crash, is_record=IS_RECORD)
        filter_files([path], tmp_path / "out", decider, is_record=IS_RECORD)
        delivered = outputs(tmp_path / "out")
        assert delivered["unique.jsonl"] == b"".join(
            line + b"\n" for line in whole[:cut].split(b"\n") if line.endswith(b"}")
        )
        assert delivered["duplicate.jsonl"] == delivered["dead-letter.jsonl"] == b""
    # The advised other folder, with the same index: the same verdicts.
    filter_files([path], tmp_path / "another", decider, is_record=IS_RECORD)
    assert outputs(tmp_path / "another") == outputs(tmp_path / "out")


def test_without_waiting_the_same_file_is_refused_for_ever(tmp_path: Path) -> None:
    decider, path = Decider(), write(tmp_path / "in.jsonl", b'{"id":"a","te')
    filter_files([path], tmp_path / "out", decider)
    write(path, b'{"id":"a","text":"one"}\n')
    with pytest.raises(InputChanged, match="with another --index"):
        filter_files([path], tmp_path / "out", decider)


@pytest.mark.parametrize("content", [b"\n\none\n \r\n\ntwo\n\n\n", b"\n" * 50 + b"one\n" + b"\n" * 50 + b"two"])
def test_blank_lines_are_no_records_and_a_killed_run_goes_on_among_them(tmp_path: Path, content: bytes) -> None:
    decider, path = Decider(), write(tmp_path / "in.jsonl", content)
    with pytest.raises(Crashed):
        filter_files([path], tmp_path / "out", decider, batch=Batching(records_max=1), after_admit=crash)
    for _ in range(2):
        filter_files([path], tmp_path / "out", decider, batch=Batching(records_max=1))
        assert put_together(tmp_path / "out") == {str(path): records_in(content.split(b"\n"))}
    write(path, content + b"\n\nthree\n")
    filter_files([path], tmp_path / "out", decider)
    assert outputs(tmp_path / "out")["unique.jsonl"] == b"one\ntwo\nthree\n"


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_a_tail_behind_compressed_data_ends_no_run_and_the_next_files_are_read(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    first, empty = write(tmp_path / "a.gz", pack(b"one\n") + b"rubbish"), write(tmp_path / "b.gz", b"")
    second = write(tmp_path / "c.jsonl", b"two\n")
    if not first.read_bytes().startswith(b"\x1f"):
        first = first.rename(tmp_path / "a.zst")
    decider = Decider()
    for _ in range(2):
        filter_files([first, empty, second], tmp_path / "out", decider)
        assert outputs(tmp_path / "out")["unique.jsonl"] == b"one\ntwo\n"


@pytest.mark.parametrize(
    "content", [b"one\nTWO\nthree\n", b"one\n", b"", b"one\ntwo\nthree more\n", b"one\r\ntwo\nthree"]
)
def test_a_file_that_has_changed_is_refused_and_the_outputs_stay(tmp_path: Path, content: bytes) -> None:
    decider = Decider()
    path = write(tmp_path / "in.jsonl", b"one\ntwo\nthree")
    filter_files([path], tmp_path / "out", decider)
    before = outputs(tmp_path / "out")
    write(path, content)
    with pytest.raises(InputChanged, match=r"in.jsonl: its first 3 lines are not those that were filtered before"):
        filter_files([path], tmp_path / "out", decider)
    assert outputs(tmp_path / "out") == before


@pytest.mark.parametrize("content", [b"one\ntwo\nthree\nfour\nFIVE\nsix\nseven\n", b"one\ntwo\nthree\nfour\n"])
@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_a_change_in_lines_decided_but_not_delivered_is_noticed_before_they_are_handed_out(
    tmp_path: Path, content: bytes, kind: str
) -> None:
    decider = Decider()
    steps = iter([lambda: None, crash])
    before, out = b"one\ntwo\nthree\nfour\nfive\nsix\nseven\n", tmp_path / "out"
    path = tmp_path / "in.jsonl"

    def run(content: bytes, after_admit: Callable[[], None]) -> None:
        if kind == "pipe":
            outputs_of_pipe(out, decider, after_admit, content)
        else:
            filter_files([write(path, content)], out, decider, after_admit=after_admit)

    with pytest.raises(Crashed):
        run(before, lambda: next(steps)())
    journal = dict(decider.journal)
    with pytest.raises(InputChanged, match="its first 6 lines"):
        run(content, lambda: None)
    assert decider.journal == journal
    assert outputs(out)["unique.jsonl"] == b"one\ntwo\nthree\n"
    run(before, lambda: None)
    assert outputs(out)["unique.jsonl"] == before


def test_the_first_batch_after_a_crash_ends_where_the_index_stands_whatever_the_bounds(tmp_path: Path) -> None:
    decider = Decider()
    path = write(tmp_path / "in.jsonl", b"".join(b"line %d\n" % number for number in range(20)))
    with pytest.raises(Crashed):
        filter_files([path], tmp_path / "out", decider, batch=Batching(records_max=7), after_admit=crash)
    batches = filter_files([path], tmp_path / "out", decider, batch=Batching(records_max=3, bytes_max=1))
    assert [len(batch.records) for batch in batches] == [7] + [1] * 13


def test_a_known_file_in_a_new_folder_gets_the_same_verdicts_again(tmp_path: Path) -> None:
    decider = Decider()
    path = write(tmp_path / "in.jsonl", CONTENT)
    filter_files([path], tmp_path / "first", decider)
    write(path, CONTENT + b"\nfour\nnew\n")
    batches = filter_files([path], tmp_path / "second", decider)
    assert [len(batch.records) for batch in batches] == [3, 3, 3, 3]
    assert len(decider.applied) == 1
    first, second = outputs(tmp_path / "first"), outputs(tmp_path / "second")
    assert second["verdicts.jsonl"].startswith(first["verdicts.jsonl"])
    assert second["unique.jsonl"] == first["unique.jsonl"] + b"new\n"
    assert second["duplicate.jsonl"] == first["duplicate.jsonl"] + b"four\n"


@pytest.mark.parametrize("content", [b"one\nTWO\nthree\nfour\n", b"one\n", b"", b"\x1f\x8b broken"])
def test_another_content_under_a_known_name_in_a_new_folder_is_another_input(tmp_path: Path, content: bytes) -> None:
    decider = Decider()
    path = write(tmp_path / "in.jsonl", b"one\ntwo\nthree\n")
    filter_files([path], tmp_path / "first", decider)
    write(path, content)
    transport: Transport = FileTransport([path], tmp_path / "second", SMALL, decider.known_streams)
    transport.open()
    assigned = transport.read()
    transport.close()
    assert isinstance(assigned, Assigned)
    assert assigned.sources[0] not in decider.applied


def test_of_several_contents_under_one_name_the_longest_that_agrees_is_recognised(tmp_path: Path) -> None:
    decider = Decider()
    path = tmp_path / "in.jsonl"
    streams = []
    for number, content in enumerate([b"one\n", b"two\nthree\nfour\n", b"two\nthree\n"]):
        # A fresh decider each time: otherwise the longer content would be taken for the shorter one, grown.
        alone = Decider()
        filter_files([write(path, content)], tmp_path / f"{number}", alone)
        decider.applied |= alone.applied
        decider.names |= alone.names
        streams.append(next(iter(alone.applied)).stream)
    transport = FileTransport(
        [write(path, b"two\nthree\nfour\nfive\n")], tmp_path / "out", SMALL, decider.known_streams
    )
    transport.open()
    assigned = transport.read()
    transport.close()
    assert isinstance(assigned, Assigned)
    assert assigned.sources[0].stream == streams[1]


def old_copy(tmp_path: Path, decider: Decider, run: Callable[[Callable[[], None]], object]) -> None:
    """Run to the end, then put the folder back to its state after six lines; the index stays ahead."""
    steps = iter([lambda: None] * 2 + [crash])
    with pytest.raises(Crashed):
        run(lambda: next(steps)())
    copy = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    run(lambda: None)
    for name, content in copy.items():
        (tmp_path / "out" / name).write_bytes(content)
    assert [at.offset for at in decider.applied.values()] == [10]


def test_more_undelivered_lines_than_a_crash_leaves_come_in_ordinary_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamer.transports.files.transport.TAIL_RECORDS_MAX", 3)
    decider, path = Decider(), write(tmp_path / "in.jsonl", CONTENT)
    old_copy(tmp_path, decider, lambda step: filter_files([path], tmp_path / "out", decider, after_admit=step))
    write(path, CONTENT.replace(b"four", b"FOUR"))
    with pytest.raises(InputChanged, match="its first 10 lines"):
        filter_files([path], tmp_path / "out", decider)
    write(path, CONTENT)
    batches = filter_files([path], tmp_path / "out", decider)
    assert [len(batch.records) for batch in batches] == [3, 1]
    assert outputs(tmp_path / "out") == undisturbed(tmp_path, [path])


def test_a_pipe_with_more_undelivered_lines_than_a_crash_leaves_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamer.transports.files.transport.TAIL_RECORDS_MAX", 3)
    decider = Decider()
    old_copy(tmp_path, decider, lambda step: outputs_of_pipe(tmp_path / "out", decider, step, CONTENT))
    with pytest.raises(RecoveryRefused, match="old copy: name another --out"):
        outputs_of_pipe(tmp_path / "out", decider, content=CONTENT)


def test_damaged_input_stops_behind_what_is_whole_and_goes_on_when_it_is_mended(tmp_path: Path) -> None:
    decider = Decider()
    wanted = [os.urandom(30).hex().encode() for _ in range(5000)]
    packed = gzip.compress(b"\n".join(wanted))
    path = write(tmp_path / "in.gz", packed[: len(packed) // 2])
    batch = Batching(records_max=700)
    with pytest.raises(InputUnreadable, match=r"in\.gz: .*truncated; \d+ lines before that were read"):
        filter_files([path], tmp_path / "out", decider, batch=batch)
    delivered = put_together(tmp_path / "out")[str(path)]
    assert len(delivered) > 2000
    write(path, packed)
    filter_files([path], tmp_path / "out", decider, batch=batch)
    assert put_together(tmp_path / "out") == {str(path): wanted}


def test_missing_inputs_are_found_before_anything_is_touched(tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", b"one\n")
    with pytest.raises(InputUnreadable, match=r"none.jsonl, .*nought.jsonl"):
        filter_files([path, tmp_path / "none.jsonl", tmp_path / "nought.jsonl"], tmp_path / "out", Decider())
    assert not (tmp_path / "out").exists()


def test_an_input_named_twice_or_an_output_as_input_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", b"one\n")
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(SettingsError, match="more than once"):
        filter_files([path, tmp_path / "link"], tmp_path / "out", Decider())
    filter_files([path], tmp_path / "out", Decider())
    with pytest.raises(SettingsError, match=r"Both input and output: .*unique.jsonl"):
        filter_files([tmp_path / "out" / "unique.jsonl"], tmp_path / "out", Decider())


def test_relative_names_of_different_files_are_kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decider = Decider()
    for day in ("monday", "tuesday"):
        (tmp_path / day).mkdir()
        write(tmp_path / day / "in.jsonl", day.encode())
        monkeypatch.chdir(tmp_path / day)
        filter_files(["in.jsonl"], tmp_path / "out", decider)
    assert put_together(tmp_path / "out") == {"in.jsonl": [b"monday"], f"{tmp_path}/tuesday/in.jsonl": [b"tuesday"]}


def test_a_name_that_is_no_utf_8_is_shown_by_its_bytes(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl"))
    write(path, b"one\n")
    for _ in range(2):
        filter_files([path], tmp_path / "out", Decider())
    assert put_together(tmp_path / "out") == {f"{tmp_path}/\\xff.jsonl": [b"one"]}


def test_a_full_disk_is_a_doubtful_delivery_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = two_files(tmp_path)
    script = (
        "import resource, sys; from pathlib import Path; from tests.support.file_filter import *\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))\n"
        f"filter_files([{str(paths[0])!r}], Path({str(tmp_path / 'out')!r}), Decider())\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )
    assert "DeliveryDoubtful" in result.stderr
    assert "a batch could not be written: File too large" in result.stderr
    filter_files(paths[:1], tmp_path / "out", Decider())
    assert outputs(tmp_path / "out") == undisturbed(tmp_path, paths[:1])

    def no_space(descriptor: int, content: bytes, offset: int) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        hooks = DeliveryHooks(before_outputs=lambda: patch.setattr(os, "pwrite", no_space))
        with pytest.raises(OutputFull, match=r"the disk is full.*nothing will be doubled") as full:
            filter_files(paths, tmp_path / "again", Decider(), hooks=hooks)
    assert full.value.exit_code == os.EX_IOERR


def test_the_changelog_gives_back_the_records_as_they_were_read(tmp_path: Path) -> None:
    decider = Decider()
    paths = two_files(tmp_path)
    batches = filter_files(paths, tmp_path / "out", decider)
    read = [record for batch in batches for record in batch.records]
    first, second = decider.applied
    transport = FileTransport(paths, tmp_path / "out", SMALL, Decider().known_streams)
    transport.open()
    ranges = {first: range(2, 9), second: range(10)}
    for destination, verdicts in (
        (Destination.UNIQUE, ("unique", "undecidable")),
        (Destination.DEAD_LETTER, ("dead-letter",)),
    ):
        given_back = [
            replace(record, headers=()) for records in transport.changelog(ranges, [destination]) for record in records
        ]
        assert given_back == [
            record
            for record in read
            if record.offset in ranges[record.source]
            and decider.journal[record.source.stream, record.offset].verdict.label in verdicts
        ]
        assert given_back
    assert list(transport.changelog({}, [Destination.UNIQUE])) == []
    # These verdicts do not say where an original stands.
    with pytest.raises(RecoveryRefused, match="new --out with a new --index"):
        list(transport.changelog(ranges, [Destination.UNIQUE, Destination.DUPLICATE]))
    transport.close()


def test_offsets_marks_and_progress_are_told(tmp_path: Path) -> None:
    decider = Decider()
    paths = two_files(tmp_path)
    transport = FileTransport(paths, tmp_path / "out", SMALL, decider.known_streams)
    assert transport.bytes_total == sum(path.stat().st_size for path in paths)
    transport.open()
    assigned = transport.read()
    assert isinstance(assigned, Assigned)
    source, second = assigned.sources
    assert assigned.names == {source.stream: str(paths[0]), second.stream: str(paths[1])}
    assert transport.committed([source, Source("other", 0)]) == {source: None, Source("other", 0): None}
    assert transport.first_offsets([source]) == transport.end_offsets([source]) == {source: 0}
    assert transport.read() == assigned, "it is not sought yet"
    begin(transport, assigned, decider)
    with pytest.raises(RuntimeError, match="sought already"):
        transport.seek(source, 0, None)
    assert transport.committed([source]) == {source: 0}
    batch = transport.read()
    assert isinstance(batch, Batch)
    assert batch.ends == {source: 3}
    assert transport.end_offsets([source]) == {source: 3}
    assert transport.lags() == {}
    transport.deliver(batch, decider.admit(batch))
    assert transport.committed([source]) == {source: 3}
    with pytest.raises(RuntimeError, match="does not follow"):
        transport.deliver(batch, decider.admit(batch))
    with pytest.raises(RecoveryRefused, match="3 lines are delivered"):
        transport.commit_start({source: 0})
    transport.close()
    transport.close()
    transport = FileTransport(paths, tmp_path / "out", SMALL, decider.known_streams)
    transport.open()
    while (event := transport.read()) is not FINISHED:
        if isinstance(event, Assigned):
            begin(transport, event, decider)
        else:
            assert isinstance(event, Batch)
            transport.deliver(event, decider.admit(event))
    assert transport.bytes_read == transport.bytes_total
    transport.close()


@pytest.mark.parametrize("spoil", ["refused", "shorter", "foreign", "version", "damaged"])
def test_a_folder_in_another_state_than_its_checkpoint_says_is_refused(tmp_path: Path, spoil: str) -> None:
    path, out = write(tmp_path / "in.jsonl", CONTENT), tmp_path / "out"
    decider = Decider()
    filter_files([path], out, decider)
    checkpoint = (out / "checkpoint.json").read_bytes()
    spoiled: dict[str, tuple[Callable[[], object], str]] = {
        "refused": (lambda: (out / "checkpoint.json").unlink(), "holds unique.jsonl.* but no checkpoint.json"),
        "shorter": (lambda: os.truncate(out / "unique.jsonl", 3), r"unique.jsonl: has 3 bytes, \d+ were delivered"),
        "foreign": (lambda: (out / "unique.jsonl").unlink(), "unique.jsonl: has 0 bytes"),
        "version": (
            lambda: write(out / "checkpoint.json", checkpoint.replace(b'"format":2', b'"format":1')),
            "has format 1, this program knows 2",
        ),
        "damaged": (lambda: write(out / "checkpoint.json", checkpoint[:-9]), "checkpoint.json: is damaged"),
    }
    change, message = spoiled[spoil]
    change()
    with pytest.raises(StreamerError, match=message) as raised:
        filter_files([path], out, decider)
    assert "--out" in str(raised.value)
    assert isinstance(raised.value, RecoveryRefused)


def small_files(tmp_path: Path, count: int) -> list[Path]:
    (tmp_path / "small").mkdir()
    return [write(tmp_path / "small" / f"{number:03}.txt", b"line %d\n" % (number // 2)) for number in range(count)]


def steps_on_disk(tmp_path: Path, count: int) -> int:
    out = tmp_path / "out"
    out.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        disk = Disk(patch, out, 0)
        (batch,) = filter_files(small_files(tmp_path, count), out, Decider(), batch=Batching(records_max=count))
    assert [record.value for record in batch.records] == [b"line %d" % (number // 2) for number in range(count)]
    return disk.steps


def test_a_batch_costs_the_disk_the_same_from_few_files_and_from_many(tmp_path: Path) -> None:
    assert steps_on_disk(tmp_path / "few", 5) == steps_on_disk(tmp_path / "many", 50)


def test_many_files_are_never_open_together_not_even_if_all_have_grown(tmp_path: Path) -> None:
    decider, paths, seen = Decider(), small_files(tmp_path, 50), set[int]()

    def look() -> None:
        seen.add(len(list(Path("/proc/self/fd").iterdir())))

    for _ in range(2):
        before = len(list(Path("/proc/self/fd").iterdir()))
        filter_files(paths, tmp_path / "out", decider, batch=Batching(records_max=20), after_admit=look)
        for path in paths:
            write(path, path.read_bytes() + b"more\n")
    assert max(seen) < before + 10


@pytest.mark.parametrize("ahead", [0, 9])
@pytest.mark.parametrize("spoiled", ["damaged", "changed"])
def test_files_before_a_wrong_one_are_delivered(tmp_path: Path, spoiled: str, ahead: int) -> None:
    decider, paths = Decider(), small_files(tmp_path, 9)
    if spoiled == "changed":
        filter_files(paths[6:7], tmp_path / "out", decider)
        write(paths[6], b"another line\n")
    else:
        write(paths[6], b"\x1f\x8b no gzip")
    with pytest.raises((InputChanged, InputUnreadable), match=r"006\.txt"):
        filter_files(paths, tmp_path / "out", decider, batch=Batching(records_max=4), ahead=ahead)
    (tmp_path / "small" / "006.txt").write_bytes(b"line 3\n")
    delivered = put_together(tmp_path / "out")
    assert [delivered[str(path)] for path in paths[:6]] == [[b"line %d" % (number // 2)] for number in range(6)]
    filter_files(paths, tmp_path / "out", decider, batch=Batching(records_max=4))
    assert put_together(tmp_path / "out") == {
        str(path): [b"line %d" % (number // 2)] for number, path in enumerate(paths)
    }


@pytest.mark.parametrize("ahead", [0, 9])
def test_a_batch_of_several_files_keeps_its_bounds_and_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    monkeypatch.setattr("streamer.transports.files.transport.ASSIGNED_MAX", 5)
    paths = [write(tmp_path / f"{number}.txt", b"x" * size) for number, size in enumerate([4, 4, 4, 90, 1, 1, 1, 1])]
    batches = filter_files(paths, tmp_path / "out", Decider(), batch=Batching(records_max=3, bytes_max=10), ahead=ahead)
    assert [[len(record.value or b"") for record in batch.records] for batch in batches] == [
        [4, 4],
        [4],
        [90],
        [1],
        [1, 1, 1],
    ]
    assert [record.topic for batch in batches for record in batch.records] == [str(path) for path in paths]


def test_batches_of_the_next_files_are_there_before_the_first_one_is_delivered(tmp_path: Path) -> None:
    decider = Decider()
    transport = FileTransport(
        small_files(tmp_path, 9), tmp_path / "out", Batching(records_max=2), decider.known_streams
    )
    transport.open()
    assigned = transport.read()
    assert isinstance(assigned, Assigned)
    begin(transport, assigned, decider)
    assert isinstance(transport.read(), Batch)
    ahead = [transport.peek(place) for place in range(5)]
    assert [None if each is None else len(each.records) for each in ahead] == [2, 2, 2, 1, None]
    transport.close()


def test_a_pipe_shares_no_batch_with_the_files_around_it(tmp_path: Path) -> None:
    before, after = write(tmp_path / "a.txt", b"one\n"), write(tmp_path / "b.txt", b"three\n")
    reading = pipe_of(b"two\n")
    batches = filter_files([before, "-", after], tmp_path / "out", Decider(), standard_input=reading)
    os.close(reading)
    assert [[record.value for record in batch.records] for batch in batches] == [[b"one"], [b"two"], [b"three"]]
