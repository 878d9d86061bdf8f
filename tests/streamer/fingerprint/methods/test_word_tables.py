"""Tables of words from files: their values, the value of unknown words, and refusals."""

import re
from pathlib import Path

import pytest
import rjieba

from streamer.errors import SettingsError
from streamer.fingerprint.methods.weights import FACTOR_UNIT, fixed
from streamer.fingerprint.methods.word_tables import (
    MARKERS,
    DictionaryWord,
    dictionary_words,
    idf_table,
    tag_factors,
    word_list,
)
from streamer.settings.settings import Fingerprint
from streamer.text.normalisation import Normaliser
from streamer.text.segmentation import jieba_file
from tests.support.word_numbers import number_of

NORMAL = Normaliser(Fingerprint()).words


def written(tmp_path: Path, content: str) -> Path:
    file = tmp_path / "table.txt"
    file.write_text(content, encoding="utf-8")
    return file


# --- idf -------------------------------------------------------------------------------------------------------------


def test_the_table_of_jieba_gives_its_values_and_unknown_words_its_median() -> None:
    lines = jieba_file("analyse/idf.txt").decode().splitlines()
    values = sorted(float(line.rsplit(" ", 1)[1]) for line in lines)
    table = idf_table("jieba", NORMAL)
    assert number_of(table, "的") == fixed(0.88474202619)
    assert number_of(table, "北京") == fixed(4.66740230872)
    assert number_of(table, "neverseen") == fixed(values[len(values) // 2]) == fixed(11.9547675029)
    assert len(table.keys) == len({line.rsplit(" ", 1)[0].casefold() for line in lines} - {""})


def test_a_table_that_was_built_names_the_value_of_unknown_words(tmp_path: Path) -> None:
    """Of 4 documents: a word in two has ln(4 / 2) = 0.693147, a word in none has ln 4 = 1.386294, as a word in one."""
    file = written(tmp_path, "# streamer idf 1 documents 4 unknown 1.386294\nriver 0.693147\nthe 0.000000\n")
    table = idf_table(str(file), NORMAL)
    assert [number_of(table, word) for word in ("river", "the", "sea")] == [fixed(0.693147), 0, fixed(1.386294)]


def test_words_of_a_table_are_normalised_and_the_smaller_of_two_values_counts(tmp_path: Path) -> None:
    table = idf_table(str(written(tmp_path, "River 3.5\nｒｉｖｅｒ 2.5\nRIVER 4.5\nsea 9.0\n")), NORMAL)
    assert number_of(table, "river") == fixed(2.5)
    assert len(table.keys) == 2


def test_other_content_has_another_digest(tmp_path: Path) -> None:
    one = idf_table(str(written(tmp_path, "river 3.5\n")), NORMAL).digest
    assert one != idf_table(str(written(tmp_path, "river 3.6\n")), NORMAL).digest


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no word"),
        ("river\n", "line 1: must be a word and 0 to 100, not 'river'"),
        ("river 1\n\nsea -1\n", "line 3: must be a word"),
        ("river nan\n", "line 1"),
        ("river 101\n", "line 1"),
        (
            "# streamer idf 2 documents 4 unknown 1.386294\nriver 1.0\n",
            "format version 2; this program knows version 1",
        ),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_by_line(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(SettingsError, match=f"fingerprint.idf.*{re.escape(message)}"):
        idf_table(str(written(tmp_path, content)), NORMAL)


def test_the_error_names_a_file_that_is_missing_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        idf_table(str(tmp_path / "none"), NORMAL)
    file = tmp_path / "bytes.txt"
    file.write_bytes(b"a 1\nb\xff 2\n")
    with pytest.raises(SettingsError, match="line 2: is not UTF-8"):
        idf_table(str(file), NORMAL)


# --- parts of speech -------------------------------------------------------------------------------------------------


def test_the_longest_prefix_of_a_tag_counts() -> None:
    table = tag_factors("n=2,ns=3,v=1.5", (), "", NORMAL)
    found = {
        word: number_of(table, word) / FACTOR_UNIT
        for word in ("桥梁", "北京", "欧阳修", "讨论", "但是", "漂亮", "nowhere")
    }
    assert found == {"桥梁": 2, "北京": 3, "欧阳修": 2, "讨论": 1.5, "但是": 1, "漂亮": 1, "nowhere": 1}


def test_tags_are_those_of_the_segmenter_in_rust() -> None:
    """A factor of its own for every tag, compared with the tagger over sentences."""
    text = "气象学家昨天下午在图书馆门口发现了一只受伤的白鹭，但是大家并不愿意马上改变非常漂亮的计划"
    factors = {"n": 2, "v": 3, "a": 4, "d": 5, "c": 6, "r": 7, "p": 8, "t": 9, "s": 10, "u": 11, "m": 12, "f": 13}
    table = tag_factors(",".join(f"{tag}={factor}" for tag, factor in factors.items()), (), "", NORMAL)
    tagged = [(word, tag) for word, tag in rjieba.tag(text) if tag != "x"]
    assert len({tag for _, tag in tagged}) > 6
    assert [number_of(table, word) // FACTOR_UNIT for word, _ in tagged] == [
        factors.get(tag[0], 1) for _, tag in tagged
    ]


def test_tags_of_the_users_dictionary_override_others() -> None:
    extra = [DictionaryWord("桥梁", None, "x"), DictionaryWord("石墨烯电池", 3, "n"), DictionaryWord("北京", None, "")]
    table = tag_factors("n=2", extra, "digest", NORMAL)
    assert [number_of(table, word) // FACTOR_UNIT for word in ("桥梁", "石墨烯电池", "北京")] == [1, 2, 2]
    assert table.digest != tag_factors("n=2", (), "", NORMAL).digest


# --- lists -----------------------------------------------------------------------------------------------------------


def test_a_dictionary_has_jiebas_form(tmp_path: Path) -> None:
    file = written(tmp_path, "\ufeff云计算平台 10 n\n\n石墨烯电池 nz\n断桥\n长桥 7\n")
    words, digest = dictionary_words(file, NORMAL)
    assert [(entry.word, entry.frequency, entry.tag) for entry in words] == [
        ("云计算平台", 10, "n"),
        ("石墨烯电池", None, "nz"),
        ("断桥", None, ""),
        ("长桥", 7, ""),
    ]
    assert re.fullmatch("sha256 [0-9a-f]{64}", digest)


def test_a_malformed_line_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"fingerprint.dictionary: .*line 2: must be `word \[frequency\] \[tag\]`"):
        dictionary_words(written(tmp_path, "断桥\n长桥 n 7\n"), NORMAL)


def test_a_word_list_skips_comments_and_empty_lines(tmp_path: Path) -> None:
    listed, _ = word_list(written(tmp_path, "# remark\n\nIn Summary\n总之\n"), "fingerprint.markers", NORMAL)
    assert listed == ["in summary", "总之"]


def test_the_package_ships_a_list_of_markers() -> None:
    listed, _ = word_list(MARKERS, "fingerprint.markers", NORMAL)
    assert {"综上所述", "然而", "in summary", "however"} <= set(listed)
    assert len(set(listed)) == len(listed) > 40
