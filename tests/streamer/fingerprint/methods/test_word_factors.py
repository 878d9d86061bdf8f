"""Factors that settings switch on: each against a plain calculation, whole methods, and the stamp."""

import json
from collections import defaultdict
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from index.entry import Kind, Source
from streamer.errors import SettingsError
from streamer.fingerprint.documents import prepare
from streamer.fingerprint.hashing import hash_text
from streamer.fingerprint.methods.weights import FACTOR_UNIT, fixed, topic_length_factor
from streamer.fingerprint.methods.word_tables import MARKERS, PARTICLES, idf_table, tag_factors, word_list
from streamer.fingerprint.simhash.fingerprinter import Fingerprinter
from streamer.fingerprint.word_shingles import shingle
from streamer.records.decode import Decoder
from streamer.records.record import Record
from streamer.settings.settings import Decode, Fingerprint, load
from streamer.text.characters import normalise
from streamer.text.normalisation import Normaliser
from streamer.text.words import words
from tests.support.examples import examples
from tests.support.word_numbers import number_of

NORMAL = Normaliser(Fingerprint()).words
TITLE = "长江大桥的灯光"
TEXT = (
    "长江大桥的灯光在除夕夜里显得格外明亮。工程师在凌晨两点修复了数据库的连接泄漏！总之，系统恢复正常，大桥的灯光又亮了。\n"
    "In summary the lights of the bridge are on. The engineers went home at 3.14 in the morning."
)
FRAGMENTS = st.sampled_from(
    [
        "长江大桥",
        "灯光",
        "的",
        "工程师",
        "修复",
        "数据库",
        "总之",
        "然而",
        "。",
        "！",
        "，",
        " in summary ",
        " the ",
        "bridge ",
    ]
)


def said(**changes: object) -> Fingerprint:
    """All settings that are not about weights, set explicitly."""
    base: dict[str, object] = {"bits": 64, "shingle_words": 2, "segmenter": "compiled", "character_shingle_size": 2}
    return Fingerprint.model_validate(base | {"features_min": 1} | changes)


def of_preset(name: str, **changes: object) -> Fingerprint:
    return load(None, (), {}, preset=name).fingerprint.model_copy(update=changes)


@cache
def tables() -> SimpleNamespace:
    """The tables that come with the program, read once, and not before a test asks."""
    return SimpleNamespace(
        idf=idf_table("jieba", NORMAL),
        tags=tag_factors("n=2,v=2", (), "", NORMAL),
        markers=set(word_list(MARKERS, "fingerprint.markers", NORMAL)[0]),
        stopped=frozenset(word_list(PARTICLES, "fingerprint.stop_words", NORMAL)[0]),
    )


RECKONED = {
    "classic": of_preset("simhash-classic"),
    "improved-1": of_preset("simhash-improved-1"),
    "improved-2": of_preset("simhash-improved-2"),
    "improved-2 of 128 bits": of_preset("simhash-improved-2", bits=128),
    "improved-2 logarithmic": of_preset("simhash-improved-2", weight="log-tf"),
    "shingles of improved-1": of_preset("simhash-improved-1", features="shingles"),
    "shingles of improved-2": of_preset("simhash-improved-2", features="shingles", weight="log-tf", shingle_words=3),
    "title alone": said(features="words", weight="log-tf", title_factor=5),
    "title alone, tf": said(features="shingles", weight="tf", title_factor=7),
}


