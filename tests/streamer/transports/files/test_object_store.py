"""Inputs in an S3 store, with a server on this machine."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow
import pyarrow.parquet
import pytest

from streamer.errors import InputUnreadable
from streamer.transports.files import store
from streamer.transports.files.expand import NoInput, input_files, remote_files
from streamer.transports.files.line_reader import lines
from tests.support.distant_files import breaking_line, content_of, filtered, pages, store_of_objects
from tests.support.web_archives import Archive


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with store_of_objects() as endpoint:
        yield endpoint


@pytest.fixture
def client(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    import boto3
    import fsspec

    monkeypatch.setattr(store, "PAUSES", (0.01,) * 5)
    for name, value in {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    client = boto3.client("s3")
    client.create_bucket(Bucket="corpora")
    yield client
    for each in client.list_objects_v2(Bucket="corpora").get("Contents", ()):
        client.delete_object(Bucket="corpora", Key=each["Key"])
    client.close()
    fsspec.filesystem("s3").clear_instance_cache()


def put(client: Any, key: str, body: bytes = b"{}\n") -> str:
    client.put_object(Bucket="corpora", Key=key, Body=body)
    return f"s3://corpora/{key}"


KEYS = (
    *("a.jsonl", "b/c.jsonl.gz", "b/d/e.parquet", "_1.jsonl", "odd[1].jsonl", "b/\u00e9 ?&#%.json"),
    *("_SUCCESS", ".hidden/x.jsonl", "_temporary/0/y.jsonl", "table/metadata/v1.metadata.json", "table/data/z.parquet"),
)


@pytest.mark.parametrize(
    "given", ["", "/", "/*", "/**/*.jsonl", "/**", "/b/*", "/[ab]*", "/_temporary/*/*", "/b", "/table"]
)
def test_a_url_means_what_the_same_name_means_here(client: Any, tmp_path: Path, given: str) -> None:
    for key in KEYS:
        path = tmp_path / "crawl" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"{}\n")
        put(client, f"crawl/{key}")
    put(client, "crawl/b/", b"")
    put(client, "crawl-2/a.jsonl")
    expected = [str(path.relative_to(tmp_path)) for path in input_files(Path(f"{tmp_path}/crawl{given}"))]
    assert [
        str(remote).removeprefix("s3://corpora/") for remote in remote_files(f"s3://corpora/crawl{given}")
    ] == expected


def test_a_key_that_is_there_is_no_pattern(client: Any) -> None:
    url = put(client, "odd[1]*.jsonl")
    put(client, "odd1.jsonl")
    assert [*map(str, remote_files(url))] == [url]


def test_what_is_not_there_is_named(client: Any) -> None:
    put(client, "crawl/readme.md")
    for url in ("s3://corpora/no.jsonl", "s3://nothing/a.jsonl"):
        with pytest.raises(NoInput, match=f"{url}: there is no such object"):
            remote_files(url)
    with pytest.raises(NoInput, match="no object there is a file"):
        remote_files("s3://corpora/no*")
    with pytest.raises(NoInput, match=r"no inputs, by their names: s3://corpora/crawl/readme\.md"):
        remote_files("s3://corpora/crawl")


def test_without_credentials_the_message_says_which_are_wanted(
    client: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with pytest.raises(
        InputUnreadable, match=r"s3://corpora/a: may not be read \(Unable to locate credentials\)\. Set AWS_"
    ):
        remote_files("s3://corpora/a")


def test_a_line_that_breaks_loses_and_doubles_nothing(
    client: Any, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = pages(12_000)
    url = put(client, "a.jsonl", content)
    with breaking_line(urlsplit(endpoint).port or 0, 900_000, breaks_max=8) as line:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{line.port}")
        (remote,) = remote_files(url)
        assert content_of(remote) == content
        assert line.breaks == 8


def test_a_run_goes_on_over_a_line_that_broke_for_good(
    client: Any, endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import fsspec

    content = pages(9_000)
    (tmp_path / "a.jsonl").write_bytes(content)
    _, _, local = filtered(tmp_path / "local", tmp_path / "a.jsonl")
    put(client, "crawl/a.jsonl", content)
    # The client has patience of its own.
    monkeypatch.setattr("s3fs.S3FileSystem.retries", 1)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with breaking_line(urlsplit(endpoint).port or 0, 1_500_000, breaks_max=1, then_holds=False) as line:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{line.port}")
        code, error, before = filtered(tmp_path / "far", "s3://corpora/crawl/*.jsonl")
    assert code == 75
    assert "s3://corpora/crawl/a.jsonl: the connection broke" in error
    assert 0 < len(before["verdicts.jsonl"].splitlines()) < 9_000
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    fsspec.filesystem("s3").clear_instance_cache()
    code, _, after = filtered(tmp_path / "far", "s3://corpora/crawl/*.jsonl")
    assert code == 0
    assert after["unique.jsonl"] == local["unique.jsonl"]
    assert after["duplicate.jsonl"] == local["duplicate.jsonl"]


@pytest.mark.parametrize("kind", ["jsonl.gz", "parquet", "warc", "warc.gz", "warc.zst"])
def test_other_kinds_come_as_from_files(client: Any, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    if kind == "parquet":
        rows = {"id": [*map(str, range(30_000))], "text": [f"The ferry {at} leaves." * 20 for at in range(30_000)]}
        pyarrow.parquet.write_table(pyarrow.table(rows), path, row_group_size=4_000)
    elif kind.startswith("warc"):
        archive = Archive()
        for at in range(500):
            archive.page(f"https://a.example/{at}", f"<html><body><p>{'The ferry leaves. ' * 40}{at}</p></body></html>")
        path.write_bytes({"warc": archive.plain, "warc.gz": archive.members, "warc.zst": archive.frames}[kind])
    else:
        path.write_bytes(gzip.compress(pages(5_000)))
    (remote,) = remote_files(put(client, f"a.{kind}", path.read_bytes()))
    assert [*lines(remote)] == [*lines(path)]
