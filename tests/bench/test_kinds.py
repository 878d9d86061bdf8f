"""Copies that cross from one kind of file to another are found by the settings as shipped."""

from pathlib import Path

from bench.kinds import KINDS, Writer, measure
from streamer.text.markup.pages import Form, form_of


def test_copies_are_found_across_six_kinds_of_files_by_default(tmp_path: Path) -> None:
    figures = measure(300, [], tmp_path)
    assert len(list((tmp_path / "in").iterdir())) == len(KINDS) == 6
    assert figures["copies"] == 100
    assert figures["recall"] >= 0.95
    assert figures["recall_html_to_text"] >= 0.95
    assert figures["false_duplicates"] == 0


def test_the_bench_can_fail(tmp_path: Path) -> None:
    figures = measure(120, ["fingerprint.markup=none"], tmp_path)
    assert figures["recall_html_to_text"] < 0.5


def test_documents_are_of_the_kinds_that_they_say() -> None:
    writer = Writer(seed=1)
    documents = writer.documents(60)
    _, page = writer.page(documents[0])
    assert form_of(page) is Form.PAGE
    assert {each.kind for each in documents} == {*KINDS}
    assert sum(each.name != each.root for each in documents) == 20