def rounded(left: int, right: int) -> int:
    return (left * right + FACTOR_UNIT // 2) // FACTOR_UNIT


def occurrences(text: str, chosen: Fingerprint) -> list[tuple[str, int]]:
    """The words of a text and the weight of every occurrence, sentence by sentence, without arrays."""
    parts = regex.split(r"(?<=[\n。!?;])|(?<=\.)(?=\s|$)", normalise_lines(text))
    cut = [words([part], "compiled", 2)[0] for part in parts]
    lengths = [len(word) for found in cut for word in found]
    weighed = []
    for found in cut:
        joined = " " + " ".join(found) + " "
        holds = any(" " + " ".join(words([marker], "compiled", 2)[0]) + " " in joined for marker in tables().markers)
        for word in found:
            weight = topic_length_factor(len(word)) if chosen.topic_length else FACTOR_UNIT
            weight = rounded(weight, number_of(tables().idf, word)) if chosen.idf else weight
            weight = rounded(weight, number_of(tables().tags, word)) if chosen.part_of_speech else weight
            if chosen.word_length:
                spread = max(max(lengths) - min(lengths), 1)
                weight = rounded(weight, FACTOR_UNIT + (len(word) - min(lengths)) * FACTOR_UNIT // spread)
            weighed.append((word, weight * chosen.marker_factor if holds else weight))
    return [(word, weight) for word, weight in weighed if chosen.stop_words is None or word not in tables().stopped]


def normalise_lines(text: str) -> str:
    return "\n".join(map(normalise, text.split("\n")))


def runs(found: list[tuple[str, int]], chosen: Fingerprint) -> list[tuple[tuple[str, ...], int]]:
    size = chosen.shingle_words if chosen.features == "shingles" else 1
    places = range(max(len(found) - size + 1, min(len(found), 1)))
    chunks = [found[at : at + size] for at in places]
    return [(tuple(word for word, _ in chunk), sum(weight for _, weight in chunk)) for chunk in chunks]


def plain_weights(text: str, title: str, chosen: Fingerprint) -> dict[tuple[str, ...], int]:
    gathered: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for feature, weight in runs(occurrences(text, chosen), chosen):
        gathered[feature].append(weight)
    named = {feature for feature, _ in runs(occurrences(title, chosen), chosen)}
    found = {}
    for feature, parts in gathered.items():
        weight = sum(parts)
        if chosen.weight == "log-tf":
            weight = rounded((weight + len(parts) // 2) // len(parts), fixed(1 + float(np.log(len(parts)))))
        found[feature] = weight * chosen.title_factor if feature in named else weight
    return found


def plain_fingerprint(text: str, title: str, chosen: Fingerprint) -> int:
    """The fingerprint by the definition."""
    sums = [0] * chosen.bits
    for feature, weight in plain_weights(text, title, chosen).items():
        value = hash_of(feature, chosen)
        for bit in range(chosen.bits):
            sums[bit] += weight if value >> bit & 1 else -weight
    return sum(1 << bit for bit, total in enumerate(sums) if total > 0)


def hash_of(feature: tuple[str, ...], chosen: Fingerprint) -> int:
    if chosen.features == "words":
        return as_number(hash_text(feature[0], chosen.bits // 64))
    column = np.array([hash_text(word, chosen.bits // 64) for word in feature], np.uint64)
    return as_number(shingle(column, np.array([0, len(column)]), chosen.shingle_words)[0][0].tolist())


def as_number(lanes: tuple[int, ...] | list[int]) -> int:
    return sum(int(lane) << 64 * place for place, lane in enumerate(lanes))


@pytest.mark.parametrize("name", sorted(RECKONED))
def test_a_published_method_gives_the_fingerprint_of_its_formulas(name: str) -> None:
    found = fingerprinter(name).fingerprint([TEXT, "", TEXT], [TITLE, TITLE, ""])
    assert as_number(found.fingerprints[0].tolist()) == plain_fingerprint(TEXT, TITLE, RECKONED[name])
    assert as_number(found.fingerprints[2].tolist()) == plain_fingerprint(TEXT, "", RECKONED[name])
    assert found.kinds.tolist() == [Kind.NEAR, Kind.UNDECIDABLE, Kind.NEAR]


@cache
def fingerprinter(name: str) -> Fingerprinter:
    return Fingerprinter(RECKONED[name])


@examples(40)
@given(
    st.lists(st.tuples(st.lists(FRAGMENTS, max_size=12), st.lists(FRAGMENTS, max_size=3)), max_size=3),
    st.sampled_from(sorted(RECKONED)),
)
def test_a_batch_gets_the_fingerprints_of_the_definition(
    documents: list[tuple[list[str], list[str]]], name: str
) -> None:
    texts, titles = ["".join(document[0]) for document in documents], ["".join(document[1]) for document in documents]
    found = fingerprinter(name).fingerprint(texts, titles)
    for row, (text, title) in enumerate(zip(texts, titles, strict=True)):
        if found.kinds[row] == Kind.NEAR:
            assert as_number(found.fingerprints[row].tolist()) == plain_fingerprint(text, title, RECKONED[name])


def test_methods_differ_from_one_another() -> None:
    """Otherwise a factor that is never applied would go unnoticed."""
    found = {
        as_number(each.fingerprint([TEXT], [TITLE]).fingerprints[0].tolist()) for each in map(fingerprinter, RECKONED)
    }
    assert len(found) == len(RECKONED)


# --- settings of weights ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factors", ["", "n", "n=", "n=2,", "N=2", "n=-1", "n=100", "n=2 v=2"])
def test_malformed_factors_are_refused(factors: str) -> None:
    with pytest.raises(ValueError, match="part_of_speech"):
        Fingerprint.model_validate({"part_of_speech": factors})


# --- markers, titles, stop words, dictionaries -----------------------------------------------------------------------


def test_words_of_a_marked_sentence_move_the_fingerprint_towards_themselves() -> None:
    """With a factor of 100 the marked sentence alone decides every bit."""
    chosen = said(features="words", weight="tf", marker_factor=100)
    sentence = "总之，系统恢复正常，大桥的灯光又亮了。"
    whole, alone = Fingerprinter(chosen).fingerprint(["渔民们已经驾着小船出海捕鱼。" + sentence, sentence]).fingerprints
    assert int(np.bitwise_count(whole ^ alone)[0]) <= 4
    plain = Fingerprinter(said(features="words", weight="tf")).fingerprint(
        ["渔民们已经驾着小船出海捕鱼。" + sentence, sentence]
    )
    assert int(np.bitwise_count(plain.fingerprints[0] ^ plain.fingerprints[1])[0]) > 10


def test_markers_of_a_file_replace_those_of_the_package(tmp_path: Path) -> None:
    file = tmp_path / "markers.txt"
    file.write_text("in the end\n", encoding="utf-8")
    chosen = said(features="words", marker_factor=5, markers=file)
    plain = said(features="words")
    texts = ["one two. in the end three four", "one two. in summary three four", "in the. end one", "in", ""]
    weighed, unweighed = Fingerprinter(chosen).fingerprint(texts), Fingerprinter(plain).fingerprint(texts)
    assert (weighed.fingerprints != unweighed.fingerprints)[:, 0].tolist() == [True, False, False, False, False]


def test_stop_words_change_no_fingerprint(tmp_path: Path) -> None:
    file = tmp_path / "stop.txt"
    file.write_text("# remark\nThe\n的\n", encoding="utf-8")
    stopped = Fingerprinter(said(features="shingles", stop_words=str(file)))
    plain = Fingerprinter(said(features="shingles"))
    texts, without = ["the bridge of the town", "大桥的灯光", "The 的 the"], ["bridge of town", "大桥 灯光", ""]
    one, other = stopped.fingerprint(texts), plain.fingerprint(without)
    assert (one.fingerprints[:2] == other.fingerprints[:2]).all()
    assert one.feature_counts.tolist() == other.feature_counts.tolist()
    assert one.kinds.tolist() == [Kind.NEAR, Kind.NEAR, Kind.UNDECIDABLE]


def test_a_marker_that_is_a_stop_word_still_marks(tmp_path: Path) -> None:
    file = tmp_path / "stop.txt"
    file.write_text("但是\n", encoding="utf-8")
    text = "大桥的灯光很亮。但是渔民们驾着小船出海捕鱼。"
    prints = [
        Fingerprinter(said(features="words", marker_factor=factor, stop_words=str(file)))
        .fingerprint([text])
        .fingerprints
        for factor in (1, 100)
    ]
    assert (prints[0] != prints[1]).any()


@pytest.mark.parametrize("name", ["compiled", "jieba"])
def test_a_dictionary_joins_characters_into_one_word(tmp_path: Path, name: str) -> None:
    file = tmp_path / "words.txt"
    file.write_text("石墨烯电池 1000 n\n", encoding="utf-8")
    text = "石墨烯电池的寿命"
    own = Fingerprinter(said(features="words", segmenter=name, dictionary=file))
    assert own.fingerprint([text]).feature_counts[0] == 3
    assert Fingerprinter(said(features="words", segmenter=name)).fingerprint([text]).feature_counts[0] > 3


def test_a_text_without_weight_matches_nothing(tmp_path: Path) -> None:
    file = tmp_path / "idf.txt"
    file.write_text("# streamer idf 1 documents 9 unknown 2.197225\nthe 0.0\nof 0.0\n", encoding="utf-8")
    found = Fingerprinter(said(features="words", idf=str(file), features_min=2)).fingerprint(
        ["the of", "the bridge", "a bridge"]
    )
    assert found.kinds.tolist() == [Kind.UNDECIDABLE, Kind.EXACT, Kind.NEAR]
    assert found.feature_counts.tolist() == [0, 1, 2]


def test_the_title_of_a_record_reaches_the_weights() -> None:
    chosen = said(features="words", weight="tf", title_factor=100)
    rows = [{"text": TEXT, "title": TITLE}, {"text": TEXT}, {"text": TEXT, "title": 7}]
    records = [Record(Source("s", 0), "news", row, None, json.dumps(each).encode(), 0) for row, each in enumerate(rows)]
    prints = prepare(Decoder(Decode()), Fingerprinter(chosen), records).fingerprints
    expected = Fingerprinter(chosen).fingerprint([TEXT, TEXT], [TITLE, ""]).fingerprints
    assert prints.tolist() == [*expected.tolist(), expected[1].tolist()]
    assert (expected[0] != expected[1]).any()


def test_a_list_of_markers_without_a_factor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"fingerprint.markers \(.*\) has no use .*marker_factor \(1, the default\)"
    ):
        load(None, [f"fingerprint.markers={tmp_path}"], {})
    loaded = load(None, [f"fingerprint.markers={tmp_path}", "fingerprint.marker_factor=5"], {})
    assert loaded.fingerprint.marker_factor == 5


# --- the batch and the stamp -----------------------------------------------------------------------------------------


def test_a_factor_that_is_switched_off_leaves_the_stamp_as_it_was() -> None:
    stamp = Fingerprinter(said()).stamp()
    assert set(stamp) == {
        "scheme",
        "format",
        "bits",
        "features",
        "shingle_words",
        "weight",
        "dictionary",
        "character_shingle_size",
        "features_min",
        "hash",
        "normalisation",
        "markup",
    }
    assert stamp == Fingerprinter(said(marker_factor=1, title_factor=1)).stamp()


def test_every_factor_changes_the_stamp_and_so_does_the_content_of_its_file(tmp_path: Path) -> None:
    contents = {"idf": ("a 1.0\n", "a 2.0\n"), "markers": ("a\n", "b\n"), "stop_words": ("a\n", "b\n")}
    contents |= {"dictionary": ("断桥 9\n", "断桥 8\n")}
    stamps = [Fingerprinter(said()).stamp()]
    for name, both in contents.items():
        for content in both:
            file = tmp_path / f"{name}.txt"
            file.write_text(content, encoding="utf-8")
            value: object = str(file) if name in ("idf", "stop_words") else file
            more = {"marker_factor": 5} if name == "markers" else {}
            stamps.append(Fingerprinter(said(**{name: value}, **more)).stamp())
    weights: tuple[dict[str, object], ...] = (
        {"topic_length": True},
        {"word_length": True},
        {"marker_factor": 5},
        {"marker_factor": 4},
        {"title_factor": 5},
        {"title_factor": 4},
        {"part_of_speech": "n=2"},
        {"part_of_speech": "n=3"},
        {"idf": "jieba"},
    )
    stamps += [Fingerprinter(said(**changes)).stamp() for changes in weights]
    assert len({tuple(sorted(stamp.items())) for stamp in stamps}) == len(stamps)


def test_the_shipped_particles_are_left_out_and_the_file_of_that_name_is_a_path() -> None:
    stopped = Fingerprinter(said(features="words", stop_words=PARTICLES))
    assert stopped.fingerprint(["他的大桥呢？ the bridge"]).feature_counts[0] == 3
    assert {"stop_words"} == set(stopped.stamp()) - set(Fingerprinter(said(features="words")).stamp())
    with pytest.raises(SettingsError, match=r"stop_words: particles: cannot be read"):
        Fingerprinter(said(stop_words="./particles"))
