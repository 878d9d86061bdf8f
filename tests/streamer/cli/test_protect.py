"""`streamer protect` and what `filter`, `why`, `verify`, `Filter` and the HTTP API say of such a set."""

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import orjson
import pytest

from index import Position
from streamer import Filter
from streamer.ask.answers import Answers
from streamer.records.record import Record
from streamer.settings.settings import load
from streamer.transports.output_log import RecordsAt, RecordsByPosition
from tests.support.command_line import run
from tests.support.news import LINES

OUTPUTS = ("unique.jsonl", "duplicate.jsonl", "dead-letter.jsonl")
ASKED, KEPT = LINES[:90], LINES[10:40]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with pages, and with a set of some of them, which has the texts of an index that is new."""
    monkeypatch.chdir(tmp_path)
    for name, lines in (("pages", ASKED), ("questions", KEPT)):
        Path(f"{name}.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    done = run("protect", "questions.jsonl", "--out", "evaluation", "--processes", 1)
    assert done.code == 0, done.err
    return tmp_path


def verdicts(folder: str) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in Path(folder, "verdicts.jsonl").read_bytes().splitlines()]


def filtered(*more: str, out: str = "out", code: int = 0) -> str:
    done = run("filter", "pages.jsonl", "--out", out, "--processes", 1, *more)
    assert done.code == code, done.err
    return done.out + done.err


def test_outputs_equal_those_of_a_run_without_the_set_but_for_the_report(made: Path) -> None:
    shown = filtered("--protected", "evaluation")
    filtered("--index", "other-index", out="plain")
    lines = verdicts("out")
    reports = [line.pop("protected", None) for line in lines]
    assert lines == verdicts("plain")
    assert [Path("out", name).read_bytes() for name in OUTPUTS] == [
        Path("plain", name).read_bytes() for name in OUTPUTS
    ]
    # A copy of each line that the set reports, in order, and each document of the set is among them.
    copies = (made / "out" / "protected.jsonl").read_bytes().splitlines()
    assert copies == [*compress(ASKED, reports)]
    assert not (made / "plain" / "protected.jsonl").exists()
    told = {place: report for place, report in enumerate(reports) if report}
    exact = {place for place, report in told.items() if report[0]["similarity"] == 1}
    unread = {place for place in range(10, 40) if lines[place]["verdict"] in ("undecidable", "dead-letter")}
    assert exact >= {*range(10, 40)} - unread
    assert not told.keys() & unread
    assert {report[0]["set"] for report in told.values()} == {"evaluation"}
    assert f"protected {len(copies)}" in " ".join(shown.split())
    assert run("verify", "--out", "out").code == 0


def test_a_second_run_enters_new_files_alone_and_an_interrupted_output_continues(made: Path) -> None:
    (made / "more.jsonl").write_bytes(LINES[50] + b"\n")
    totals = orjson.loads(run("protect", "questions.jsonl", "more.jsonl", "--out", "evaluation", "--json").out)
    assert (totals["documents"], totals["already_decided"]) == (1, len(KEPT))
    chosen = {"index.protected": ["evaluation"], "fingerprint.key": "public"}
    with Filter("seen", settings=chosen) as seen:
        (match,) = seen.check(orjson.loads(LINES[50])).protected
        assert (match.set_name, match.id, match.similarity) == ("evaluation", orjson.loads(LINES[50])["id"], 1.0)
        # A document of the set is unique in an index that is empty, and its copy is a duplicate.
        answers = seen.admit([orjson.loads(LINES[50])] * 2)
        assert [answer.verdict for answer in answers] == ["unique", "duplicate"]
        assert [answer.protected for answer in answers] == [(match,)] * 2
        checked = Answers(seen, load()).answer("check", orjson.dumps({"documents": [orjson.loads(LINES[50])]}))
        (answer,) = orjson.loads(checked.body)["answers"]
        assert answer["protected"] == [match.as_json()]


def test_a_folder_of_earlier_runs_gets_the_file_and_keeps_what_is_no_output(made: Path) -> None:
    filtered()
    own = made / "out" / "protected.jsonl"
    own.write_text("mine\n")
    assert "protected.jsonl: no run of a filter wrote it" in filtered("--protected", "evaluation", code=78)
    assert own.read_text() == "mine\n"
    own.unlink()
    Path("pages.jsonl").write_bytes(b"".join(line + b"\n" for line in (*ASKED, KEPT[0])))
    filtered("--protected", "evaluation")
    assert own.read_bytes() == KEPT[0] + b"\n"
    filtered()
    assert own.read_bytes() == KEPT[0] + b"\n"


def test_why_shows_both_texts_and_says_which_set(made: Path) -> None:
    filtered("--protected", "evaluation")
    place = next(place for place, line in enumerate(verdicts("out")) if "protected" in line)
    ask = "why", f"pages.jsonl:{place + 1}", "--out", "out"
    (made / "questions.jsonl").unlink()
    done = run(*ask, "--protected", "evaluation")
    assert done.code == 0, done.err
    assert "of the set evaluation, " in " ".join(done.out.split())
    (decision,) = orjson.loads(run(*ask, "--protected", "evaluation", "--json").out)["decisions"]
    (report,) = decision["protected"]
    (expected,) = verdicts("out")[place]["protected"]
    assert {"set": report["set"], "id": report["id"]} | report["likeness"] | {"distance": 0} == expected | {
        "cosine": None,
        "distance": 0,
    }
    text = orjson.loads(KEPT[0])["text"]
    other = report["texts"]["other"]
    assert (other["role"], other["missing"]) == ("in evaluation", "")
    assert sum(len(words) for kind, words in other["spans"] if kind != "gap") > 0
    assert text
    assert not orjson.loads(run(*ask, "--json").out)["decisions"][0]["protected"]
    # The entry in the index answers alike, without texts.
    no_texts = run(*ask, "--protected", "evaluation", "--no-texts")
    assert "of the set evaluation, " in " ".join(no_texts.out.split())
    (untold,) = orjson.loads(run(*ask, "--protected", "evaluation", "--no-texts", "--json").out)["decisions"]
    assert untold["protected"] == [{**report, "texts": None}]


def test_the_port_tells_what_a_document_resembles_by_its_entry_and_shows_texts_if_it_may(made: Path) -> None:
    one = {"id": "one", "text": " ".join(f"word{number}" for number in range(90)), "url": "https://a.example/"}
    (made / "secret.jsonl").write_bytes(orjson.dumps({**one, "id": "q"}))
    assert run("protect", "secret.jsonl", "--out", "exam", "--processes", 1).code == 0
    settings = load(None, {"index.protected": ["exam"], "fingerprint.key": "public"}, {}, over_files=True)
    documents = [one, {**one, "id": "copy", "text": one["text"] + " end"}, {"id": "short", "text": "two words"}]

    def records_at(positions: Sequence[Position], _: Mapping[str, str]) -> RecordsByPosition:
        return {
            at: Record(at.source, "known", at.offset, None, orjson.dumps(documents[at.offset]), 0) for at in positions
        }

    with Filter("seen", settings, source="known") as seen:
        seen.admit(documents)

        def reports(id_: str, with_texts: RecordsAt | None) -> Any:
            reply = Answers(seen, settings, with_texts).answer("texts", id_.encode())
            return orjson.loads(reply.body)["decisions"][0]["protected"]

        exact = {"set": "exam", "id": "q", "likeness": {"similarity": 1.0, "distance": None, "cosine": None}}
        assert reports("one", None) == [{**exact, "texts": None}]
        ((report),) = reports("one", records_at)
        assert {**report, "texts": None} == {**exact, "texts": None}
        assert [report["texts"][side]["spans"] for side in ("own", "other")] == [[["same", one["text"]]]] * 2
        # A copy that did not enter is known by its text alone.
        assert reports("copy", None) is None
        assert [each["id"] for each in reports("copy", records_at)] == ["q"]
        assert reports("short", None) == reports("short", records_at) == []
    with Filter("seen", settings.replaced(index={"protected": []}), source="known") as seen:
        assert reports("one", records_at) is None


@pytest.mark.parametrize(
    ("fault", "problems"),
    [
        ("none", []),
        ("missing", ["does not report"]),
        ("changed", ["reports 'other'"]),
        ("moved", ["does not report", "and resembles nothing there"]),
    ],
)
def test_verify_holds_the_reports_of_verdict_lines_against_the_sets(
    made: Path, fault: str, problems: list[str]
) -> None:
    assert run("protect", "pages.jsonl", "--out", "own", "--processes", 1).code == 0
    sets = "--protected", "evaluation", "--protected", "own"
    filtered(*sets)
    lines: list[dict[str, Any]] = verdicts("out")
    reported = next(line for line in lines if len(line.get("protected", [])) == 2)
    plain = next(line for line in lines if "protected" not in line)
    report = reported["protected"]
    if fault == "missing":
        del report[0]
    elif fault == "changed":
        report[0]["id"] = "other"
    elif fault == "moved":
        plain["protected"] = [report[0]]
        del reported["protected"]
    # The folder's checkpoint knows the length of the file.
    path = Path("out", "verdicts.jsonl")
    written = b"".join(orjson.dumps(line) + b"\n" for line in lines)
    path.write_bytes(written[:-1].ljust(path.stat().st_size - 1) + b"\n")
    done = run("verify", "--out", "out", *sets, "--json")
    found = {each["check"]: each["examples"] for each in orjson.loads(done.out)["checks"] if each["wrong"]}
    assert (done.code, list(found)) == ((1, ["protected"]) if problems else (0, []))
    for line, problem in zip((reported, plain), problems, strict=False):
        (example,) = (each for each in found["protected"] if each.startswith(f"pages.jsonl/0/{line['line'] - 1}: "))
        assert problem in example
        assert "of the protected set evaluation" in example
    assert len(found.get("protected", [])) == len(problems)
    # The negative control: without the sets nothing is compared, and their reports are counted by name.
    left = orjson.loads(run("verify", "--out", "out", "--json").out)
    assert left["sound"]
    assert sum(count for name, count in left["unchecked"].items() if "the protected set own" in name) > 30


def test_a_set_has_the_key_of_the_index_that_it_is_made_for(made: Path) -> None:
    secret = "--set", "fingerprint.key=secret"
    # Before there is an index: it takes over the set's key.
    assert run("protect", "questions.jsonl", "--out", "first", *secret).code == 0
    filtered("--protected", "first", *secret)
    # Later ones take over that of the index, or without one that of the other sets.
    for name, options in (("second", ()), ("third", ("--index", "none", "--set", 'index.protected=["first"]'))):
        assert run("protect", "questions.jsonl", "--out", name, *options, *secret).code == 0
        (made / "pages.jsonl").write_bytes((made / "pages.jsonl").read_bytes() + KEPT[0] + b"\n")
        filtered("--protected", "first", "--protected", name, *secret)
        assert [report["set"] for report in verdicts("out")[-1]["protected"]] == ["first", name]
    # One that was made for another index.
    assert run("protect", "questions.jsonl", "--out", "foreign", "--index", "none", *secret).code == 0
    told = filtered("--protected", "foreign", *secret, code=78)
    assert "fingerprint.key: stored" in told
    assert "streamer protect FILES --out FOLDER --index index-data" in told


@pytest.mark.parametrize(
    ("spoil", "options", "problem"),
    [
        (lambda _: None, ["--similarity", "0.8"], "minhash.similarity_min: stored 0.7, asked 0.6"),
        (
            lambda _: None,
            ["--scope", "/tenant"],
            "which never resemble each other, and must not be set with decode.scope",
        ),
        (lambda folder: (folder / "set.json").unlink(), [], "there is no protected set"),
    ],
)
def test_what_cannot_serve_stops_the_filter_before_it_decides(
    made: Path, spoil: Callable[[Path], None], options: list[str], problem: str
) -> None:
    spoil(made / "evaluation")
    options = ["--similarity", "0.6"] if "0.8" in options else options
    shown = filtered("--protected", "evaluation", *options, code=78)
    assert problem in " ".join(shown.split())
    assert not (made / "out").exists()


def test_an_empty_set_reports_nothing_and_lines_without_a_document_fail(made: Path) -> None:
    (made / "short.jsonl").write_text('{"id": "a", "text": ""}\n')
    assert run("protect", "short.jsonl", "--out", "empty").code == 0
    filtered("--protected", "empty")
    assert (made / "out" / "protected.jsonl").read_bytes() == b""
    (made / "broken.jsonl").write_text("no json\n")
    assert run("protect", "broken.jsonl", "--out", "broken").code == 65
    assert not (made / "broken").exists()


def test_a_scope_is_refused_where_a_set_is_made(made: Path) -> None:
    done = run("protect", "questions.jsonl", "--out", "scoped", "--scope", "/tenant")
    assert done.code == 78
    assert "decode.scope: a scope's documents resemble none of another's" in done.err
    assert not (made / "scoped").exists()
