"""Closed and full descriptors: the work is done, the index is never read as input, and no command ends in a traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.tiers import first_of

DOCUMENTS = "".join(
    json.dumps({"id": str(at), "text": text}) + "\n"
    for at, text in enumerate(
        ["The fishermen mended their nets at night. " * 20, "A comet was seen over the hills. " * 20]
    )
)


def shell(redirected: str, tmp_path: Path, command: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "in.jsonl").write_text(DOCUMENTS)
    return subprocess.run(
        ["sh", "-c", f'"{sys.executable}" -m streamer {command} {redirected}'],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        input=DOCUMENTS,
    )


FILTER = "filter in.jsonl --out out --index index --processes 1"


@pytest.mark.parametrize(
    ("redirected", "code", "says"),
    [
        (">/dev/full", os.EX_IOERR, "standard output: No space left on device."),
        *first_of(
            (">&- 2>&- <&-", os.EX_IOERR, ""),
            (">&-", os.EX_IOERR, "standard output: Bad file descriptor."),
            ("2>&-", 0, ""),
            ("2>/dev/full", 0, ""),
            ("<&-", 0, ""),
            ("--json >/dev/full", os.EX_IOERR, "No space left on device."),
        ),
    ],
)
def test_a_filter_does_its_work_whatever_descriptors_are_closed_or_full(
    redirected: str, code: int, says: str, tmp_path: Path
) -> None:
    done = shell(redirected, tmp_path, FILTER)
    assert (done.returncode, "Traceback" in done.stderr, done.stderr.count("streamer: ")) == (code, False, bool(says))
    assert says in done.stderr
    assert len((tmp_path / "out" / "unique.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize("redirected", ["<&-", "<&- >&- 2>&-"])
def test_a_closed_standard_input_is_no_input_and_never_a_file_of_our_own(redirected: str, tmp_path: Path) -> None:
    done = shell(redirected, tmp_path, "filter - --out out --index index --processes 1")
    assert done.returncode == os.EX_NOINPUT
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out" / "unique.jsonl").exists()


@pytest.mark.parametrize("redirected", first_of(">&-", ">/dev/full"))
@pytest.mark.parametrize("command", ["version", "config show", "--help", "--version", "index --directory none stats"])
def test_an_answer_that_cannot_be_written_is_an_error_in_one_line(
    redirected: str, command: str, tmp_path: Path
) -> None:
    done = shell(redirected, tmp_path, command)
    (line,) = done.stderr.splitlines()
    assert line.startswith("streamer: ")
    assert done.returncode == (os.EX_NOINPUT if "none" in command else os.EX_IOERR)


def test_a_reader_that_has_gone_ends_a_command_without_a_word(tmp_path: Path) -> None:
    done = shell("| true", tmp_path, "config show --all")
    assert done.stderr == ""
