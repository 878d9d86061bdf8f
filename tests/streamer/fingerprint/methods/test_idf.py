"""An idf table of the user's documents: counted, written, read back, and used."""

import math
from pathlib import Path

import pytest

from streamer.fingerprint.hashing import hash_text
from streamer.fingerprint.methods.idf import DocumentFrequencies, write_table
from streamer.fingerprint.methods.weights import fixed
from streamer.fingerprint.methods.word_tables import idf_table
from streamer.fingerprint.simhash.fingerprinter import Fingerprinter
from streamer.settings.settings import Fingerprint
from streamer.text.normalisation import Normaliser
from tests.support.plain_simhash import plain_sums
from tests.support.word_numbers import number_of

TEXTS = ["The river, the bridge", "the RIVER 长江大桥", "a bridge", "", "nothing 长江大桥"]


def lines_of(texts: list[str], documents_min: int, batch: int = 2) -> list[str]:
    frequencies = DocumentFrequencies(Fingerprinter(Fingerprint()).words)
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


def test_the_worked_example_of_levels_from_1_to_5(tmp_path: Path) -> None:
    """Levels set by hand are a table of values. The dictionary has 之道 as one word: its level is that of 之 and 道 together."""
    levels = {
        "CSDN": 4,
        "博客": 5,
        "结构": 3,
        "之": 1,
        "法": 2,
        "算法": 3,
        "之道": 1 + 2,
        "的": 1,
        "作者": 5,
        "July": 5,
    }
    file = tmp_path / "levels"
    file.write_text("".join(f"{word} {level}\n" for word, level in levels.items()), encoding="utf-8")
    fingerprinter = Fingerprinter(Fingerprint(features="words", weight="tf", features_min=1, idf=str(file)))
    text = "CSDN博客结构之法算法之道的作者July"
    [(hashes, weights)] = fingerprinter.weighted_features([text], [""])
    unit = fixed(1.0)
    expected = {hash_text(word.lower(), 1)[0]: level * unit for word, level in levels.items()}
    assert dict(zip(hashes.tolist(), weights.tolist(), strict=True)) == expected
    sums = plain_sums(list(expected), list(expected.values()), 64)
    fingerprint = sum(1 << bit for bit, total in enumerate(sums) if total > 0)
    assert fingerprinter.fingerprint([text]).fingerprints[0, 0] == fingerprint


def test_a_table_that_was_built_weighs_words(tmp_path: Path) -> None:
    file = tmp_path / "table.idf"
    write_table(file, lines_of([*TEXTS, "the", "the x", "the y"], 1))
    with_table = Fingerprinter(Fingerprint(features="words", weight="tf", features_min=1, idf=str(file)))
    plain = Fingerprinter(Fingerprint(features="words", weight="tf", features_min=1))
    text = ["the river the bridge the town the boats"]
    assert (with_table.fingerprint(text).fingerprints != plain.fingerprint(text).fingerprints).all()
