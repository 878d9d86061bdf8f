"""Documents of files: in order, without other lines, and bounded in number."""

from pathlib import Path

import pytest

from streamer.errors import NoDocuments
from streamer.evaluation import sample
from streamer.evaluation.sample import read_documents
from streamer.settings.settings import Decode

LINES = [b'{"id": "a", "title": "t", "text": "one"}', b"broken", b'{"text": "two"}', b'{"id": "c", "text": "three"}']


@pytest.mark.parametrize("batch", [1, 2, 1_000])
@pytest.mark.parametrize(("count_max", "expected"), [(None, 6), (1, 1), (3, 3), (4, 4), (100, 6)])
def test_documents_come_in_order_and_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int, count_max: int | None, expected: int
) -> None:
    monkeypatch.setattr(sample, "BATCH_DOCUMENTS", batch)
    files = [tmp_path / "one.jsonl", tmp_path / "other.jsonl"]
    for file in files:
        file.write_bytes(b"\n".join(LINES))
    batches = list(read_documents(files, Decode(), count_max))
    assert [document.text for found in batches for document in found] == (["one", "two", "three"] * 2)[:expected]
    assert all(batches)
    assert batches[0][0].title == "t"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            b'{"url": "u", "body": "b"}\n' * 3,
            r"3 of the first 3 .*\(no-text\).* the keys are: url, body. .* decode\.text",
        ),
        (b"", r"FILES are empty"),
    ],
)
def test_files_without_a_document_say_what_their_records_have(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "crawl.jsonl").write_bytes(content)
    with pytest.raises(NoDocuments, match=told):
        list(read_documents([tmp_path / "crawl.jsonl"], Decode()))
