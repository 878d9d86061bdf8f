"""A file job on several processes writes what one process writes, whatever ends them."""

import gzip
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import orjson
import pyarrow as arrow
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from index import Source
from streamer.errors import EXIT_INTERRUPTED
from streamer.fingerprint.documents import fingerprint_documents
from streamer.fingerprint.key import PUBLIC
from streamer.fingerprint.scheme import scheme_for
from streamer.records.decode import Decoder
from streamer.records.record import Lost, Record
from streamer.service.file_job import START_BYTES
from streamer.service.processes import SHARE_BYTES_MIN, Packed, shares_of
from streamer.settings.settings import Settings
from streamer.transports.files.output_folder import OUTPUT_FILES
from tests.support.examples import examples
from tests.support.memory_service import SENTENCES
from tests.support.paths import ROOT
from tests.support.pooled_batches import records_of, shown
from tests.support.tiers import first_of
from tests.support.web_archives import Archive

RECORDS = 3_000
DEADLY = {2_803: "segfault", 2_804: "abort", 2_907: "endless"}
SETTINGS = ("fingerprint.key=public", "fingerprint.features_min=1", "batch.records_max=50")

LIMITS = (
    "kafka.request_timeout_ms=2000",
    "kafka.delivery_timeout_ms=4000",
    "workers.progress_timeout_ms=5000",
    "workers.document_timeout_ms=1000",
)
"""A batch has five seconds, and a record on trial one."""
SECTIONS = {
    "kafka": {"request_timeout_ms": 2_000, "delivery_timeout_ms": 4_000},
    "workers": {"progress_timeout_ms": 5_000, "document_timeout_ms": 1_000},
}


def written(path: Path, deadly: dict[int, str]) -> Path:
    """Sentences with numbers; every fifth one is a copy, and every seventh no document."""
    lines = []
    for number in range(RECORDS):
        text = f"{SENTENCES[number % len(SENTENCES)]} {number - number % 5 * (number % 2)}"
        if number in deadly:
            text = f"deadly-{deadly[number]}"
        lines.append(
            b"{" if number % 7 == 6 else orjson.dumps({"id": str(number), "text": text, "url": f"https://h/{number}"})
        )
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def command(path: Path, out: Path, processes: int, *settings: str) -> list[str]:
    chosen = [word for setting in (*SETTINGS, *settings) for word in ("--set", setting)]
    names = [str(path), "--out", str(out), "--index", str(out.with_suffix(".index")), "--processes", str(processes)]
    return [sys.executable, "-m", "streamer", *chosen, "filter", *names]


def environment(tmp_path: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'tests/support/poisoned'}:{ROOT}",
        "DEADLY_ONCE": str(tmp_path / "once"),
    }


def outputs(out: Path) -> dict[str, bytes]:
    return {name: (out / name).read_bytes() for name in OUTPUT_FILES if (out / name).exists()}


def children_of(number: int) -> list[int]:
    """Processes below a process, at any depth."""
    found: list[int] = []
    # The process may end amid the look.
    with suppress(OSError):
        for task in Path(f"/proc/{number}/task").glob("*/children"):
            with suppress(OSError):
                found += [int(child) for child in task.read_text().split()]
    return [*found, *(below for child in found for below in children_of(child))]


def command_line(number: int) -> bytes:
    try:
        return Path(f"/proc/{number}/cmdline").read_bytes()
    except OSError:
        return b""


def workers_of(number: int) -> list[int]:
    """The processes that prepare batches: those below the server that starts them."""
    return [below for child in children_of(number) for below in children_of(child)]


def mixed(folder: Path) -> Path:
    """A folder with the same kinds of lines in files of every kind, large and small ones; no line is in two of them."""
    folder.mkdir()
    lines = written(folder / "all", {}).read_bytes().splitlines(keepends=True)
    (folder / "all").unlink()
    parts = iter([lines[begin : begin + 250] for begin in range(0, len(lines), 250)])
    (folder / "a.jsonl").write_bytes(b"".join(next(parts)))
    (folder / "b.jsonl.gz").write_bytes(b"".join(gzip.compress(b"".join(next(parts))) for _ in range(2)))
    (folder / "c.jsonl.zst").write_bytes(zstandard.compress(b"".join(next(parts))))
    archive = Archive()
    for line in next(parts):
        if line.startswith(b'{"'):
            page = orjson.loads(line)
            archive.page(page["url"], page["text"])
    (folder / "d.warc.gz").write_bytes(archive.members)
    rows = [orjson.loads(line) for line in next(parts) if line.startswith(b'{"')]
    parquet.write_table(arrow.Table.from_pylist(rows), folder / "e.parquet")
    (folder / "small").mkdir()
    # A file of one brace is taken for JSON on several lines.
    for number, line in enumerate(line for line in next(parts) if line != b"{\n"):
        (folder / "small" / f"{number:03}.jsonl").write_bytes(line)
    (folder / "z.jsonl").write_bytes(b"".join(line for part in parts for line in part))
    return folder


