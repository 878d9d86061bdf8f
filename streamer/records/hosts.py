"""Hosts of documents: from a URL or host field to the name that groups pages for counts and frames."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

URL_CHARACTERS_MAX = 2_048
"""Longest prefix of a URL that is parsed for its host: parsing takes quadratic time for a host with combining marks."""

HOST_CHARACTERS_MAX = 253
"""Longer names are no DNS names, and stay as they are."""

HOSTS_REMEMBERED = 2**16
"""Hosts whose canonical name and registrable domain are cached."""


def host_of(value: Any) -> str | None:
    """Host of a URL, or the text before its first slash if it is none: in lower case, without port and final dot.

    An international name becomes Unicode, however it was written. None for a URL whose host does not end within
    URL_CHARACTERS_MAX, and for a value that is no text.

    >>> host_of("https://News.Example.org:8080/a?b"), host_of("Example.org."), host_of("xn--fiqs8s")
    ('news.example.org', 'example.org', '中国')
    """
    if type(value) is not str or not value:
        return None
    if "//" not in value:
        name = value.split("/", 1)[0].strip().lower()
        # A bare IPv6 address has several colons.
        begin, colon, port = name.partition(":")
        return _canonical(begin if colon and port.isdecimal() else name)
    try:
        url = value.strip()
        parts = urlsplit(url[:URL_CHARACTERS_MAX])
        is_cut = len(url) > URL_CHARACTERS_MAX and not (parts.path or parts.query or parts.fragment)
        return None if is_cut or parts.hostname is None else _canonical(parts.hostname)
    except ValueError:
        return None


def host_reader(scope: str) -> Callable[[Any], str | None]:
    """`host_of`, or its wider form for `decode.host_scope`."""
    if scope == "none":
        return lambda _value: None
    if scope == "host":
        return host_of
    # Reading the list takes a tenth of a second, so only this scope does.
    from publicsuffixlist import PublicSuffixList

    suffixes = PublicSuffixList()

    @lru_cache(HOSTS_REMEMBERED)
    def registrable(host: str) -> str:
        is_address = ":" in host or host.rpartition(".")[2].isdecimal()
        return host if is_address else suffixes.privatesuffix(host) or host

    def domain_of(value: Any) -> str | None:
        host = host_of(value)
        return None if host is None else registrable(host)

    return domain_of


def _canonical(host: str) -> str | None:
    """A host in lower case as it is compared; None if nothing is left of it."""
    host = host.rstrip(".")
    return (_unicode(host) if "xn--" in host else host) or None


@lru_cache(HOSTS_REMEMBERED)
def _unicode(host: str) -> str:
    """A host in Unicode; unchanged if it cannot be decoded."""
    if len(host) > HOST_CHARACTERS_MAX:
        return host
    try:
        return host.encode("ascii").decode("idna")
    except UnicodeError:
        return host
