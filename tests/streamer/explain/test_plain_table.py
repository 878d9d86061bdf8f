"""Tables at a terminal of any width: no id is cut, folded while there is room, or read as markup."""

import ast
import io
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType
from rich.table import Table

import streamer
from index import Parameters
from index.tools import HostFrame
from streamer.doctor import report as doctor_report
from streamer.doctor.finding import Finding, State
from streamer.evaluation.calibration import Trial
from streamer.evaluation.report import Evaluation, trial_table
from streamer.evaluation.report import table as evaluation_table
from streamer.evaluation.scores import Scores, Truth
from streamer.explain.plain_table import PIPE_COLUMNS, PipeConsole, PlainTable
from streamer.give_back import report as give_back_report
from streamer.give_back.dead_letters import ReasonSummary
from streamer.give_back.give_back import Survey
from streamer.index_admin import tables, templates
from streamer.service import summary
from streamer.settings.settings import Settings
from streamer.verification.findings import Findings
from streamer.verification.report import report as verification_report
from streamer.what_if.report import report as what_if_report

ID = "https://site.example/a/long/page-1"
POSITION = "news/11/1234567890"
HOST = "pages.of-a-long-host.example"
STREAM = "0123456789abcdef0123456789abcdef"
WIDTHS = (80, 60, 40, 20)

SCORES = Scores(900, 9, 8, 7000)
PRECISION = "(0.981-0.995)"


def survey() -> RenderableType:
    found = Survey()
    found.hosts, found.originals = Counter({HOST: 1_234}), Counter({ID: 1_234})
    found.examples = [{"position": POSITION, "id": ID, "host": HOST, "original": f"{ID}0"}]
    return give_back_report.survey_table(found, dry_run=True)


def dead_letters() -> RenderableType:
    return give_back_report.summary_table({"no-text": ReasonSummary(1_234, 0, 10**12, 10**12, [POSITION])})


def statistics() -> RenderableType:
    source = {"name": HOST, "partition": 11, "applied": 1_234_567, "committed": 1_234_567, "stream": STREAM}
    return tables._sources({"sources": [source | {"time": "2026-01-31T18:00:00Z"}]})


def answers() -> RenderableType:
    match = {"similarity": 0.9876, "id": ID, "position": POSITION, "time": None}
    return tables.answer_table({"fingerprint": None, "kind": "near", "matches": [match]})


def index_findings() -> RenderableType:
    check = {"check": "segments", "examined": 1_234_567, "wrong": 1, "examples": [f"{ID} is in no segment at all"]}
    return tables.findings_table({"checks": [check], "sound": False})


def template_hosts() -> RenderableType:
    frame = HostFrame(HOST, 1_234, 0.5, True, 1_234)
    return templates.table(templates.as_values([frame]))


def doctor_findings() -> RenderableType:
    return doctor_report.table(
        [Finding("topics.input", f"{HOST} has no such topic", f"look at {HOST}", state=State.WRONG)]
    )


def totals() -> RenderableType:
    return summary.table(summary.Totals(records=7, seconds=1), Path("/data/crawls/of-november/filtered"))


def evaluations() -> RenderableType:
    parameters, truth = Parameters(bits=64, distance_max=3), Truth.__new__(Truth)
    return evaluation_table([Evaluation(HOST, "in force", parameters, None, truth, SCORES, 12.0, lower_bound=True)])


def trials() -> RenderableType:
    trial = Trial("simhash-of-the-classic-kind", Settings(), Parameters(bits=64, distance_max=3), SCORES, 12.0)
    return trial_table([trial], trial)


def what_if() -> RenderableType:
    group: Mapping[str, Any] = {"documents": 0, "hosts": [], "examples": [], "new": {}, "most_new": []}
    values = {"delivered": {"duplicate": 1_234}, "other": {"unique": 1_234}, "documents": 1_234_567}
    left = {"newly_dropped": group, "newly_kept": group, "other_originals": 0, "left_out": {}, "of_unknown_order": 0}
    sentences = {side: {"per_10_000": 12.3} for side in ("delivered", "other")}
    return what_if_report({**values, **left, "changed": 1, "sentences": sentences})


