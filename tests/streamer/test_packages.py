"""A package that is missing or broken is named with its repair, wherever its import happens, and nothing else changes."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from streamer.errors import SettingsError
from streamer.observe.process_start import ended_by_imports
from streamer.packages import failed_import, imports_named
from tests.support.paths import ROOT

LOST = "libthing.so.7: cannot open shared object file"
FEATURES = {
    "confluent": "confluent_kafka",
    "html": "lxml",
    "parquet": "pyarrow",
    "registry": "fastavro",
    "remote": "s3fs",
    "warc": "chardetng_py",
}


def broken(folder: Path, package: str, error: str = "ImportError", message: str = LOST) -> Path:
    """A folder that holds a package which is there and cannot be imported."""
    (folder / package).mkdir(parents=True)
    (folder / package / "__init__.py").write_text(f"raise {error}({message!r})\n")
    return folder


def streamer(*words: object, first: Path) -> subprocess.CompletedProcess[str]:
    variables = os.environ | {"PYTHONPATH": f"{first}:{ROOT}"}
    command = [sys.executable, "-m", "streamer", *map(str, words)]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120, check=False)


def test_each_feature_names_its_broken_package_the_place_and_the_command(tmp_path: Path) -> None:
    for package in FEATURES.values():
        broken(tmp_path, package)
    program = (
        "import json, sys\nfrom streamer.packages import lack_of\n"
        f"json.dump({{each: lack_of(each) for each in {list(FEATURES)!r}}}, sys.stdout)"
    )
    variables = os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=True)
    lacks = json.loads(done.stdout)
    for feature, package in FEATURES.items():
        assert f"(ImportError: {LOST}, in {tmp_path / package / '__init__.py'})" in lacks[feature]
        repair = lacks[feature].partition(f"Install it again: {sys.executable} -m pip install --force-reinstall ")[2]
        assert repair.strip("'").startswith(package.replace("_", "-").removesuffix("-py"))
    assert lacks["html"].startswith("the package trafilatura, which cannot be imported, for lxml cannot (")


@pytest.mark.parametrize(
    ("package", "error", "words"),
    [
        ("pyarrow", "ImportError", "in.parquet: this is Parquet, which needs the package pyarrow, which cannot"),
        ("pyarrow", "OSError", "in.parquet: this is Parquet, which needs the package pyarrow, which cannot"),
        ("opencc", "ImportError", "the package opencc cannot"),
        ("click", "ValueError", "the package click cannot"),
    ],
)
def test_a_broken_package_ends_a_command_with_its_name_and_no_traceback(
    package: str, error: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "in.parquet").write_bytes(b"PAR1")
    before = broken(tmp_path / "path", package, error)
    done = streamer(
        "filter", tmp_path / "in.parquet", "--out", tmp_path / "out", "--index", tmp_path / "index", first=before
    )
    assert done.returncode == os.EX_CONFIG
    assert "Traceback" not in done.stderr
    first, *further = done.stderr.splitlines()
    assert words in first
    assert "pip install --force-reinstall" in first
    assert further in ([], ["Nothing was read yet."])
    assert not (tmp_path / "out").exists()


def test_a_broken_parser_of_pages_ends_a_command_at_the_first_page_and_no_other_record(tmp_path: Path) -> None:
    before = broken(tmp_path / "path", "trafilatura")
    page = f"<!DOCTYPE html><html><body>{'<p>The harbour opens again on Monday.</p>' * 9}</body></html>"
    plain, pages = ({"id": "a", "text": "The harbour opens again on Monday."}, {"id": "b", "text": page})
    (tmp_path / "in.jsonl").write_text(json.dumps(plain) + "\n")
    folders = ("--out", tmp_path / "out", "--index", tmp_path / "index")
    assert streamer("filter", tmp_path / "in.jsonl", *folders, first=before).returncode == os.EX_OK
    with (tmp_path / "in.jsonl").open("a") as lines:
        lines.write(json.dumps(pages) + "\n")
    done = streamer("filter", tmp_path / "in.jsonl", *folders, first=before)
    assert done.returncode == os.EX_CONFIG
    assert "the package trafilatura cannot be imported (ImportError" in done.stderr
    assert "Traceback" not in done.stderr
    whole = streamer("filter", tmp_path / "in.jsonl", *folders, first=tmp_path)
    assert whole.returncode == os.EX_OK, whole.stderr
    assert (tmp_path / "out" / "verdicts.jsonl").read_bytes().count(b'"verdict":"unique"') == 2


def test_the_package_that_failed_is_named_and_not_the_one_that_imported_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "asked_for.py").write_text("import rensa\n")
    monkeypatch.delitem(sys.modules, "rensa", raising=False)
    broken(tmp_path, "rensa", "RuntimeError", "compiled for another numpy")
    with pytest.raises(SettingsError, match=r"^the package asked_for cannot be imported, for rensa cannot \(RuntimeE"):
        import_named("asked_for")


def test_what_is_not_installed_is_named_by_what_needs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own name may be another for pip: whoever needs it says it by the right one."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "asked_for_too.py").write_text("import is_not_there\n")
    with pytest.raises(SettingsError, match=r"^the package asked_for_too cannot be.*--force-reinstall asked_for_too$"):
        import_named("asked_for_too")


def test_a_module_that_python_lacks_is_installed_with_no_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = ModuleNotFoundError("No module named '_sqlite3'", name="_sqlite3")
    assert failed_import(error).endswith("That is Python's own: run `streamer` with a Python that has all its modules.")


def import_named(name: str) -> None:
    with imports_named():
        importlib.import_module(name)


@pytest.mark.parametrize(
    "error", [ValueError("ours"), OSError("ours"), ImportError("ours"), ImportError("ours", name="index.not_there")]
)
def test_an_error_of_our_own_stays_what_it_is(error: Exception) -> None:
    with pytest.raises(type(error), match="ours"), imports_named():
        raise error


def test_a_process_that_an_import_ends_has_the_exit_code_of_a_setting() -> None:
    with capture_logs() as logged, pytest.raises(SystemExit) as ended, ended_by_imports("worker ends"):
        raise ModuleNotFoundError("No module named 'opencc'", name="opencc")
    assert ended.value.code == os.EX_CONFIG
    (line,) = logged
    assert line["event"] == "worker ends"
    assert "the package opencc cannot be imported" in line["reason"]
