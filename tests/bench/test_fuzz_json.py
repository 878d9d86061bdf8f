"""Odd JSON: a document or a dead letter by every way, the same one, and no time that grows faster than the value."""

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import fuzz, fuzz_json
from index.entry import Source
from streamer.records import any_json
from streamer.records.decode import Decoder, Document
from streamer.records.record import Record
from tests.support.examples import examples

DECODER = Decoder(fuzz.settings_of("none", "minhash").decode)


def decoded(value: bytes) -> object:
    (found,) = DECODER.decode([Record(Source("fuzz", 0), "fuzz", 0, None, value, 0)])
    return found


@examples(400)
@given(seed=st.integers(0, 2**32), size=st.sampled_from([1, 60, 500, 8_000]))
def test_what_the_library_and_the_api_pass_on_is_decoded_as_the_record_is(seed: int, size: int) -> None:
    value = fuzz_json.value(random.Random(seed), size)
    found = decoded(value)
    try:
        passed_on = any_json.dumps(any_json.loads(value))
    except (ValueError, RecursionError):
        assert not isinstance(found, Document)
        return
    again = decoded(passed_on)
    assert again == found
    if isinstance(found, Document):
        found.text.encode(), found.id.encode(), found.title.encode()


@pytest.mark.parametrize(
    "shape",
    ["[" * 900 + "]" * 900, "9" * 400, '{"$date":' + "9" * 400 + "}", '"' + "x" * 10**6 + '"'],
    ids=["nested", "a number", "an object", "a text"],
)
def test_a_time_of_any_shape_costs_no_document(shape: str) -> None:
    found = decoded(b'{"text":"a","id":"1","time":' + shape.encode() + b"}")
    assert isinstance(found, Document)
    assert 0 < len(found.odd_time) <= 60


@pytest.mark.parametrize("piece", fuzz_json.HOSTILE, ids=lambda piece: ascii(piece)[:20])
def test_no_piece_of_json_takes_quadratic_time(piece: str) -> None:
    decoded(fuzz_json.hostile(piece, 1_000))
    seconds = []
    for size in (100_000, 1_000_000):
        value = fuzz_json.hostile(piece, size)
        begin = time.process_time()
        decoded(value)
        seconds.append(time.process_time() - begin)
    assert seconds[1] < 40 * seconds[0] + 0.3
