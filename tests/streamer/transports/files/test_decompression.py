import gzip
import random
import time
from collections.abc import Callable

import pytest
import zstandard

from streamer.transports.files.decompression import DECOMPRESSORS, READ_BYTES, Damaged

FRAMES: dict[str, Callable[[bytes], bytes]] = {
    "gz": lambda content: gzip.compress(content, mtime=0),
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


def record(number: int) -> bytes:
    return b"WARC/1.0 %d " % number + random.Random(number).randbytes(1_500)


def plain_of(kind: str, packed: bytes) -> tuple[bytes, int]:
    """What comes out, and how often damage did."""
    decompressor, plain, damages = DECOMPRESSORS[kind](), b"", 0
    for at in range(0, len(packed), READ_BYTES):
        blocks = decompressor.decode(packed[at : at + READ_BYTES])
        while True:
            try:
                for block in blocks:
                    plain += block
                break
            except Damaged:
                damages += 1
                blocks = decompressor.resume()
    decompressor.finish()
    return plain, damages


@pytest.mark.parametrize("kind", sorted(FRAMES))
@pytest.mark.parametrize("run", [1, 3, 200])
def test_after_damage_the_next_archive_in_a_frame_follows(kind: str, run: int) -> None:
    frames = [FRAMES[kind](record(number)) for number in range(300)]
    frames[50 : 50 + run] = [b"\1" * len(frame) for frame in frames[50 : 50 + run]]
    plain, damages = plain_of(kind, b"".join(frames))
    # Bytes of a frame before the damage may be out already, and those of whole frames in the same block.
    assert [number for number in range(300) if record(number) in plain] == [*range(50), *range(50 + run, 300)]
    assert damages == 1


def test_frames_within_frames_are_tried_a_bounded_number_of_times() -> None:
    took = []
    for count in (500, 4_000):
        damaged = (gzip.compress(b"WARC/1.0 " + bytes(50_000), mtime=0)[:-8] + b"12345678") * count
        begin = time.process_time()
        plain_of("gz", gzip.compress(record(0), mtime=0) + damaged)
        took.append(time.process_time() - begin)
    assert took[1] < 20 * took[0] + 0.5
