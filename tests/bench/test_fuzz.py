"""Hostile values, decoded and fingerprinted under every mark-up and scheme: always a document or a dead letter."""

import random
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import fuzz
from index.entry import Kind, Source
from streamer.fingerprint.documents import entries_of, fingerprint_documents
from streamer.fingerprint.scheme import Scheme, scheme_for
from streamer.records.decode import DeadLetter, Decoder
from streamer.records.record import Record
from tests.support.examples import examples

SOURCE = Source("stream", 0)
CHOICES = [(markup, scheme) for markup in ("none", "html", "html-main") for scheme in ("minhash", "simhash")]


@cache
def scheme_of(markup: str, scheme: str) -> Scheme:
    return scheme_for(fuzz.settings_of(markup, scheme))


@pytest.mark.parametrize("chosen", CHOICES, ids="-".join)
@examples(40)
@given(
    seed=st.integers(0, 2**32), size=st.sampled_from([1, 30, 500, 8_000]), characters_max=st.sampled_from([100, 2**20])
)
def test_every_value_gives_a_document_within_bounds_or_a_dead_letter_and_one_row(
    chosen: tuple[str, str], seed: int, size: int, characters_max: int
) -> None:
    chance = random.Random(seed)
    values = [fuzz.value(chance, size) for _ in range(3)]
    records = [Record(SOURCE, "documents", row, None, value, row) for row, value in enumerate(values)]
    decode = fuzz.settings_of(*chosen).decode.model_copy(update={"characters_max": characters_max})
    documents = Decoder(decode).decode(records)
    for each in documents:
        assert isinstance(each, DeadLetter) or len(each.title) + len(each.text) <= characters_max
    fingerprints = fingerprint_documents(scheme_of(*chosen), documents)
    entries = entries_of(records, documents, fingerprints)
    assert [kind == Kind.DEAD_LETTER for kind in entries.kinds.tolist()] == [
        isinstance(each, DeadLetter) for each in documents
    ]
    alone = [fingerprint_documents(scheme_of(*chosen), [each]).fingerprints for each in documents]
    assert np.array_equal(fingerprints.fingerprints, np.concatenate(alone))
