"""Packages that inputs need, looked for before the first line is read."""

from collections.abc import Sequence
from contextlib import suppress

from streamer.errors import SettingsError
from streamer.packages import lack_of
from streamer.transports.files import parquet, warc
from streamer.transports.files.formats import kind_of
from streamer.transports.files.remote import Input, Remote

_MAGIC_BYTES = 8
_WARC = {".warc", ".wet"}


def require_packages(paths: Sequence[Input]) -> None:
    """Raise SettingsError unless the packages can be imported that these inputs need, by their names or first bytes.

    >>> from pathlib import Path
    >>> require_packages([Path("pages.jsonl"), Path("crawl.warc.gz"), Path("-")])
    """
    for name, feature in (("WARC", "warc"), ("Parquet", "parquet")):
        first = next((path for path in paths if _is(name, path)), None)
        if first is not None and (lack := lack_of(feature)):
            raise SettingsError(f"{first}: this is {name}, which needs {lack}\nNothing was read yet.")


def _is(name: str, path: Input) -> bool:
    kind = kind_of(path)
    if kind == ".parquet" or kind in _WARC:
        return (name == "WARC") == (kind in _WARC)
    begin = warc.BEGIN if name == "WARC" else parquet.BEGIN
    # A pipe is not looked at: its first bytes would be gone. An object's would be asked for.
    if isinstance(path, Remote) or not path.is_file():
        return False
    with suppress(OSError), path.open("rb") as file:
        return file.read(_MAGIC_BYTES).startswith(begin)
    return False
