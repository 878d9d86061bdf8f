"""The demo as a whole: its verdicts and scores, a second run, interruptions, and what the screen shows."""

import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from io import StringIO
from pathlib import Path

import orjson
import pytest
from rich.console import Console

from streamer.demo import demo as module
from streamer.demo.demo import DIFFERENCES_SHOWN, EXIT_INTERRUPTED, examples, render, run_demo, score, write_documents
from streamer.demo.differences import COPY
from streamer.demo.documents import EDITS
from streamer.errors import InputChanged, InputUnreadable
from streamer.service.summary import Totals
from streamer.settings.settings import Decode, Index, Minhash, Settings, load
from tests.support.news import UNTOUCHED
from tests.support.paths import DOCS

FOUND_MIN = 235
"""Of 240 copies, by the default scheme, which finds all."""
SIMHASH_FOUND_MIN = 205
"""Of the same copies, by the preset simhash-best, which finds 211."""


TABLES = {"demo.svg": ("verdicts", "wrongmatches"), "zh/demo.svg": ("判定", "误判")}
"""Beginnings of the first and the last row that the pictures show."""


def console() -> Console:
    return Console(width=250, record=True, file=StringIO())


SIMHASH = load(None, (), {}, preset="simhash-best")


def both(own: Settings) -> dict[str, Settings]:
    return {"minhash": own, "simhash": SIMHASH}


def shown(directory: Path, own: Settings, language: str = "en") -> str:
    screen = console()
    assert run_demo(directory, screen, both(own), language) == 0
    return screen.export_text()


@pytest.fixture(scope="module")
def filtered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    directory = tmp_path_factory.mktemp("demo") / "demo-output"
    return directory, shown(directory, Settings())


def verdicts(directory: Path, out: str = "out") -> list[dict[str, str]]:
    return [orjson.loads(line) for line in (directory / out / "verdicts.jsonl").read_bytes().splitlines()]


def test_both_schemes_find_every_copy_with_its_articles_normal_form_and_no_wrong_match(
    filtered: tuple[Path, str],
) -> None:
    reached, simhash = score(filtered[0] / "out"), score(filtered[0] / "out-simhash")
    for each in (reached, simhash):
        assert each.wrong == []
        assert each.copies == dict.fromkeys(EDITS, 30)
        assert all(each.matched[edit] == 30 for edit in UNTOUCHED)
    assert reached.matched.total() >= FOUND_MIN
    assert FOUND_MIN > simhash.matched.total() >= SIMHASH_FOUND_MIN
    assert re.search(rf"all copies +{reached.matched.total()} of 240 +{simhash.matched.total()} of 240\b", filtered[1])


def test_every_verdict_occurs_and_every_document_has_one(filtered: tuple[Path, str]) -> None:
    counts = Counter(verdict["verdict"] for verdict in verdicts(filtered[0]))
    assert set(counts) == {"unique", "duplicate", "extends", "undecidable", "dead-letter"}
    assert counts["undecidable"] == counts["dead-letter"] == 8
    assert counts.total() == 600
    reasons = {verdict["reason"] for verdict in verdicts(filtered[0]) if verdict["verdict"] == "dead-letter"}
    assert reasons == {"not-json", "no-text", "text-not-string", "not-utf-8"}


def test_a_second_run_changes_no_file_and_says_so_and_shows_the_same_examples(filtered: tuple[Path, str]) -> None:
    directory, first = filtered
    outputs = {path: path.read_bytes() for path in directory.glob("**/*.jsonl")}
    assert len(outputs) == 4 + 4 + 2
    second = shown(directory, Settings())
    assert {path: path.read_bytes() for path in directory.glob("**/*.jsonl")} == outputs
    assert "already decided" in second
    assert "already decided" not in first
    tail = "copies matched"
    assert second[second.index(tail) :] == first[first.index(tail) :]


