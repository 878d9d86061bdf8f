"""Crawls: few pages that come again and again, the schemes that decide them, and brute force for each."""

from dataclasses import replace
from typing import Any

import numpy as np

from index.entry import Entries, Kind
from index.matching.minhash import Banding
from index.matching.second_look import CosineLook, MetadataLook
from index.session import Longer, Recrawl, Retention
from index.storage.parameters import Parameters
from tests.support.brute_force_index import MINOR, OTHER_TEXT, RETURNED, SHARED_ID, BruteForceIndex
from tests.support.brute_force_signatures import BruteForceSignatures, as_number, clustered_bins
from tests.support.entries import ONE, TWO, Row, clustered_fingerprints, entries_of
from tests.support.looks import brute_force_look

UPDATES = Recrawl(
    "update", *({each: each + more for each in range(5)} for more in (MINOR, RETURNED, OTHER_TEXT, SHARED_ID))
)
COSINE = CosineLook(2, 0.9)
METADATA = MetadataLook(2, 0.8, 0.35)
EAST, NORTH = b"\x40\x00", b"\x00\x40"
SCHEMES: dict[str, Parameters] = {
    "simhash": Parameters(64, 3),
    "simhash with a look": Parameters(64, 3, look=COSINE),
    "simhash with metadata": Parameters(64, METADATA.reach, look=METADATA),
    "minhash": Parameters(512, 4_000, banding=Banding(64, 8, 12, 5)),
}


def oracle_of(parameters: Parameters, retention: Retention, longer: Longer | None = None) -> BruteForceIndex:
    look = None if parameters.look is None else brute_force_look(parameters.look)
    options: dict[str, Any] = {"second_look": look, "root": parameters.root, "recrawl": "update"}
    options["longer"] = 0 if longer is None else longer.ten_thousandths
    limits = parameters.distance_max, retention.entries_max, retention.age_max_ms
    if parameters.banding is None:
        return BruteForceIndex(*limits, **options)
    return BruteForceSignatures(*limits, **options, banding=parameters.banding)


def crawled(
    generator: np.random.Generator,
    count: int,
    parameters: Parameters,
    *,
    digests: bool = False,
    times: int = 6,
    lengths: bool = False,
) -> list[Row]:
    """Few pages, crawled again and again: unchanged, changed a little or wholly, back as they were, or as a copy of another.

    digests  whether other texts may have equal fingerprints, and other texts the same substance; with hosts
    times    how often a page is crawled
    lengths  whether texts have lengths, most of them enough to say that they have nothing in common
    """
    if parameters.banding is None:
        texts = clustered_fingerprints(generator, count, parameters.bits, centres=max(2, count // 8))
    else:
        bins = clustered_bins(generator, count, parameters.banding, centres=max(2, count // 8))
        texts = [as_number(row, parameters.banding.bin_bits) for row in bins]
    rows = []
    for offset, text in enumerate(texts):
        if offset and generator.random() < 0.5:
            text = texts[offset] = texts[int(generator.integers(offset))]
        kind = Kind(int(generator.choice(4, p=[0.8, 0.14, 0.03, 0.03])))
        number = int(generator.integers(max(2, count // times)))
        substance, host = 0, ""
        if digests:
            # Equal texts have equal fingerprints and kinds.
            substance = hash((text, kind, offset % 5 if kind is Kind.EXACT else 0)) % 2**40 << 8
            substance += int(generator.integers(2)) << 4
            host = ("", "here", "there")[int(generator.choice(3, p=[0.1, 0.75, 0.15]))]
        look = b"" if parameters.look is None else (EAST, NORTH)[int(generator.random() < 0.3)]
        if parameters.look is not None and kind is not Kind.NEAR:
            look = bytes(2)
        rows.append(
            Row(
                offset,
                offset % 5 if kind is Kind.EXACT else text,
                (ONE, TWO)[int(generator.integers(2))],
                kind,
                offset % 5,
                1_000 + 10 * offset,
                f"page {number}" if generator.random() < 0.95 else f"at {offset}",
                look,
                host,
                (substance + int(generator.integers(3)), substance) if digests else None,
                int(generator.choice([60, 100, 900], p=[0.1, 0.3, 0.6])) if lengths else 0,
            )
        )
    return rows


def entries(rows: list[Row], parameters: Parameters) -> Entries:
    """Rows whose ids are their positions did not bring them along."""
    return with_named(entries_of(rows, parameters.bits), rows)


def with_named(columns: Entries, rows: list[Row]) -> Entries:
    """Columns of rows, with those that brought their ids along."""
    return replace(columns, named=np.array([not row.id.startswith("at") for row in rows]))
