"""Hostile Parquet files: every row is a document or a dead letter, or the rest of the file is refused by name."""

import random
from pathlib import Path

import pyarrow as arrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import fuzz, fuzz_parquet
from index.entry import Source
from streamer.records.decode import Decoder
from streamer.records.record import Record
from tests.support.examples import examples


@examples(150)
@given(seed=st.integers(0, 2**32), size=st.sampled_from([8, 300, 20_000]))
def test_every_file_gives_the_same_lines_twice_and_each_is_decoded(
    tmp_path_factory: pytest.TempPathFactory, seed: int, size: int
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    content = fuzz_parquet.file(random.Random(seed), size)
    lines = fuzz_parquet.lines(content, folder)
    assert fuzz_parquet.lines(content, folder) == lines
    assert all(line or at == len(lines) - 1 for at, line in enumerate(lines))
    records = [Record(Source("fuzz", 0), "fuzz", at, None, line, 0) for at, line in enumerate(lines)]
    assert len(Decoder(fuzz.settings_of("html", "minhash").decode).decode(records)) == len(lines)


def test_a_refused_file_ends_with_its_mark(tmp_path: Path) -> None:
    assert fuzz_parquet.lines(b"PAR1 and no more", tmp_path) == [fuzz_parquet.UNREADABLE]


def test_files_have_all_kinds_of_columns() -> None:
    kinds: set[str] = set()
    for seed in range(300):
        content = fuzz_parquet.file(random.Random(seed), 100)
        try:
            schema = arrow.parquet.read_schema(arrow.BufferReader(content))
        except (arrow.ArrowException, OSError, ValueError):
            continue
        kinds |= {str(each).partition("[")[0].partition("<")[0].partition("(")[0] for each in schema.types}
    assert {
        "string",
        "binary",
        "timestamp",
        "date32",
        "time64",
        "decimal128",
        "list",
        "struct",
        "map",
        "double",
    } <= kinds
