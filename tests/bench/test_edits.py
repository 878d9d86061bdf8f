"""The bench of edits: its normal form against the product's, its shares against single pairs, one run."""

import lzma
import unicodedata
from itertools import pairwise
from pathlib import Path

import orjson
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from bench.edits import SCHEMES, STEPS, EditedSet, folded, measure, normal_form
from streamer.evaluation.scores import pairs_flagged
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.settings.settings import load
from streamer.text import normalisation
from streamer.text.characters import decode, fold
from tests.support.examples import examples

ARTICLE = (
    "The lights of the bridge over the river are on tonight, for the first time since the storm of last winter, and 27 "
    "engineers of the town had worked on them for eleven weeks. 大桥的灯光今晚重新亮起，居民们站在岸边看了很久，"
    "许多道路曾被倒下的树木阻断，工程师们修了十一个星期，镇上的人说，谁也不知道一共花了多少钱。"
)
EDITS = {
    "upper": ARTICLE.upper(),
    "wide": ARTICLE.translate({ord(letter): ord(letter) + 0xFEE0 for letter in "abcdefghijklmnopqrstuvwxyz0123456789"}),
    "zwsp": "\u200b".join(ARTICLE),
    "markup": "".join(f"<p class='x'><b>{part}</b></p>" for part in ARTICLE.split("，")),
    "s2t": ARTICLE.translate(
        str.maketrans("桥灯今岸边许过树断师们个镇说谁钱楼数", "橋燈今岸邊許過樹斷師們個鎮說誰錢樓數")
    ),
    "other": "Nobody at the office of the harbour wanted to say when the ferry will run again. " * 4,
}
OWED = {"upper": "case", "wide": "widths", "zwsp": "invisible", "markup": "markup", "s2t": "simplify"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("edits")
    rows: list[dict[str, object]] = [{"base": 1, "op": "base", "level": 0, "label": "base", "J": 1, "text": ARTICLE}]
    for name, text in EDITS.items():
        label = "neg" if name == "other" else "dup"
        rows.append({"base": 1, "op": name, "level": 100, "label": label, "J": 0.5, "text": text})
    (found / "docs.jsonl.xz").write_bytes(lzma.compress(b"\n".join(map(orjson.dumps, rows))))
    return found


def read(texts: list[str], steps: tuple[str, ...]) -> list[str]:
    found = folded(texts, steps)
    return [decode(found.codepoints[begin:end]) for begin, end in pairwise(found.bounds.tolist())]


ONE_ALPHABET = st.characters().filter(
    lambda letter: (
        not regex.search(
            r"[\p{Greek}\p{Cyrillic}\p{Armenian}\p{Cherokee}]", unicodedata.normalize("NFKC", letter.casefold())
        )
    )
)
"""Look-alike letters of mixed alphabets are read before the normal form, and are no step of it."""


@examples(100)
@given(st.lists(st.text(st.one_of(ONE_ALPHABET, st.sampled_from("Ａ１ﬁßİ\u200b\ufe0f\u0301ǅ한"))), max_size=4))
def test_with_all_steps_the_normal_form_is_the_products(texts: list[str]) -> None:
    product = fold(texts)
    assert read(texts, STEPS) == [
        decode(product.codepoints[begin:end]) for begin, end in pairwise(product.bounds.tolist())
    ]


def test_a_step_that_is_left_out_leaves_its_own_differences_and_no_other() -> None:
    text = "Ａb\u200bC"
    assert read([text], STEPS) == ["abc"]
    assert read([text], ("widths", "case")) == ["ab\u200bc"]
    assert read([text], ("widths", "invisible")) == ["AbC"]
    assert read([text], ("case", "invisible")) == ["ａbc"]


def test_the_product_has_its_own_normal_form_back_afterwards() -> None:
    with normal_form(("case",)):
        assert normalisation.fold is not fold
    assert normalisation.fold is fold


def test_every_edit_is_owed_to_the_step_that_undoes_it(folder: Path) -> None:
    rows = {row.edit: row for row in measure(EditedSet(folder))}
    assert rows.keys() == EDITS.keys()
    for edit, row in rows.items():
        for scheme in SCHEMES:
            assert row.normalised[scheme] == (edit != "other")
            for step in STEPS:
                # Where all but letters is dropped, invisible characters go with the rest.
                needed = OWED.get(edit) == step and (scheme, step) != ("minhash", "invisible")
                if step not in ("widths", "markup") or scheme == "simhash":
                    assert row.without[scheme][step] == (edit != "other" and not needed), (edit, scheme, step)


def test_what_is_found_is_what_single_pairs_say(folder: Path) -> None:
    edited = EditedSet(folder)
    for scheme_name in SCHEMES:
        chosen = load(None, [f"fingerprint.scheme={scheme_name}"], {})
        scheme = scheme_for(chosen)
        alone = [
            bool(
                pairs_flagged(scheme.fingerprint([ARTICLE]), scheme.fingerprint([text]), parameters_for(chosen, {}))[0]
            )
            for text in edited.texts
        ]
        assert edited.found(scheme_name, None).tolist() == alone
        assert 0 < sum(alone) < len(alone)
