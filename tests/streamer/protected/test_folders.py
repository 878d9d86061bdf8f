"""Folders of protected sets: what cannot serve is refused by name, with the way out."""

from pathlib import Path

import pytest

from index import Index, Parameters
from streamer.errors import SettingsError
from streamer.protected.folders import INDEX_FOLDER, read_note, secret_of, set_folders, write_note
from streamer.settings.settings import Decode
from streamer.settings.settings import Index as IndexSettings

SECRET = bytes(range(16))


def made(folder: Path) -> Path:
    """An empty set."""
    write_note(folder, Decode())
    Index.open(folder / INDEX_FOLDER, Parameters(), map_bytes_max=2**24, secret=SECRET).close()
    return folder


def settings(directory: Path, *protected: Path, base: Path | None = None) -> IndexSettings:
    return IndexSettings(directory=directory, protected=[*protected], base=[] if base is None else [base])


def test_a_folder_that_is_named_twice_counts_once_by_its_name(tmp_path: Path) -> None:
    one, other = made(tmp_path / "one"), made(tmp_path / "other")
    (tmp_path / "link").symlink_to(one)
    named = settings(tmp_path / "live", one, tmp_path / "link", other, one)
    assert set_folders(named) == {"one": one, "other": other}


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (
            "nowhere",
            r"index\.protected: .*nowhere: there is no protected set\. Make one \(streamer protect FILES --out",
        ),
        ("plain", r"index\.protected: .*plain: there is no protected set"),
        ("live", r"index\.protected: .*live: this is the index itself"),
        ("based", r"index\.protected: .*based: it is in index\.base too, whose matches are dropped"),
        ("elsewhere/one", r"index\.protected: .*one and .*elsewhere/one have one name"),
    ],
)
def test_what_cannot_serve_is_refused_by_name(tmp_path: Path, name: str, problem: str) -> None:
    for folder in ("one", "live", "based", "elsewhere/one"):
        made(tmp_path / folder)
    # An index that no set belongs to.
    Index.open(tmp_path / "plain" / INDEX_FOLDER, Parameters(), map_bytes_max=2**24).close()
    named = settings(tmp_path / "live" / INDEX_FOLDER, tmp_path / "one", tmp_path / name, base=tmp_path / "based")
    with pytest.raises(SettingsError, match=problem):
        set_folders(named)


def test_a_new_index_takes_over_the_secret_of_a_set_and_one_in_place_keeps_its_own(tmp_path: Path) -> None:
    named = settings(tmp_path / "live", made(tmp_path / "one"))
    assert secret_of(named) == SECRET
    Index.open(tmp_path / "live", Parameters(), map_bytes_max=2**24).close()
    assert secret_of(named) is None
    assert secret_of(settings(tmp_path / "new")) is None


def test_a_set_remembers_how_its_documents_were_decoded(tmp_path: Path) -> None:
    decode = Decode(text="/question", value_bytes_max=1_000)
    write_note(tmp_path, decode)
    write_note(tmp_path, decode)
    assert read_note(tmp_path, Decode()) == decode
    with pytest.raises(SettingsError, match=r"read by other settings \(decode\.text\): name another --out"):
        write_note(tmp_path, Decode(value_bytes_max=1_000))


def test_a_damaged_note_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "set.json").write_text("{}")
    with pytest.raises(SettingsError, match=r"set\.json: cannot be read .*make the set again"):
        read_note(tmp_path, Decode())
