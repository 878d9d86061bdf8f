"""Files that settings name, and the error for one that cannot be used."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
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


def no_password() -> NoReturn:
    """For a certificate's key: otherwise OpenSSL would wait for the password on the terminal."""
    raise ValueError("the key is encrypted")
