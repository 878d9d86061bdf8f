"""The look at the first records: wrong input is named once, and so are documents without hosts where hosts are needed."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs

from streamer.records.decode import DeadLetter, Document
from streamer.records.first_look import DOCUMENTS, DOCUMENTS_MIN, RECORDS, MissingHosts, WrongInput
from streamer.records.reason import Reason
from streamer.settings.settings import Settings, needs_hosts
from tests.support.command_line import run
from tests.support.memory_service import World


def documents(count: int, host: str | None = None) -> list[Document | DeadLetter]:
    return [Document(str(number), "text", "", 0, host, ()) for number in range(count)]


def missing_hosts(**sections: Any) -> MissingHosts:
    settings = Settings.model_validate(sections)
    return MissingHosts(settings.decode, expected=needs_hosts(settings))


def warned(batches: list[list[Document | DeadLetter]], *, end: bool = False, **sections: Any) -> list[Any]:
    watched = missing_hosts(**sections)
    with capture_logs() as lines:
        for batch in batches:
            watched.see(batch)
        if end:
            watched.end()
    return list(lines)


def test_a_thousand_documents_without_a_host_are_warned_of_once_with_what_to_do() -> None:
    (line,) = warned([documents(DOCUMENTS - 1), documents(1), documents(DOCUMENTS)], end=True)
    assert (line["log_level"], line["documents"]) == ("warning", DOCUMENTS)
    assert "decode.host" in line["remedy"]
    assert 'decode.host_scope = "none"' in line["remedy"]


def test_plain_text_has_no_field_to_name() -> None:
    (line,) = warned([documents(DOCUMENTS)], decode={"format": "text"})
    assert line["remedy"] == 'If documents have none, set decode.host_scope = "none".'


def test_one_host_among_the_first_documents_is_enough() -> None:
    assert warned([documents(DOCUMENTS - 1), documents(1, "a.example"), documents(DOCUMENTS)], end=True) == []


def test_before_a_thousand_documents_only_the_end_of_the_input_says_something() -> None:
    assert warned([documents(DOCUMENTS - 1)]) == []
    assert len(warned([documents(DOCUMENTS - 1)], end=True)) == 1
    assert len(warned([documents(DOCUMENTS_MIN)], end=True)) == 1
    assert warned([documents(DOCUMENTS_MIN - 1)], end=True) == []


def test_records_that_are_no_documents_are_not_counted() -> None:
    assert warned([[DeadLetter(Reason.NOT_JSON, "", None)] * DOCUMENTS], end=True) == []


@pytest.mark.parametrize(
    "sections",
    [
        {"index": {"templates": False}},
        {"index": {"insert": "unique"}},
        {"fingerprint": {"scheme": "simhash"}},
        {"decode": {"host_scope": "none"}},
    ],
)
def test_where_no_hosts_are_needed_or_wanted_nothing_is_said(sections: dict[str, Any]) -> None:
    assert warned([documents(DOCUMENTS)], end=True, **sections) == []


def test_documents_without_a_host_are_counted_before_and_after_the_warning() -> None:
    watched = missing_hosts()
    with capture_logs():
        assert watched.see(documents(DOCUMENTS)) == DOCUMENTS
        assert watched.see([*documents(2), *documents(3, "a.example"), DeadLetter(Reason.NOT_JSON, "", None)]) == 2
    assert missing_hosts(decode={"host_scope": "none"}).see(documents(2)) == 0


def test_a_service_reports_them_batch_by_batch(tmp_path: Path) -> None:
    world = World(tmp_path, Settings.model_validate({"batch": {"records_max": 2}}))
    world.fill([b'{"text": "one"}', b'{"text": "two", "host": "a.example"}', b'{"text": "three"}'])
    world.run()
    assert world.without_host == [1, 1]


@pytest.mark.parametrize(("value", "lines"), [({}, 1), ({"url": "https://a.example/1"}, 0)])
def test_a_service_says_it_of_its_first_documents(tmp_path: Path, value: dict[str, str], lines: int) -> None:
    world = World(tmp_path)
    world.fill([orjson.dumps({"text": f"text {number}"} | value) for number in range(DOCUMENTS + 1)])
    with capture_logs() as logged:
        world.run()
    assert sum(line["event"].startswith("no document names a host") for line in logged) == lines


@pytest.mark.parametrize(("chosen", "is_said"), [("decode.format=text", True), ("decode.format=json", False)])
def test_a_check_of_the_settings_says_it_where_they_alone_tell(chosen: str, is_said: bool) -> None:
    done = run("--set", chosen, "config", "check")
    assert done.code == 0
    assert ("decode.host_scope" in done.err) is is_said


@pytest.mark.parametrize(("scope", "lines"), [("host", 1), ("none", 0)])
def test_a_run_over_files_says_it_at_the_end_of_a_short_input(tmp_path: Path, scope: str, lines: int) -> None:
    texts = [orjson.dumps({"text": f"text {number}"}) for number in range(DOCUMENTS_MIN)]
    (tmp_path / "texts.jsonl").write_bytes(b"\n".join(texts))
    folders = ("--out", tmp_path / "out", "--index", tmp_path / "index")
    done = run("--set", f"decode.host_scope={scope}", "filter", tmp_path / "texts.jsonl", *folders)
    assert done.code == 0, done.err
    assert done.err.count("decode.host") == 2 * lines


def dead(count: int, reason: Reason = Reason.NO_TEXT) -> list[Document | DeadLetter]:
    return [DeadLetter(reason, f"example {number}", None) for number in range(count)]


def complained(*batches: list[Document | DeadLetter], end: bool = False) -> list[str]:
    look = WrongInput()
    with capture_logs() as lines:
        for batch in batches:
            look.see(batch)
        if end:
            look.end()
    return [line["event"] for line in lines]


def test_nine_tenths_of_dead_letters_for_one_reason_are_warned_of_once_with_an_example_and_what_to_do() -> None:
    (line,) = complained(documents(100), dead(RECORDS - 100), dead(RECORDS), end=True)
    assert line.startswith("900 of the first 1,000 records are dead letters (no-text): example 0. ")
    assert "decode.text" in line


def test_fewer_dead_letters_are_no_wrong_input() -> None:
    assert complained(documents(101), dead(RECORDS - 101), end=True) == []


def test_several_reasons_are_all_named_with_an_example_and_what_to_do() -> None:
    (line,) = complained(dead(600), dead(300, Reason.NOT_JSON), dead(50, Reason.TOMBSTONE), documents(50), end=True)
    assert line == (
        "950 of the first 1,000 records are dead letters. 600 no-text: example 0. Name the field with the text in decode.text. "
        "300 not-json: example 0. Set decode.format to what the values are. 50 tombstone: example 0."
    )


def test_advice_in_the_example_is_not_contradicted_by_the_reasons_own() -> None:
    (line,) = complained([DeadLetter(Reason.NOT_JSON, "this is UTF-16: convert it to UTF-8", None)], end=True)
    assert line.endswith("(not-json): this is UTF-16: convert it to UTF-8.")


@pytest.mark.parametrize("reasons", [1, 3])
def test_a_file_without_a_document_says_every_reason_and_that_nothing_was_filtered(
    tmp_path: Path, reasons: int
) -> None:
    (tmp_path / "pages.jsonl").write_bytes(b"\n".join([b"{}", b"no json", b'{"text": 3}'][:reasons]) + b"\n")
    done = run("filter", tmp_path / "pages.jsonl", "--out", tmp_path / "out", "--index", tmp_path / "index")
    assert done.code != 0
    said = " ".join(done.err.split())
    assert all(label in said for label in ("no-text", "not-json", "text-not-string")[:reasons])
    assert ". Nothing was filtered" in said


@pytest.mark.parametrize("reason", [Reason.TOMBSTONE, Reason.UNREADABLE, Reason.POISON])
def test_records_that_no_setting_can_read_are_no_wrong_input(reason: Reason) -> None:
    assert complained(dead(RECORDS, reason), end=True) == []


def test_later_records_are_not_looked_at_and_a_short_input_is_at_its_end() -> None:
    assert complained(documents(RECORDS), dead(10 * RECORDS), end=True) == []
    assert complained(dead(3)) == []
    assert len(complained(dead(3), end=True)) == 1


@pytest.mark.parametrize(("key", "lines"), [("body", 1), ("text", 0)])
def test_a_service_names_wrong_input_and_goes_on(tmp_path: Path, key: str, lines: int) -> None:
    world = World(tmp_path)
    world.fill([orjson.dumps({key: f"text {number}", "host": "a.example"}) for number in range(RECORDS + 1)])
    with capture_logs() as logged:
        world.run()
    assert sum("the keys are: body" in line["event"] for line in logged) == lines
