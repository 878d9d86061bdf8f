"""Objects in stores and on web servers: what a URL means, and their bytes. The only importer of fsspec and its clients.

A reader asks for one range after another, and for the next one while its user works with the last. A request that fails
is repeated from the first byte that has not come, for half as many bytes. A server without ranges sends the object from
its start: what came before is dropped.
"""

import io
import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.client import HTTPException
from threading import Event
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import xxhash

from streamer.errors import InputLost, InputUnreadable, SettingsError
from streamer.packages import lack_of
from streamer.transports.files.remote import SCHEMES, WEB, Remote, plain_url

RANGE_BYTES_MAX = 8 * 2**20
"""Most bytes of a request. Three of them are in memory at most."""

_RANGE_BYTES_FIRST = 2**18
_RANGE_BYTES_MIN = 2**16
PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each repetition of a request that failed."""

_MAGIC = re.compile(r"[*\[]")
_SILENCE_SECONDS = 60  # a server that sends nothing for so long is as good as gone
_CREDENTIALS = (
    "Set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. "
    "For a public bucket set FSSPEC_S3='{\"anon\": true}'."
)
_UNSIGNED = {"NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "TokenRetrievalError"}
"""Errors of clients that find no credentials, or half of them."""
_WEB_CREDENTIALS = "Take a URL that is signed, or put user and password into ~/.netrc."


_CHANGED = "the object changed, or went, while this command ran"


class Absent(Exception):
    """There is no such object. The message says so."""


class Changed(Exception):
    """The object is no longer the one that was asked for, or is gone. The message says so."""


class Found(NamedTuple):
    """An object that a URL means.

    path      below the folder, or below a pattern's last folder before the first * or [
    is_named  by itself or by the pattern, not by its folder

    >>> remote = Remote("s3://corpora/crawl/a.jsonl", "s3://corpora/crawl/a.jsonl", 2, b"", "")
    >>> Found(remote, "a.jsonl", is_named=False).path
    'a.jsonl'
    """

    remote: Remote
    path: str
    is_named: bool


def objects(address: str) -> Iterator[Found]:
    """Objects that a URL means.

    A folder is what keys have before a slash, and gives all objects at any depth. A pattern's * and [ match within a name,
    and ** any depth. A key that exists is no pattern. Web servers list nothing.

    Raises Absent, SettingsError, InputUnreadable, InputLost.
    """
    scheme = require_client(address)
    with _refusals(address):
        files = _file_system(scheme)
        files.invalidate_cache()
        folder = address.partition("://")[2].rstrip("/")
        try:
            matches = [files.info(address)]
        except FileNotFoundError as error:
            # Clients of web servers call each refusal so.
            if error.__cause__ is not None and getattr(error.__cause__, "status", 0) != 404 and scheme in WEB:
                raise error.__cause__ from None
            if scheme in WEB or not _MAGIC.search(address):
                raise Absent(f"{plain_url(address)}: there is no such object: correct the URL") from error
            matches = list(files.glob(address, detail=True).values())
            folder = _MAGIC.split(folder)[0].rpartition("/")[0]
        for info in matches:
            is_named, inner = info["type"] != "directory", [info]
            if not is_named:
                inner = [] if "**" in address else files.find(info["name"], detail=True).values()
            for each in inner:
                # Some programs keep an object for a folder.
                if scheme in WEB or not each["name"].endswith("/"):
                    yield Found(_remote(scheme, each), each["name"].removeprefix(folder).lstrip("/"), is_named)


def require_client(address: str) -> str:
    """The URL's scheme. Raises SettingsError for one that is not read, for a package that is missing and for a password."""
    scheme = address.partition("://")[0].lower()
    url = plain_url(address)
    if scheme == "gs":
        raise SettingsError(
            f"{url}: gs:// is not read. Google's stores have the interface of S3 too: set AWS_ENDPOINT_URL to "
            "https://storage.googleapis.com and the keys to an HMAC key, and name the object with s3://."
        )
    if scheme not in SCHEMES:
        raise SettingsError(f"{url}: {scheme}:// is not read. Name a file, or a URL that begins with s3 or https.")
    if lack := lack_of("remote", leave_out=["s3fs"] if scheme in WEB else ()):
        raise SettingsError(f"{url}: {scheme}:// needs {lack}")
    if scheme in WEB and "@" in urlsplit(address).netloc:
        raise SettingsError(
            f"{url.rpartition('@')[2]}: a password in a URL would stand in every output. {_WEB_CREDENTIALS}"
        )
    return scheme


