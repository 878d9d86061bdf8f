"""Inputs that lie elsewhere: objects in stores and files of web servers, by URL.

An object's proof stands for its content in checkpoint and index: URL, size and ETag. So a run goes on without reading what
was read before, and an object that changed is another input.
"""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

SCHEMES = ("https", "http", "s3")
"""Schemes of URLs that are read."""

WEB = ("https", "http")
"""Schemes of servers that list no names."""

_URL = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_SIGNED = re.compile(r"(?:^|[&;-])(?:signature|sig|token)=", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Remote:
    """One object. In place of a path: it has what readers ask of one.

    url    its name in outputs, and its identity in the checkpoint
    address  URL that is asked: with the signature that `url` leaves out
    size   bytes as stored; None: the server does not say
    proof  digest of URL, size and ETag; empty: the server has none, so lines prove the content as in files
    etag   for requests that must fail once the object changes; empty: none that a server compares

    >>> remote = Remote("s3://corpora/crawl/pages.WARC.gz", "s3://corpora/crawl/pages.WARC.gz", 12, b"", "")
    >>> str(remote), remote.name, remote.suffix, remote.stem
    ('s3://corpora/crawl/pages.WARC.gz', 'pages.WARC.gz', '.gz', 'pages.WARC')
    """

    url: str
    address: str
    size: int | None
    proof: bytes
    etag: str

    def __str__(self) -> str:
        return self.url

    @property
    def scheme(self) -> str:
        """Scheme in small letters."""
        return urlsplit(self.url).scheme

    @property
    def name(self) -> str:
        """What follows the last slash."""
        return self._path.name

    @property
    def suffix(self) -> str:
        """As `Path.suffix`."""
        return self._path.suffix

    @property
    def suffixes(self) -> list[str]:
        """As `Path.suffixes`."""
        return self._path.suffixes

    @property
    def stem(self) -> str:
        """As `Path.stem`."""
        return self._path.stem

    def is_file(self) -> bool:
        """True: it has an end, and can be read again."""
        return True

    @property
    def _path(self) -> PurePosixPath:
        # In a store's key a question mark is a letter.
        is_web = self.scheme in WEB
        return PurePosixPath(unquote(urlsplit(self.url).path) if is_web else self.url)


Input: TypeAlias = Path | Remote
"""What lines are read from."""


def is_url(name: object) -> bool:
    """Whether a name is a URL, of any scheme.

    >>> is_url("s3://corpora/a.jsonl"), is_url("FTP://a.example/b"), is_url("pages:1.jsonl"), is_url(Path("a"))
    (True, True, False, False)
    """
    return isinstance(name, str) and _URL.match(name) is not None


def plain_url(address: str) -> str:
    """The URL without a signature, which another day has another one, and without what no server is sent.

    >>> plain_url("HTTPS://a.example/p.jsonl?X-Amz-Date=1&X-Amz-Signature=ab"), plain_url("https://a.example/?file=1")
    ('https://a.example/p.jsonl', 'https://a.example/?file=1')
    """
    scheme, _, rest = address.partition("://")
    if scheme.lower() in WEB:
        rest = rest.partition("#")[0]
        rest = rest.partition("?")[0] if _SIGNED.search(urlsplit(address).query) else rest
    return f"{scheme.lower()}://{rest}"


def size_of(given: Input) -> int:
    """Bytes as stored; 0 for a pipe, and for an object whose server does not say."""
    if isinstance(given, Remote):
        return given.size or 0
    return given.stat().st_size if given.is_file() else 0


def reading_command(given: Input) -> str:
    """Command for a shell that writes the input to standard output."""
    if not isinstance(given, Remote):
        return f"cat {shlex.quote(str(given))}"
    quoted = shlex.quote(given.url)
    return f"aws s3 cp {quoted} -" if given.scheme == "s3" else f"curl -fsS {quoted}"
