import subprocess
import sys
from importlib import import_module

import pytest

import index
import index.tools
from tests.support.paths import ROOT

PUBLIC = {
    "DATA_FILE", "DISTANCE_MAX", "EXTENDING", "NO_DISTANCE", "NO_NUMBER", "RATIO_MAX", "Applied", "Decided",
    "Decisions", "Document", "Entries", "FrameRule", "Guard", "HostShare", "Index", "Insert", "Judged", "Kind",
    "Reason", "Longer", "Match", "Parameters", "Position", "Recrawl", "RecrawlPolicy", "Retention", "RootRule",
    "Source", "EntryState", "Verdict", "Named", "Story", "Turn", "WatchedHosts", "errors", "minhash",
    "given_back_source", "is_given_back", "naming_originals", "plain_source", "second_look", "standing_for_themselves",
    "Writer", "writer_of",
    "Room", "nearest_existing", "room_of", "BaseName", "base_of", "stream_above",
}  # fmt: skip

HATCHES = {
    "inspect",
    "change",
    "search",
    "tree",
    "restored",
    "note_times",
    "copy_to",
    "readers",
    "store",
    "write",
    "read",
}


def test_the_public_names_are_these_and_all_are_there() -> None:
    assert set(index.__all__) == PUBLIC == set(dir(index))
    for module in (index, index.tools):
        assert len(set(module.__all__)) == len(module.__all__)
        assert all(getattr(module, name) is not None for name in module.__all__)


def test_modules_of_one_name_with_a_function_hide_it_from_nobody() -> None:
    for name in ("verify", "survey"):
        import_module(f"index.tools.{name}")
        assert callable(getattr(index.tools, name))


def test_a_name_that_is_none_is_told() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Indices'"):
        index.Indices  # noqa: B018


def test_an_open_index_has_no_hatches() -> None:
    assert not HATCHES & set(vars(index.Index))
    assert {name for name in vars(index.Index) if not name.startswith("_")} == {
        "open", "close", "require_open",
        "admit", "restore", "query", "query_exact", "documents", "find", "decided", "statistics",
        "forget", "forget_names", "forget_streams",
        "begin", "begin_all", "set_applied", "applied", "streams", "stream_names", "take_turn", "give_turn_back",
        "watched_hosts", "check", "decided_at", "standings", "states_at", "newest_near", "judged",
        "give_back", "are_given_back", "undelivered", "settle",
        "stories", "story", "due_stories", "clear_stories", "take_stories_turn",
    }  # fmt: skip


def test_importing_the_index_loads_neither_numba_nor_lmdb_nor_numpy() -> None:
    program = "import sys, index; print(sorted({'numba', 'lmdb', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_crosses_the_line_loads_no_machine_code() -> None:
    program = "import sys; from index import Entries, Kind, Source, errors; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
