"""The page and the demo have every word in both languages, no word too many, and no reason without its words."""

import re
import tomllib
from pathlib import Path

import pytest

from index import Verdict
from streamer.demo import demo, differences
from streamer.demo.documents import EDITS
from streamer.explain.words import LANGUAGES, language_of, page_words, words
from streamer.records.reason import Reason, label, labels
from tests.support.paths import ROOT

EXPLAIN = ROOT / "streamer" / "explain"
SECTIONS = tomllib.loads((EXPLAIN / "words.toml").read_text())
SENTENCES = {
    f"{verdict}.{reason}": table["sentence"]
    for verdict, rest in tomllib.loads((EXPLAIN / "wordings.toml").read_text()).items()
    for reason, table in rest.items()
}
PAGE = (ROOT / "streamer" / "ask" / "page.html").read_text()
DEMO = "".join(Path(str(module.__file__)).read_text() for module in (demo, differences))
LABELS = [*labels(), ("given-back", label(Verdict.GIVEN_BACK, Reason.ORDINARY))]

every_section = pytest.mark.parametrize("section", [*SECTIONS, "sentences"])


def table(section: str) -> dict[str, dict[str, str]]:
    return SENTENCES if section == "sentences" else SECTIONS[section]


def blanks(text: str) -> list[str]:
    return sorted(re.findall(r"\{(\w+)", text))


def keys_of_page(page: str) -> set[str]:
    pairs = re.findall(r'say\("([\w-]+)"|data-(?:word|hint|label)="([\w-]+)"', page)
    return {called or marked for called, marked in pairs}


@every_section
def test_each_word_is_there_in_each_language_with_the_same_blanks(section: str) -> None:
    for key, each in table(section).items():
        assert list(each) == list(LANGUAGES), key
        assert all(each.values()), key
        assert blanks(each["en"]) == blanks(each["zh"]) or key in ("ready", "rule"), key


@every_section
def test_chinese_is_chinese_and_its_marks_are_full_width(section: str) -> None:
    for key, each in table(section).items():
        if key in ("other-language", "matched-of", "of-documents", "rule", "edit"):
            continue
        assert re.search(r"[\u4e00-\u9fff]", each["zh"]), key
        assert not re.search(r"[\u4e00-\u9fff][,;:!?]|[,;:!?][\u4e00-\u9fff]", each["zh"]), key


def test_the_page_uses_every_word_of_its_section_and_no_other() -> None:
    assert keys_of_page(PAGE) == set(SECTIONS["page"])


def test_a_word_that_the_page_lacks_or_does_not_use_would_be_noticed() -> None:
    assert keys_of_page('<b data-word="one"><script>say("two", {}) say("three")') == {"one", "two", "three"}


def test_the_page_has_no_words_of_its_own() -> None:
    body = re.sub(r"<(script|style)>.*?</\1>", "", PAGE, flags=re.DOTALL)
    assert re.findall(r">\s*([^<\s][^<]*)<", body) == []


def test_the_demo_uses_every_word_of_its_section_and_no_other() -> None:
    used = set(re.findall(r"""said\[["']([\w-]+)["']\]""", DEMO))
    assert used == set(SECTIONS["demo"])


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_verdict_and_reason_has_a_gloss_and_a_sentence(language: str) -> None:
    verdicts, reasons = ({pair[place] for pair in LABELS} for place in (0, 1))
    assert set(words("verdicts", language)) == verdicts
    assert set(words("reasons", language)) == reasons
    assert {f"{verdict}.{reason}" for verdict, reason in LABELS} <= set(words("sentences", language))


def test_the_label_of_the_headers_stays_in_the_chinese_gloss() -> None:
    assert {key: gloss.split()[0] for key, gloss in words("verdicts", "zh").items()} == {
        key: key for key in SECTIONS["verdicts"]
    }


def test_every_edit_of_the_demo_has_its_words() -> None:
    assert tuple(words("edits", "zh")) == EDITS


def test_the_words_of_the_page_cannot_end_its_script() -> None:
    assert set(page_words()) == set(LANGUAGES)
    assert "<" not in str(page_words())


@pytest.mark.parametrize(
    ("locale", "language"),
    [
        ("zh_CN.UTF-8", "zh"),
        ("zh-TW", "zh"),
        ("ZH", "zh"),
        ("en_GB.UTF-8", "en"),
        ("C", "en"),
        ("", "en"),
        ("fr", "en"),
    ],
)
def test_a_locale_that_is_not_chinese_is_english(locale: str, language: str) -> None:
    assert language_of(locale) == language
