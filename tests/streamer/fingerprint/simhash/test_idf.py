"""An idf table of the user's documents: counted, written, read back, and used."""

import math
from pathlib import Path

import pytest

from streamer.fingerprint.simhash.fingerprinter import Fingerprinter
from streamer.fingerprint.simhash.idf import DocumentFrequencies, write_table
from streamer.fingerprint.simhash.weights import fixed
from streamer.fingerprint.simhash.word_tables import idf_table
from streamer.settings.settings import Fingerprint
from streamer.text.normalisation import Normaliser
from tests.support.word_numbers import number_of

TEXTS = ["The river, the bridge", "the RIVER 长江大桥", "a bridge", "", "nothing 长江大桥"]


def lines_of(texts: list[str], documents_min: int, batch: int = 2) -> list[str]:
    frequencies = DocumentFrequencies(Fingerprinter(Fingerprint()))
    for begin in range(0, len(texts), batch):
        frequencies.add(texts[begin : begin + batch])
    return list(frequencies.lines(documents_min))


def test_a_word_weighs_the_logarithm_of_all_documents_over_its_own() -> None:
    """Five documents; two hold `river`: ln(5 / 2) = 0.916291."""
    assert lines_of(TEXTS, 2) == [
        "# streamer idf 1 documents 5 unknown 1.609438",
        "bridge 0.916291",
        "river 0.916291",
        "the 0.916291",
        "长江大桥 0.916291",
    ]
    assert len(lines_of(TEXTS, 1)) == 7
    assert lines_of(TEXTS, 3) == ["# streamer idf 1 documents 5 unknown 1.609438"]


@pytest.mark.parametrize("batch", [1, 3, 5])
def test_batches_change_no_frequency(batch: int) -> None:
    assert lines_of(TEXTS, 1, batch) == lines_of(TEXTS, 1)


def test_a_table_that_was_written_is_read_back(tmp_path: Path) -> None:
    file = tmp_path / "table.idf"
    assert write_table(file, lines_of(TEXTS, 2)) == 4
    table = idf_table(str(file), Normaliser(Fingerprint()).words)
    assert number_of(table, "river") == fixed(round(math.log(5 / 2), 6))
    assert number_of(table, "nothing") == number_of(table, "never") == fixed(round(math.log(5), 6))
    assert [path.name for path in tmp_path.iterdir()] == ["table.idf"]


def test_a_table_that_was_built_weighs_words(tmp_path: Path) -> None:
    file = tmp_path / "table.idf"
    write_table(file, lines_of([*TEXTS, "the", "the x", "the y"], 1))
    with_table = Fingerprinter(Fingerprint(features="words", weight="tf", features_min=1, idf=str(file)))
    plain = Fingerprinter(Fingerprint(features="words", weight="tf", features_min=1))
    text = ["the river the bridge the town the boats"]
    assert (with_table.fingerprint(text).fingerprints != plain.fingerprint(text).fingerprints).all()
