"""Files that settings name, packages that they need, and the error for one that cannot be used."""

import importlib.metadata
import importlib.util
import re
import shlex
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from streamer.errors import SettingsError


@contextmanager
def usable(key: str, file: object, wanted: str) -> Iterator[None]:
    """Raise SettingsError if the file that the setting `key` names cannot be read, or does not hold what is wanted."""
    try:
        yield
    except (ssl.SSLError, ValueError) as error:
        raise SettingsError(f"{key}: {file}: must hold {wanted} ({getattr(error, 'reason', None) or error})") from error
    except OSError as error:
        raise SettingsError(f"{key}: {file}: cannot be read: {error.strerror}") from error


def read_named(key: str, file: Path) -> bytes:
    """Content of the file that the setting `key` names. Raises SettingsError."""
    with usable(key, file, "bytes"):
        return file.read_bytes()


def require_package(package: str, needed: str, feature: str) -> None:
    """Raise SettingsError unless a package is installed. `needed` begins the sentence; the feature is one of _PACKAGES."""
    if importlib.util.find_spec(package) is None:
        raise SettingsError(f"{needed}, which is not installed: {install_command(feature)}")


_PACKAGES = {
    "confluent": ("confluent-kafka",),
    "html": ("trafilatura", "lxml", "lxml-html-clean"),
    "parquet": ("pyarrow",),
    "registry": ("fastavro",),
    "remote": ("fsspec", "s3fs", "aiohttp"),
    "warc": ("warcio", "brotli"),
}
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def install_command(feature: str) -> str:
    """Command for a shell that installs what a feature needs, in the tested releases, for the Python that runs.

    >>> install_command("warc").partition(" -m ")[2]
    "pip install warcio==1.8.1 'brotli>=1.2'"
    """
    # An extra's name would not do: the program may be installed from a folder that no index knows.
    requirements: list[str] = []
    with suppress(importlib.metadata.PackageNotFoundError):
        requirements = importlib.metadata.requires("neardup-streamer") or []
    pinned = {_NAME.match(each)[0]: each.partition(";")[0].strip() for each in requirements}  # type: ignore[index]
    wanted = [pinned.get(name, name) for name in _PACKAGES[feature]]
    return shlex.join([sys.executable, "-m", "pip", "install", *wanted])


def no_password() -> NoReturn:
    """For a certificate's key: otherwise OpenSSL would wait for the password on the terminal."""
    raise ValueError("the key is encrypted")
