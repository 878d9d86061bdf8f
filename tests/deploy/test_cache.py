"""What is fetched once: whole, or not at all, whoever else fetches it."""

from pathlib import Path

import pytest

from deploy.cache import cache, made


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def filled(folder: Path, content: str) -> None:
    folder.mkdir(parents=True)
    (folder / "file").write_text(content)


def test_what_is_there_is_not_made_again() -> None:
    for content in ("first", "second"):
        assert (made("thing", lambda into, content=content: filled(into, content)) / "file").read_text() == "first"
    assert [path.name for path in cache().iterdir()] == ["thing"]


def test_what_another_made_meanwhile_is_taken() -> None:
    def make(into: Path) -> None:
        filled(into, "mine")
        filled(cache() / "thing", "another's")

    assert (made("thing", make) / "file").read_text() == "another's"
    assert [path.name for path in cache().iterdir()] == ["thing"]


def test_what_fails_half_way_leaves_nothing() -> None:
    def make(into: Path) -> None:
        filled(into, "half")
        raise ConnectionError("no route")

    with pytest.raises(ConnectionError):
        made("thing", make)
    assert not list(cache().iterdir())
