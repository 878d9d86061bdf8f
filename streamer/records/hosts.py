"""Hosts of documents: names that group pages for counts and frames."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from streamer.records.names import beginning
from streamer.settings.decode import Decode

URL_CHARACTERS_MAX = 2_048
"""Longest parsed prefix of a URL: with combining marks in the host, parsing takes quadratic time."""

HOST_CHARACTERS_MAX = 253
"""Longer names are no DNS names, and stay as they are."""

HOSTS_REMEMBERED = 2**16
"""Cached canonical names and registrable domains."""


def host_of(value: Any) -> str | None:
    """Host of a URL, else the text before the first slash: in lower case, without port and final dot.

    International names become Unicode. None for a host that ends beyond URL_CHARACTERS_MAX, and for other types.

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


def host_named(name: str, decode: Decode, scope: str | None = None) -> str:
    """The host that a person names, as documents have it; with `decode.scope` it is SCOPE/HOST.

    scope  the host's scope, as a person names it; None: `name` has it, or the settings have no scopes

    >>> host_named("xn--fiqs8s", Decode()), host_named("https://News.Example.org/", Decode(host_scope="registrable-domain"))
    ('中国', 'example.org')
    >>> host_named("tenant-a/https://News.Example.org/", Decode(scope="/tenant"))
    'tenant-a/news.example.org'
    >>> host_named("https://News.Example.org/", Decode(scope="/tenant"), "eu/west")
    'eu~1west/news.example.org'
    """
    full = name if scope is None else beginning(scope) + name
    before, slash, host = full.partition("/") if decode.scope is not None else ("", "", name)
    return before + slash + (host_reader(decode.host_scope)(host) or host)


def _canonical(host: str) -> str | None:
    host = host.rstrip(".")
    return (_unicode(host) if "xn--" in host else host) or None


@lru_cache(HOSTS_REMEMBERED)
def _unicode(host: str) -> str:
    if len(host) > HOST_CHARACTERS_MAX:
        return host
    try:
        return host.encode("ascii").decode("idna")
    except UnicodeError:
        return host