def _remote(scheme: str, info: dict[str, Any]) -> Remote:
    address = info["name"] if scheme in WEB else f"{scheme}://{info['name']}"
    etag = str(info.get("ETag") or "")
    version = etag or str(info.get("Last-Modified") or "")
    url, size = plain_url(address), info["size"]
    proof = xxhash.xxh3_128_digest("\0".join((url, str(size), version)).encode()) if version else b""
    return Remote(url, address, size, proof, "" if etag.startswith("W/") else etag)


def _file_system(scheme: str) -> Any:
    import fsspec

    if scheme not in WEB:
        return fsspec.filesystem(scheme)
    import aiohttp

    # A whole object may take hours. Bytes come as they are stored, so a place in them means the same each time.
    limits = aiohttp.ClientTimeout(total=None, sock_connect=_SILENCE_SECONDS, sock_read=_SILENCE_SECONDS)
    client = {"timeout": limits, "auto_decompress": False, "trust_env": True}
    return fsspec.filesystem(scheme, client_kwargs=client)


def _broken(scheme: str) -> tuple[type[Exception], ...]:
    """Errors of a request."""
    import aiohttp

    errors: tuple[type[Exception], ...] = (OSError, HTTPException, aiohttp.ClientError)
    if scheme == "s3":
        from botocore.exceptions import BotoCoreError

        errors = (*errors, BotoCoreError)
    return errors


@contextmanager
def _refusals(address: str) -> Iterator[None]:
    """Errors of requests as InputUnreadable and InputLost."""
    scheme, url = address.partition("://")[0].lower(), plain_url(address)
    try:
        yield
    except _broken(scheme) as error:
        if _is_forbidden(error):
            raise InputUnreadable(_forbidden(url, scheme, error)) from error
        raise InputLost(f"{url}: cannot be asked for ({_reason(error)}). Nothing was read. Try again later.") from error


def _is_forbidden(error: Exception) -> bool:
    is_unsigned = type(error).__name__ in _UNSIGNED
    return is_unsigned or isinstance(error, PermissionError) or getattr(error, "status", 0) in (401, 403, 407)


def _forbidden(url: str, scheme: str, error: Exception) -> str:
    return f"{url}: may not be read ({_reason(error)}). {_WEB_CREDENTIALS if scheme in WEB else _CREDENTIALS}"


def _reason(error: Exception) -> str:
    status, message = getattr(error, "status", 0), str(getattr(error, "message", "") or error)
    first = (message.splitlines() or [""])[0][:200].rstrip(".")
    return " ".join(str(part) for part in (status, first or type(error).__name__) if part)


class _Handle(Protocol):
    """What fsspec opens."""

    def seek(self, place: int) -> object: ...

    def read(self, count: int) -> bytes: ...

    def close(self) -> None: ...


