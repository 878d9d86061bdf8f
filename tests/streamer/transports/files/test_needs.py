"""What inputs need is looked at before the first line is read."""

import gzip
import importlib.metadata
import importlib.util
import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from streamer.errors import SettingsError
from streamer.packages import install_command
from streamer.transports.files.needs import require_packages
from tests.support.command_line import run
from tests.support.paths import ROOT

LINE = b'{"id": "a", "text": "The ferry leaves at nine."}\n'


@pytest.mark.parametrize(
    ("lacking", "name", "content", "command"),
    [
        ("pyarrow", "table.parquet", b"", "pyarrow"),
        ("pyarrow", "part-0001", b"PAR1\0\0", "pyarrow"),
        ("warcio", "crawl.warc.gz", gzip.compress(b""), "warcio"),
        ("warcio", "crawl.wet", b"", "warcio"),
        ("brotli", "part-0002", b"WARC/1.0\r\n", "warcio"),
    ],
)
def test_a_missing_package_is_named_before_the_first_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: str, name: str, content: bytes, command: str
) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINE)
    (tmp_path / name).write_bytes(content)
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda each: None if each == lacking else find_spec(each))
    filtered = run(
        "filter", tmp_path / "a.jsonl", tmp_path / name, "--out", tmp_path / "out", "--index", tmp_path / "index"
    )
    assert filtered.code == os.EX_CONFIG
    assert name in filtered.err
    assert f"-m pip install {command}" in filtered.err.replace("'", "")
    assert not (tmp_path / "out").exists()
    with pytest.raises(SettingsError):
        require_packages([tmp_path / name])


def test_files_that_need_nothing_and_what_cannot_be_opened_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(LINE))
    require_packages([tmp_path / "a.jsonl.gz", tmp_path / "absent", tmp_path, Path("-")])


@pytest.mark.parametrize("feature", ["confluent", "html", "parquet", "registry", "warc"])
def test_the_command_names_this_python_and_packages_by_their_own_names(
    feature: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    python, *words = shlex.split(install_command(feature))
    assert python == sys.executable
    assert words[:3] == ["-m", "pip", "install"]
    assert all(not word.startswith("neardup") and word[0].isalpha() for word in words[3:])

    def uninstalled(_: str) -> None:
        raise importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(importlib.metadata, "requires", uninstalled)
    assert not any("=" in word for word in shlex.split(install_command(feature))[4:])


def test_each_command_names_packages_of_the_project_file() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    for feature in ("confluent", "html", "parquet", "registry", "warc"):
        for word in shlex.split(install_command(feature))[4:]:
            assert f'"{re.split("[<=>,]", word)[0]}' in project
