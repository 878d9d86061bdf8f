"""Tenants whose documents are the same: ids, hosts, texts."""

from collections.abc import Sequence

import numpy as np
import orjson

TENANTS = ("tenant-a", "tenant-b")
SHORT_ONE_IN = 10
"""One text in so many is too short for distances."""


def texts(count: int, seed: int = 7) -> list[str]:
    """Texts of which no two resemble each other, a tenth of them short."""
    generator = np.random.default_rng(seed)
    words = ["".join(map(chr, generator.integers(97, 123, 7))) for _ in range(4_000)]
    return [
        f"{number} {words[number % len(words)]}"
        if number % SHORT_ONE_IN == 0
        else " ".join(words[word] for word in generator.integers(len(words), size=40))
        for number in range(count)
    ]


def documents(tenant: str | None, chosen: Sequence[str], **more: object) -> list[bytes]:
    """A record for each text, with ids and hosts that every tenant has; None: a record without a tenant."""
    own = {} if tenant is None else {"tenant": tenant}
    return [
        orjson.dumps({"id": f"page-{number}", "host": f"h{number % 3}.example", "text": text, **own, **more})
        for number, text in enumerate(chosen)
    ]
