"""Answers on a terminal: side by side where it is wide, in colour where it has colours."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from index import EntryState
from index.entry import Kind, Position, Source, Verdict
from index.index import Decided
from streamer.explain.explanation import Answer, Explanation, Likeness, Link, Near, Rule, Side, Span, Texts
from streamer.explain.report import WIDE_COLUMNS, Report

AT = Position(Source("stream", 0), 4)
DECIDED = Decided("copy", AT, 1_700_000_000_123, Verdict.DUPLICATE, 0, Kind.NEAR, 3_000, "one", AT, None, 7)
TEXTS = Texts(
    Side(
        "copy",
        "news/0/4",
        "this one",
        "Its title",
        20,
        (Span("same", "a rose is "), Span("differing", "red"), Span("gap", " … ")),
    ),
    Side("one", "news/0/3", "original", "", 20, (Span("same", "a rose is "), Span("differing", "white "))),
    changes=9,
    hidden=3,
)
TOLD = Explanation(
    "copy",
    AT,
    "news/0/4",
    DECIDED.time_ms,
    DECIDED,
    "duplicate",
    "similar",
    "Dropped.",
    Likeness(0.7),
    "It is 0.7 similar.",
    (Rule("decode.text", "/text", "settings", "Where the text is."),),
    (
        Link("one", AT, "news/0/3", -1, DECIDED, "duplicate", "similar", Likeness(0.75), EntryState.COUNTS, ""),
        Link("root", AT, "news/0/1", -1, None, note="it has expired"),
    ),
    (Near("far", AT, "news/0/9", -1, Likeness(distance=1, cosine=0.5), "other", True, "not near enough"),),
    standing=EntryState.FORGOTTEN,
    notes=("A note.",),
    texts=TEXTS,
)


def printed(
    answer: Answer, width: int = 200, *, over_files: bool = False, colours: bool = False, meanings: bool = False
) -> str:
    console = Console(
        file=io.StringIO(), width=width, force_terminal=colours, color_system="standard" if colours else None
    )
    Report(console, over_files=over_files, meanings=meanings).print(answer)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_settings_are_named_in_one_line_and_explained_only_on_demand() -> None:
    several = replace(TOLD, rules=(*TOLD.rules, Rule("index.insert", "root", "index", "What enters.")))
    shown = printed(Answer("copy", [several]))
    assert "decode.text = /text (the settings in force), index.insert = root" in shown
    assert "What enters." not in shown
    told = printed(Answer("copy", [several]), meanings=True)
    assert "decode.text = /text (the settings in force)  Where the text is." in told
    assert "index.insert = root  What enters." in told


def test_all_that_is_known_is_shown() -> None:
    shown = printed(Answer("copy", [TOLD, TOLD], left_out=2))
    for words in (
        "copy  news/0/4  2023-11-14T22:13:20.123Z",
        "duplicate (similar)",
        "Dropped. It is 0.7 similar.",
        "one  news/0/3  duplicate (similar), 0.7500 similar to its own, still counts",
        "its original  root  news/0/1  it has expired",
        "counts no more",
        "decode.text = /text (the settings in force)",
        "1 bit apart, cosine 0.50  far  news/0/9  came later  not near enough",
        "A note.",
        "the words differ in 9 places, 3 of them not shown (--full)",
        "2 older decisions",
    ):
        assert words in shown
    assert shown.count("duplicate (similar)\n") == 2


@pytest.mark.parametrize("width", [WIDE_COLUMNS, WIDE_COLUMNS - 1])
def test_texts_stand_side_by_side_where_there_is_room(width: int) -> None:
    lines = printed(Answer("copy", [TOLD]), width).splitlines()
    beside = any("original" in line and "this one" in line for line in lines)
    assert beside == (width >= WIDE_COLUMNS)


def test_changes_are_coloured_or_marked() -> None:
    plain = printed(Answer("copy", [TOLD]))
    assert "a rose is [-white-]" in plain
    assert "a rose is {+red+}" in plain
    coloured = printed(Answer("copy", [TOLD]), colours=True)
    assert "\x1b[1;31mwhite" in coloured
    assert "\x1b[1;32mred" in coloured
    assert "[-" not in coloured


def test_lines_of_files_are_told_by_their_numbers() -> None:
    shown = printed(Answer("copy", [TOLD]), over_files=True)
    assert "news:5" in shown
    assert "news/0" not in shown


def test_what_is_missing_is_told() -> None:
    gone = replace(TOLD, near=None, texts=Texts(Side("copy", "news/0/4", missing="it is gone\x1b[2J")))
    shown = printed(Answer("copy", [gone]))
    assert r"cannot be shown: it is gone\x1b[2J" in shown
    assert "the index keeps no fingerprint of it" in shown
    assert "(empty)" in printed(Answer("copy", [replace(TOLD, texts=Texts(Side("copy", "news/0/4")))]))
    assert "the words are the same" in printed(
        Answer("copy", [replace(TOLD, texts=replace(TEXTS, changes=0, hidden=0))])
    )


def test_names_cannot_command_a_terminal() -> None:
    evil = replace(TOLD, id="\x1b[31m[bold]x[/bold]", where="\x9b/0/4", notes=("[red]n[/red]",))
    shown = printed(Answer("copy", [evil]))
    assert r"\x1b[31m[bold]x[/bold]  \x9b/0/4" in shown
    assert "[red]n[/red]" in shown


def test_what_is_no_original_is_called_what_it_is() -> None:
    older = replace(TOLD.chain[0], role="older version")
    near = (replace(TOLD.near[0], relation="original"), replace(TOLD.near[0], relation="member")) if TOLD.near else ()
    texts = replace(TEXTS, other=Side("one", "news/0/3", "older version"))
    shown = printed(Answer("copy", [replace(TOLD, chain=(older,), near=near, texts=texts)]))
    assert "older version  one  news/0/3" in shown
    assert "the older version" in shown
    assert "another duplicate of the older version" in shown
    assert "the original" not in shown
