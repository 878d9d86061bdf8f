from rich.console import Console

from streamer.doctor.finding import unchecked, wrong
from streamer.doctor.report import as_json, table

FINDINGS = [
    wrong("topic 'a[b]'", "is not there [yet]", "make it [soon]"),
    unchecked("clock", "no time"),
]


def test_the_table_shows_every_word_also_in_brackets() -> None:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(table(FINDINGS))
    shown = captured.get()
    for word in ("topic 'a[b]'", "wrong", "is not there [yet]", "make it [soon]", "not checked"):
        assert word in shown


def test_programs_get_the_same_with_the_exit_code() -> None:
    assert as_json(FINDINGS, 78) == {
        "exit_code": 78,
        "findings": [
            {"check": "topic 'a[b]'", "state": "wrong", "found": "is not there [yet]", "remedy": "make it [soon]"},
            {"check": "clock", "state": "not checked", "found": "no time", "remedy": ""},
        ],
    }
