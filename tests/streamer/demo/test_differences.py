"""Documents on which the schemes differ: both verdicts, the truth, and the order of display."""

from streamer.demo.differences import COPY, OTHER, Difference, differences, shown_first
from streamer.settings.settings import Settings, load
from tests.support.news import ARTICLES

BOTH = {"minhash": Settings(), "simhash": load(None, (), {}, preset="simhash-best")}


def test_either_scheme_may_say_duplicate_alone_and_texts_may_be_too_short() -> None:
    articles = list(ARTICLES)
    known = {article: ("", ARTICLES[article]) for article in articles[:2]}
    known |= {"en-0001-copy-1-typo": ("", "too short"), "en-0001": ("", "short as well")}

    def line(identity: str, original: str | None) -> dict[str, str | None]:
        return {"id": identity, "verdict": "duplicate" if original else "unique", "original": original}

    simhash = [line(articles[0], articles[1]), line(articles[1], None), line("en-0001-copy-1-typo", None)]
    minhash = [line(articles[0], None), line(articles[1], None), line("en-0001-copy-1-typo", "en-0001")]
    one, other = differences(minhash, simhash, known, BOTH)
    assert (one.simhash, one.minhash, one.truth) == (True, False, OTHER)
    assert one.distance is not None
    assert one.similarity is not None
    assert (other.simhash, other.minhash, other.distance, other.truth) == (False, True, None, COPY)
    assert other.in_words()[0].startswith("duplicate, ")
    assert other.in_words()[1:] == ("unique, too short", "a copy")
    assert other.in_words("zh")[1:] == ("unique, 太短", "副本")
    assert one.in_words("zh")[2] == "另一篇"
    assert differences(minhash[1:2], simhash[1:2], known, BOTH) == []


def test_wrong_matches_are_shown_first_and_then_every_kind_in_turn() -> None:
    def difference(identity: str, original: str, truth: str) -> Difference:
        return Difference(identity, original, True, False, 0.8, 5, truth)

    typos = [difference(f"zh-000{number}-copy-1-typo", f"zh-000{number}", COPY) for number in range(1, 6)]
    moved, wrong = difference("en-0001-copy-1-moved", "en-0001", COPY), difference("en-0002", "en-0001", OTHER)
    again = difference("zh-0009-copy-2-typo", "zh-0009-copy-1-same", COPY)
    assert shown_first([again, *typos, moved, wrong], 4) == [wrong, typos[0], moved, typos[1]]
    assert shown_first([moved], 4) == [moved]