def test_in_chinese_it_shows_the_same_figures_without_a_sentence_in_english(filtered: tuple[Path, str]) -> None:
    directory, english = filtered
    chinese = shown(directory, Settings(), "zh")
    (matched,) = re.findall(r"all copies +(\d+) of (\d+) +(\d+) of (\d+)", english)
    assert re.search("全部副本 +{}/{} +{}/{}".format(*matched), chinese)
    # Texts of the examples follow a blank; names have two words at most.
    own = [line for line in chinese.splitlines() if not line.startswith("   ") and "━" not in line]
    assert [line for line in own if re.search(r"[a-z]+ [a-z]+ [a-z]+", line)] == []
    assert "近似重复" in chinese


def test_the_pictures_in_the_docs_show_the_tables_of_the_demo(filtered: tuple[Path, str]) -> None:
    directory, english = filtered
    for picture, screen in (("demo.svg", english), ("zh/demo.svg", shown(directory, Settings(), "zh"))):
        drawn = ElementTree.parse(DOCS / picture).getroot().iter("{http://www.w3.org/2000/svg}g")
        lines = ["".join("".join(group.itertext()).split()) for group in drawn]
        printed = ["".join(line.split()) for line in screen.splitlines() if not line.startswith("之前的运行")]
        begin, end = (next(at for at, line in enumerate(printed) if line.startswith(each)) for each in TABLES[picture])
        assert [line for line in lines if line in printed[begin : end + 1]] == list(
            filter(None, printed[begin : end + 1])
        )


def test_the_demo_ignores_the_field_names_and_the_index_of_the_settings(tmp_path: Path) -> None:
    own = Settings(decode=Decode(text="/body"), index=Index(directory=tmp_path / "elsewhere"))
    assert "of 240" in shown(tmp_path / "demo", own)
    assert score(tmp_path / "demo" / "out").matched.total() >= FOUND_MIN
    assert not (tmp_path / "elsewhere").exists()


def test_an_interrupted_run_shows_no_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "filter_files", lambda *_: (Totals(), False))
    screen = console()
    assert run_demo(tmp_path, screen, both(Settings())) == EXIT_INTERRUPTED
    assert "Run the same command again to resume" in screen.export_text()


def test_documents_of_another_release_are_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "demo" / "documents.jsonl"
    assert write_documents(file) == write_documents(file) == 600
    content = file.read_bytes()
    file.write_bytes(content + b"\n")
    with pytest.raises(InputChanged, match="--directory"):
        run_demo(file.parent, console(), both(Settings()))
    assert file.read_bytes() == content + b"\n"
    file.unlink()
    file.mkdir()
    with pytest.raises(InputUnreadable, match=r"documents\.jsonl"):
        write_documents(file)


def test_the_examples_show_different_edits_in_both_languages(
    filtered: tuple[Path, str],
) -> None:
    directory, screen = filtered
    found = examples(directory / "out", directory / "documents.jsonl")
    assert len(found) == 3
    assert all(Minhash().similarity_min <= example.similarity < 1 for example in found)
    assert len({example.edit for example in found}) == 3
    assert {example.id[:2] for example in found} == {"zh", "en"}
    for example in found:
        assert example.id in screen
        assert re.search(r"\[-.+-\]|\{\+.+\+\}", render(example).plain)


def test_the_differences_of_the_schemes_give_both_verdicts_and_the_truth(
    filtered: tuple[Path, str],
) -> None:
    """Compared with the verdict lines: the scheme that calls a pair a duplicate gives the same figure there."""
    directory, screen = filtered
    listed = [orjson.loads(line) for line in (directory / "differences.jsonl").read_bytes().splitlines()]
    minhash, simhash = verdicts(directory), verdicts(directory, "out-simhash")
    flagged = [
        (one["verdict"] == "duplicate", other["verdict"] == "duplicate")
        for one, other in zip(minhash, simhash, strict=True)
    ]
    differing = [row for row, (one, other) in enumerate(flagged) if one != other]
    assert [each["id"] for each in listed] == [simhash[row]["id"] for row in differing] != []
    for each, row in zip(listed, differing, strict=True):
        assert (each["minhash"], each["simhash"]) == flagged[row]
        if each["simhash"]:
            assert (each["original"], each["distance"]) == (simhash[row]["original"], simhash[row]["distance"])
            assert each["similarity"] < 0.7
        else:
            assert (each["original"], each["similarity"]) == (minhash[row]["original"], minhash[row]["similarity"])
            assert each["distance"] > SIMHASH.index.distance_max
        assert each["truth"] == COPY
    assert f"differ on {len(listed)} documents" in screen
    rows = [line for line in screen.splitlines() if re.search(r"(unique|duplicate), \d+ bits? ", line)]
    assert len(rows) == DIFFERENCES_SHOWN


