"""An index keeps the value of fingerprint.markup that it was made with, unless somebody sets another."""

from pathlib import Path

import orjson
import pytest

from index import errors
from streamer import Filter, load_settings
from streamer.fingerprint.in_place import as_in_place
from streamer.settings.settings import Settings, load
from tests.support.command_line import run
from tests.support.pages import BLOCKS, PARAGRAPHS

PLAIN = "\n".join(PARAGRAPHS)


def settings(directory: Path, *overrides: str) -> Settings:
    return load(None, [f"index.directory={directory}", *overrides])


@pytest.mark.parametrize("markup", ["none", "html", "html-main", "auto"])
def test_an_index_goes_on_with_its_own_value_where_none_is_set(tmp_path: Path, markup: str) -> None:
    with Filter(tmp_path, load_settings(overrides=[f"fingerprint.markup={markup}"])) as made:
        made.admit([{"id": "page", "text": BLOCKS}])
        (asked,) = made.check([{"id": "text", "text": PLAIN}])
    assert as_in_place(settings(tmp_path)).fingerprint.markup == markup
    with Filter(tmp_path, load_settings()) as opened:
        (answer,) = opened.check([{"id": "text", "text": PLAIN}])
    assert answer.verdict == asked.verdict == ("unique" if markup == "none" else "duplicate")


def test_a_value_that_is_set_is_compared_with_the_stamp(tmp_path: Path) -> None:
    Filter(tmp_path, load_settings(overrides=["fingerprint.markup=none"])).close()
    chosen = settings(tmp_path, "fingerprint.markup=auto")
    assert as_in_place(chosen) is chosen
    with pytest.raises(errors.ParametersDifferError, match="markup"):
        Filter(tmp_path, chosen)


def test_without_an_index_the_default_stays(tmp_path: Path) -> None:
    (tmp_path / "rubbish").mkdir()
    (tmp_path / "rubbish" / "data.mdb").write_bytes(b"no index")
    for directory in (tmp_path, tmp_path / "none", tmp_path / "rubbish"):
        assert as_in_place(settings(directory)).fingerprint.markup == "auto"


def test_a_folder_of_the_former_default_goes_on_by_the_same_command(tmp_path: Path) -> None:
    pages, folders = tmp_path / "pages.jsonl", ("--out", tmp_path / "out", "--index", tmp_path / "index")
    first = orjson.dumps({"id": "a", "text": BLOCKS}) + b"\n"
    pages.write_bytes(first)
    assert run("filter", pages, *folders, "--processes", 1, "--set", "fingerprint.markup=none").code == 0
    pages.write_bytes(first + first.replace(b'"a"', b'"b"') + orjson.dumps({"id": "c", "text": PLAIN}) + b"\n")
    again = run("filter", pages, *folders, "--processes", 1)
    assert (again.code, "warning" in again.err) == (0, False)
    assert b'"b"' in (tmp_path / "out" / "duplicate.jsonl").read_bytes()
    assert b'"c"' in (tmp_path / "out" / "unique.jsonl").read_bytes()
    assert run("why", "b", *folders).code == 0
    assert run("verify", *folders).code == 0