def wide(path: Path, source: Path) -> Path:
    """The same lines with blanks at their ends: enough bytes for processes that start at once."""
    lines = [line.ljust(3_000) for line in source.read_bytes().splitlines()]
    path.write_bytes(b"\n".join(lines) + b"\n")
    assert path.stat().st_size > START_BYTES
    return path


@contextmanager
def running(arguments: Sequence[str], tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(arguments, env=environment(tmp_path), stdout=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_workers(process: subprocess.Popen[bytes]) -> list[int]:
    deadline = time.monotonic() + 120
    while not (workers := workers_of(process.pid)) and process.poll() is None:
        assert time.monotonic() < deadline, "no process prepares batches"
        time.sleep(0.005)
    return workers


def kill_a_copy(process: subprocess.Popen[bytes], out: Path) -> None:
    """Kill one of the copies that start at once, as soon as there are verdicts."""
    while not (copies := children_of(process.pid)):
        assert process.poll() is None
    assert not workers_of(process.pid), "these are no copies"
    while not (out / "verdicts.jsonl").exists():
        time.sleep(0.005)
    os.kill(copies[-1], signal.SIGKILL)


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """The input, and what one process makes of it."""
    folder = tmp_path_factory.mktemp("single")
    path = written(folder / "pages.jsonl", {})
    subprocess.run(command(path, folder / "out", 1), check=True, env=environment(folder))
    return path, outputs(folder / "out")


def test_several_processes_write_what_one_writes(single: tuple[Path, dict[str, bytes]], tmp_path: Path) -> None:
    path, wanted = single
    with running(command(path, tmp_path / "out", 3), tmp_path) as process:
        assert wait_for_workers(process)
        assert process.wait() == 0
    assert outputs(tmp_path / "out") == wanted


@pytest.mark.rest
def test_files_of_every_kind_are_read_ahead_in_folders_and_by_globs(tmp_path: Path) -> None:
    path = mixed(tmp_path / "mixed")
    subprocess.run(command(path, tmp_path / "single", 1), check=True, env=environment(tmp_path))
    path /= "**/*.*"
    with running(command(path, tmp_path / "out", 3), tmp_path) as process:
        wait_for_workers(process)
        process.send_signal(signal.SIGINT)
        assert process.wait() in (0, EXIT_INTERRUPTED)
    # It goes on in the middle of the files, with another number of processes.
    subprocess.run(command(path, tmp_path / "out", 2), check=True, env=environment(tmp_path))
    assert outputs(tmp_path / "out") == outputs(tmp_path / "single")


def test_copies_that_a_large_input_starts_at_once_may_be_killed_and_change_nothing(
    single: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    path = wide(tmp_path / "pages.jsonl", single[0])
    subprocess.run(command(path, tmp_path / "single", 1), check=True, env=environment(tmp_path))
    with running(command(path, tmp_path / "out", 2), tmp_path) as process:
        kill_a_copy(process, tmp_path / "out")
        assert process.wait() == 0
    assert outputs(tmp_path / "out") == outputs(tmp_path / "single")


@pytest.mark.rest
def test_the_server_that_starts_processes_may_be_killed_as_they_start_and_changes_nothing(
    single: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    path = wide(tmp_path / "pages.jsonl", single[0])
    subprocess.run(command(path, tmp_path / "single", 1), check=True, env=environment(tmp_path))
    with running(command(path, tmp_path / "out", 2), tmp_path) as process:
        kill_a_copy(process, tmp_path / "out")
        while not (servers := [child for child in children_of(process.pid) if b"forkserver" in command_line(child)]):
            assert process.poll() is None, "no server starts others"
        os.kill(servers[0], signal.SIGKILL)
        assert process.wait() == 0
    assert outputs(tmp_path / "out") == outputs(tmp_path / "single")


def test_processes_that_are_killed_change_nothing(single: tuple[Path, dict[str, bytes]], tmp_path: Path) -> None:
    path, wanted = single
    killed = 0
    with running(command(path, tmp_path / "out", 2), tmp_path) as process:
        while process.poll() is None:
            if killed < 5 and (workers := wait_for_workers(process)):
                with suppress(ProcessLookupError):
                    os.kill(workers[0], signal.SIGKILL)
                    killed += 1
            time.sleep(0.2)
        assert process.returncode == 0
    assert killed
    assert outputs(tmp_path / "out") == wanted


@pytest.mark.parametrize("how", first_of(signal.SIGKILL, signal.SIGINT))
def test_a_job_that_ends_leaves_no_process_and_goes_on_where_it_ended(
    single: tuple[Path, dict[str, bytes]], tmp_path: Path, how: signal.Signals
) -> None:
    path, wanted = single
    with running(command(path, tmp_path / "out", 2), tmp_path) as process:
        workers = wait_for_workers(process)
        process.send_signal(how)
        process.wait(timeout=60)
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < deadline, "processes are left"
        time.sleep(0.05)
    subprocess.run(command(path, tmp_path / "out", 2), check=True, env=environment(tmp_path))
    assert outputs(tmp_path / "out") == wanted


RECORDS_OF_ANY_KIND = st.lists(
    st.builds(
        Record,
        st.sampled_from([Source("one", 0), Source("one", 1), Source("two", 0)]),
        st.just("pages"),
        st.integers(0, 2**62),
        st.none() | st.binary(max_size=9),
        st.none() | st.binary(max_size=99) | st.just(b"long" * SHARE_BYTES_MIN),
        st.integers(-1, 2**62),
        st.just(()),
        st.none() | st.builds(Lost, st.integers(1, 9), st.text()),
    ),
    min_size=1,
    max_size=12,
)


@given(records=RECORDS_OF_ANY_KIND)
@examples(60)
def test_records_of_any_kind_reach_another_process_as_they_are(records: list[Record]) -> None:
    memory = os.memfd_create("values")
    assert Packed.of(records, memory).records() == records
    os.close(memory)


@given(records=RECORDS_OF_ANY_KIND, count=st.integers(2, 5))
@examples(60)
def test_shares_are_a_batch_in_order_with_about_as_many_bytes_each(records: list[Record], count: int) -> None:
    shares = shares_of(records, count)
    assert [record for share in shares for record in share] == records
    assert 1 <= len(shares) <= count
    sizes = [sum(len(record.value or b"") for record in share) for share in shares]
    longest = max(len(record.value or b"") for record in records)
    wanted = max(1, min(count, sum(sizes) // SHARE_BYTES_MIN))
    assert len(shares) <= wanted
    assert max(sizes) <= sum(sizes) / wanted + longest


@pytest.mark.rest
def test_batches_that_end_processes_are_suspected_and_all_others_prepared(tmp_path: Path) -> None:
    def batch(word: str) -> list[str]:
        return [
            *(orjson.dumps({"id": f"{word} {n}", "text": text}).decode() for n, text in enumerate([word, *SENTENCES])),
            "{",
        ]

    words = ["sound", "deadly-abort", "deadly-once", "calm", "deadly-endless", "quiet"]
    batches, settings = [batch(word) for word in words], Settings.model_validate(SECTIONS)
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/support/pooled_batches.py")],
        input=orjson.dumps({"settings": SECTIONS, "batches": batches}),
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        check=True,
    )
    scheme, decoder = scheme_for(settings, PUBLIC), Decoder(settings.decode)
    for word, values, answer in zip(words, batches, orjson.loads(done.stdout), strict=True):
        documents = decoder.decode(records_of(values))
        wanted = shown(documents, fingerprint_documents(scheme, documents))
        assert answer == (["suspected"] if word in ("deadly-abort", "deadly-endless") else wanted)


def test_records_that_end_processes_become_dead_letters_and_all_others_stay(
    single: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    path = written(tmp_path / "pages.jsonl", DEADLY)
    # Until the processes have started, a record can end the job: the same command goes on.
    for _ in range(1 + len(DEADLY)):
        with running(command(path, tmp_path / "out", 2, *LIMITS), tmp_path) as process:
            if process.wait() == 0:
                break
    assert process.returncode == 0
    verdicts = [orjson.loads(line) for line in (tmp_path / "out" / "verdicts.jsonl").read_bytes().splitlines()]
    poison = [number for number, verdict in enumerate(verdicts) if verdict["reason"] == "poison"]
    wanted = [orjson.loads(line) for line in single[1]["verdicts.jsonl"].splitlines()]
    assert poison == sorted(DEADLY)
    assert [each["verdict"] for each in verdicts[: min(DEADLY)]] == [each["verdict"] for each in wanted[: min(DEADLY)]]
    assert len(verdicts) == RECORDS


def test_a_short_input_starts_no_process(single: tuple[Path, dict[str, bytes]], tmp_path: Path) -> None:
    short = tmp_path / "pages.jsonl"
    short.write_bytes(b"\n".join(single[0].read_bytes().splitlines()[:100]) + b"\n")
    with running(command(short, tmp_path / "out", 8), tmp_path) as process:
        while process.poll() is None:
            assert workers_of(process.pid) == []
            time.sleep(0.01)
        assert process.returncode == 0