def test_distances_equal_those_of_the_verdicts_where_titles_count(tmp_path: Path) -> None:
    own = load(None, ["fingerprint.title_factor=5"], {}, preset="simhash-best")
    run_demo(tmp_path, console(), {"minhash": Settings(), "simhash": own})
    listed = [orjson.loads(line) for line in (tmp_path / "differences.jsonl").read_bytes().splitlines()]
    assert listed
    assert all((each["distance"] <= own.index.distance_max) == each["simhash"] for each in listed)


def judged(tmp_path: Path, pairs: list[tuple[str, str]], rows: list[dict[str, object]] | None = None) -> Path:
    """An output folder and a documents file for pairs of texts: original and near-duplicate."""
    lines, found = [], []
    for number, pair in enumerate(pairs):
        for end, text in zip(("original", "copy"), pair, strict=True):
            lines.append(orjson.dumps({"id": f"{end}-{number}", "text": text}))
        found.append(
            {"id": f"copy-{number}", "verdict": "duplicate", "original": f"original-{number}", "similarity": 0.954}
        )
    (tmp_path / "verdicts.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows or found)) + b"\n")
    (tmp_path / "documents.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    return tmp_path


def difference(tmp_path: Path, before: str, after: str) -> str:
    folder = judged(tmp_path, [(before, after)])
    (example,) = examples(folder, folder / "documents.jsonl")
    heading, difference = render(example).plain.split("\n  ", 1)
    assert heading == "copy-0 is a near-duplicate of original-0, 0.95 similar"
    return difference


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param("我们昨天开会。", "我们今天开会。", "我们[-昨-]{+今+}天开会。", id="Chinese words"),
        pytest.param("“Yes”, he said", "“Yes”, I said", "“Yes”, [-he-] {+I+} said", id="case and quotes are kept"),
        pytest.param("The end. Editor: A", "The end.", "The end.[-Editor: A-]", id="removed at the end"),
        pytest.param("Ａ　ｂ1。", "a B１！", "the words are the same", id="only width, case and punctuation"),
    ],
)
def test_a_change_is_shown_in_words_as_they_are_written(tmp_path: Path, before: str, after: str, expected: str) -> None:
    assert difference(tmp_path, before, after) == expected


def test_a_score_counts_wrong_matches_and_missed_copies(tmp_path: Path) -> None:
    def verdict(document: str, original: str | None = None) -> dict[str, object]:
        return {"id": document, "verdict": "duplicate" if original else "unique", "original": original}

    rows = [
        verdict("zh-0001"),
        verdict("zh-0001-copy-1-typo", "zh-0001"),
        verdict("zh-0001-copy-2-typo", "zh-0001-copy-1-typo"),
        verdict("zh-0001-copy-3-moved"),
        verdict("zh-0001-copy-4-same", "zh-0002"),
        verdict("zh-0002", "zh-0001"),
        verdict("wordless-1", "zh-0001"),
        {"id": None, "verdict": "dead-letter", "original": None},
    ]
    reached = score(judged(tmp_path, [], rows))
    assert reached.copies == {"typo": 2, "moved": 1, "same": 1}
    assert reached.matched == {"typo": 2}
    assert reached.wrong == [("zh-0001-copy-4-same", "zh-0002"), ("zh-0002", "zh-0001"), ("wordless-1", "zh-0001")]
