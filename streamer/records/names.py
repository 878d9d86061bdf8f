"""Names of documents in the index: ids of bounded length, and the scope before ids and hosts.

With `decode.scope` an id or host is SCOPE/NAME. The scope has ~ as ~0 and / as ~1, like a part of a JSON pointer, so the first
slash ends it: equal names have equal scopes. A record without a scope has the empty one, and its names begin with the slash.
"""

import xxhash

ID_BYTES_MAX = 2_048
"""Limit for ids. A longer one ends in a digest of the whole, so that every output stays deliverable."""

SCOPE_BYTES_MAX = 256
"""Limit for scopes, which hosts and ids share: a longer one ends in a digest of the whole, too."""


def bounded_id(identity: str, bytes_max: int = ID_BYTES_MAX) -> str:
    """An id as it is indexed: one of more than `bytes_max` bytes ends in a digest of the whole.

    >>> bounded_id("a"), len(bounded_id("a" * 5_000)), bounded_id(bounded_id("a" * 5_000)) == bounded_id("a" * 5_000)
    ('a', 2048, True)
    """
    if len(identity) * 4 <= bytes_max:
        return identity
    encoded = identity.encode(errors="surrogatepass")
    if len(encoded) <= bytes_max:
        return identity
    digest = "#" + xxhash.xxh3_128_hexdigest(encoded)
    return encoded[: bytes_max - len(digest)].decode(errors="ignore") + digest


def scope_named(value: str) -> str:
    """A scope as names begin with it, and as it salts fingerprints: at most SCOPE_BYTES_MAX bytes, without a slash.

    >>> scope_named("tenant-a"), scope_named("eu/west"), scope_named("")
    ('tenant-a', 'eu~1west', '')
    """
    return bounded_id(value.replace("~", "~0").replace("/", "~1"), SCOPE_BYTES_MAX)


def within(scope: str | None, name: str) -> str:
    """The id or host of a document in a scope, as by `scope_named`, bounded; None: the settings have no scopes.

    >>> within("tenant-a", "42"), within("", "42"), within(None, "42")
    ('tenant-a/42', '/42', '42')
    """
    return bounded_id(name if scope is None else f"{scope}/{name}")


def beginning(scope: str) -> str:
    """The text with which names in a scope begin, as a person names the scope.

    >>> beginning("eu/west")
    'eu~1west/'
    """
    return within(scope_named(scope), "")


def without_scope(name: str) -> str:
    """The part of `within`'s result behind the scope.

    >>> without_scope("tenant-a/https://example.org/a")
    'https://example.org/a'
    """
    return name.partition("/")[2]