class StoreReader(io.RawIOBase):
    """Bytes of an object. Errors: Changed, InputLost.

    >>> with StoreReader(Remote("https://a.example/1", "https://a.example/1", 0, b"", "")) as reader:
    ...     reader.read(10), reader.seek(4), reader.tell()
    (b'', 4, 4)
    """

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._at = 0
        self._range, self._range_at = b"", 0
        self._range_bytes = _RANGE_BYTES_FIRST
        self._pool = ThreadPoolExecutor(1, "read ahead")
        self._ahead: tuple[int, Future[bytes]] | None = None
        self._closing = Event()
        self._handle: _Handle | None = None
        self._is_stream = remote.size is None
        self._stream_at = 0
        self.is_scattered = False
        """Whether places are sought out of order, so that nothing is read ahead, and no more than what is asked for."""

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The next byte's offset."""
        return self._at

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        """See `io.IOBase.seek`."""
        self._at = place + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._remote.size or 0}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        """See `io.RawIOBase.readinto`. Raises Changed, InputLost."""
        if not self._range_at <= self._at < self._range_at + len(self._range):
            self._load(len(buffer))
        begin = self._at - self._range_at
        data = memoryview(self._range)[begin : begin + len(buffer)]
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def close(self) -> None:
        """Release the connection, and drop what was read ahead."""
        if not self.closed:
            self._closing.set()
            self._pool.shutdown(cancel_futures=True)
            self._drop()
        super().close()

    def _load(self, count: int) -> None:
        """Hold the range that begins with the next byte; an empty one at the end."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] == self._at:
            data = ahead[1].result()
        else:
            if ahead is not None:
                # One request at a time uses the handle.
                ahead[1].exception()
            data = self._fetched(self._at, count if self.is_scattered else self._range_bytes)
        self._range, self._range_at = data, self._at
        if data and not self.is_scattered:
            self._range_bytes = min(2 * self._range_bytes, RANGE_BYTES_MAX)
            following = self._at + len(data)
            self._ahead = following, self._pool.submit(self._fetched, following, self._range_bytes)

    def _fetched(self, at: int, count: int) -> bytes:
        """Up to `count` bytes from `at` on; none only at the end."""
        size = self._remote.size
        if size is not None and at >= size:
            self._look_again()
            return b""
        for pause in (*PAUSES, None):
            try:
                wanted = count if size is None else min(count, size - at)
                data = self._streamed(at, wanted) if self._is_stream else self._asked(at, wanted)
                if data or size is None:
                    return data
                reason = "the object ends too early"
            except _broken(self._remote.scheme) as error:
                self._drop()
                self._judge(error)
                reason = _reason(error)
            if self._closing.wait(pause or 0.0):
                break
            count = max(count // 2, min(count, _RANGE_BYTES_MIN))
        raise InputLost(
            f"{self._remote}: the connection broke {len(PAUSES) + 1} times at byte {at:,} ({reason}). Nothing is lost. Run "
            "the same command again: `streamer filter` continues after the last delivered line."
        )

    def _look_again(self) -> None:
        """At the end, raise Changed if a web server has another object now: not every server compares ETags."""
        if self._remote.scheme in WEB and self._remote.proof:
            with suppress(*_broken(self._remote.scheme)):
                info = _file_system(self._remote.scheme).info(self._remote.address)
                if _remote(self._remote.scheme, info).proof != self._remote.proof:
                    raise Changed(_CHANGED)

    def _judge(self, error: Exception) -> None:
        """Raise what no repetition mends."""
        is_refused = "pre-condition" in str(error) or getattr(error, "status", 0) == 412
        if isinstance(error, FileNotFoundError) or is_refused or type(error).__name__ == "FileExpired":
            raise Changed(_CHANGED) from error
        if _is_forbidden(error):
            raise InputLost(
                f"{_forbidden(str(self._remote), self._remote.scheme, error)} Then run the same command again: "
                "`streamer filter` continues after the last delivered line."
            ) from error

    def _asked(self, at: int, count: int) -> bytes:
        if self._handle is None:
            self._handle = self._new_handle(RANGE_BYTES_MAX)
        try:
            self._handle.seek(at)
            return self._handle.read(count)
        except ValueError:
            if self._remote.scheme not in WEB:
                raise
            # The server sends the whole object whatever the range.
            self._drop()
            self._is_stream = True
            return self._streamed(at, count)

    def _streamed(self, at: int, count: int) -> bytes:
        if self._handle is None or self._stream_at > at:
            self._drop()
            self._handle, self._stream_at = self._new_handle(0), 0
        while self._stream_at < at and (dropped := self._handle.read(min(at - self._stream_at, RANGE_BYTES_MAX))):
            self._stream_at += len(dropped)
        data = bytearray()
        while self._stream_at >= at and len(data) < count and (more := self._handle.read(count - len(data))):
            data += more
            self._stream_at += len(more)
        return bytes(data)

    def _new_handle(self, block_bytes: int) -> _Handle:
        remote, options = self._remote, dict[str, Any]()
        files = _file_system(remote.scheme)
        if remote.scheme in WEB:
            headers = {"Accept-Encoding": "identity"} | ({"If-Match": remote.etag} if remote.etag else {})
            options = {"size": remote.size or 1, "headers": headers}
        handle = files.open(remote.address, "rb", block_size=block_bytes, cache_type="none", **options)
        if remote.scheme not in WEB and _remote(remote.scheme, handle.details).proof != remote.proof:
            handle.close()
            raise Changed(_CHANGED)
        new: _Handle = handle
        return new

    def _drop(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            with suppress(*_broken(self._remote.scheme)):
                handle.close()