TABLES = {
    survey: (ID, POSITION, HOST),
    dead_letters: (POSITION, "2001-09-09T01:46:40.000Z"),
    statistics: (HOST, STREAM, "1,234,567", "2026-01-31T18:00:00Z"),
    answers: (ID, POSITION, "0.9876"),
    index_findings: (ID, "segments", "1,234,567"),
    template_hosts: (HOST, "1,234"),
    doctor_findings: (HOST, "topics.input"),
    totals: ("/data/crawls/of-november/filtered/unique.jsonl",),
    evaluations: (HOST, PRECISION),
    trials: ("simhash-of-the-classic-kind", PRECISION),
    what_if: ("duplicate", "unique", "1,234,567"),
    lambda: verification_report(Findings()): ("documents",),
}


def printed(table: RenderableType, width: int, *, soft_wrap: bool = False) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(table, soft_wrap=soft_wrap, highlight=False)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def is_whole(word: str, lines: list[str], width: int) -> bool:
    """Whether a line has the word; one that no line can hold, also among its pieces."""
    return any(word in line for line in lines) or (len(word) > width and word in "".join(lines))


@pytest.mark.parametrize("soft_wrap", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("made", TABLES, ids=lambda made: made.__name__)
def test_ids_positions_hosts_and_numbers_stay_whole_at_any_width(made: Any, width: int, soft_wrap: bool) -> None:
    lines = printed(made(), width, soft_wrap=soft_wrap)
    for word in TABLES[made]:
        assert is_whole(word, lines, width), (word, lines)
    assert "…" not in "".join(lines)
    if not soft_wrap:
        assert max(map(len, lines)) <= width


@pytest.mark.parametrize("made", TABLES, ids=lambda made: made.__name__)
def test_no_line_in_a_pipe_is_wider_than_its_bound_and_figures_stay_whole(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = [word for word in TABLES[made] if word not in (ID, HOST, STREAM) and len(word) < 20]
    for name, long in (("ID", f"{ID}{'/deeper' * 40}"), ("HOST", f"{'sub.' * 40}{HOST}"), ("STREAM", STREAM * 4)):
        monkeypatch.setitem(globals(), name, long)
    console = PipeConsole(file=io.StringIO(), width=PIPE_COLUMNS, color_system=None)
    console.print(made(), highlight=False)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= PIPE_COLUMNS
    for word in figures:
        assert any(word in line for line in lines), (word, lines)


@pytest.mark.parametrize("overflow", ["ellipsis", "fold"])
def test_a_usual_table_cuts_or_folds_them(overflow: Any) -> None:
    rows = Table("position", "id", box=None)
    for column in rows.columns:
        column.overflow = overflow
    rows.add_row(POSITION, ID)
    lines = printed(rows, 40)
    assert not all(is_whole(word, lines, 40) for word in (POSITION, ID))


def test_prose_folds_first_and_while_it_can_a_row_stays_a_row() -> None:
    rows = PlainTable("id", "wrong", "why", ids=("id",), right=("wrong",))
    rows.add_row(ID, "1,234", "so short that nobody reads it")
    needed = len(f"{ID}  1,234  nobody")
    _, first, *others = printed(rows, needed)
    assert first == f"{ID}  1,234  so"
    assert [line.strip() for line in others] == ["short", "that", "nobody", "reads", "it"]
    assert printed(rows, needed - 1) == [f"id  {ID}", "wrong  1,234", "why  so short that nobody reads it", ""]


def test_an_id_is_no_markup_no_emoji_and_no_command_to_the_terminal() -> None:
    rows = PlainTable("id", ids=("id",))
    for id_ in ("page[draft]", "urn:key:1", "[red]", "\x1b[2Jcleared", "left\u202eright"):
        rows.add_row(id_)
    assert printed(rows, 80)[1:] == ["page[draft]", "urn:key:1", "[red]", "\\x1b[2Jcleared", "left\\u202eright"]
    usual = Table("id", box=None)
    usual.add_row("page[draft]")
    assert "page[draft]" not in "".join(printed(usual, 80))


def test_every_table_of_the_program_is_a_plain_one_but_two_texts_side_by_side() -> None:
    package = Path(streamer.__file__).parent
    makers = set()
    for path in package.rglob("*.py"):
        calls = (node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call))
        if any(isinstance(call.func, ast.Name) and call.func.id == "Table" for call in calls):
            makers.add(path.relative_to(package).as_posix())
    # The table of what was delivered is one of SQLite.
    assert makers == {"explain/report.py", "delivered/table.py"}
