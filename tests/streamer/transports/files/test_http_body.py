import gzip
import time
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard

from streamer.transports.files.http_body import Undecoded, body_of

PAGE = "渡轮九点出发".encode() * 50
CODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}
PARTED = {"gzip": gzip.compress, "x-gzip": gzip.compress, "zstd": zstandard.compress}


@pytest.mark.parametrize("coding", sorted(PARTED))
def test_several_members_or_frames_are_one_body(coding: str) -> None:
    parts = [PAGE[at : at + 300] for at in range(0, len(PAGE), 300)]
    assert body_of(b"".join(map(PARTED[coding], parts)), coding, 2**20) == PAGE


def test_zeros_between_members_and_rubbish_after_them_are_left_out() -> None:
    assert body_of(gzip.compress(b"a") + bytes(5_000) + gzip.compress(b"b") + b"rubbish", "gzip", 2**20) == b"ab"


@pytest.mark.parametrize(
    "label", ["gzip", "utf-8", "binary", "br", "deflate", "zstd", "none", "gzip, br", "pack200-gzip"]
)
def test_what_is_plain_is_read_as_it_is_whatever_its_coding_is_called(label: str) -> None:
    for plain in (PAGE, b"words only", b"<p>a page", b"", b"\xff\xfea\0b\0", "Grüße".encode("latin-1")):
        assert body_of(plain, label, 2**20) == plain


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
@pytest.mark.parametrize("label", ["", "identity", "br", "utf-8", "gzip", "zstd"])
def test_the_first_bytes_count_before_the_label(coding: str, label: str) -> None:
    assert body_of(CODERS[coding](PAGE), label, 2**20) == PAGE


def test_codings_are_undone_in_turn_and_their_number_is_bounded() -> None:
    assert body_of(gzip.compress(brotli.compress(PAGE)), "br, gzip", 2**20) == PAGE
    packed = PAGE
    for _ in range(6):
        packed = gzip.compress(packed)
    for label in ("", "gzip", "gzip, gzip, gzip, gzip"):
        with pytest.raises(Undecoded, match="compressed by gzip more than 4 times"):
            body_of(packed, label, 2**20)
    with pytest.raises(Undecoded, match="has 21000 codings, and at most 4 are read"):
        body_of(packed, ",".join(["gzip"] * 21_000), 2**20)


@pytest.mark.parametrize("coding", sorted(CODERS))
def test_damage_and_cuts_are_named(coding: str) -> None:
    packed = CODERS[coding](b"".join(b"%d " % number for number in range(3_000)))
    with pytest.raises(Undecoded, match=f"the content, coded by {coding}, is cut short"):
        body_of(packed[: len(packed) // 2], coding, 2**20)
    with pytest.raises(Undecoded, match=f"the content, coded by {coding}, is"):
        body_of(packed[:20] + bytes(20) + packed[40:], coding, 2**20)
    with pytest.raises(Undecoded, match=f"the content, coded by {coding}, is longer than 1000 bytes"):
        body_of(packed, coding, 1_000)


@pytest.mark.parametrize("coding", sorted(PARTED))
def test_many_members_take_time_as_their_number_does(coding: str) -> None:
    took = []
    for count in (20_000, 80_000):
        packed = PARTED[coding](b"x") * count
        begin = time.process_time()
        body_of(packed, coding, 2**20)
        took.append(time.process_time() - begin)
    assert took[1] < 12 * took[0] + 0.5
