"""Names of inputs by URL."""

from pathlib import Path

import pytest

from streamer.transports.files.formats import NotRead, kind_of, require_lines
from streamer.transports.files.remote import Remote, is_url, plain_url, reading_command, size_of


def remote(url: str, size: int | None = 1) -> Remote:
    return Remote(url, url, size, b"", "")


def test_a_name_with_two_slashes_after_its_scheme_is_a_url() -> None:
    assert [
        name for name in ("s3://a/b", "HTTPS://a/b", "file:///a", "s3:/a/b", "./s3://a", "a.jsonl") if is_url(name)
    ] == [
        "s3://a/b",
        "HTTPS://a/b",
        "file:///a",
    ]


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("https://a.example/p?AWSAccessKeyId=1&Signature=x", "https://a.example/p"),
        ("https://a.example/p?X-Goog-Signature=x&b=1", "https://a.example/p"),
        ("https://a.example/p?se=1&sig=x", "https://a.example/p"),
        ("https://a.example/p?token=x", "https://a.example/p"),
        ("https://a.example/p?design=1#part", "https://a.example/p?design=1"),
        ("s3://a/p?sig=x#1", "s3://a/p?sig=x#1"),
    ],
)
def test_a_signature_is_no_part_of_a_name(address: str, url: str) -> None:
    assert plain_url(address) == url


def test_the_suffix_is_that_of_the_path_and_not_of_the_query() -> None:
    assert kind_of(remote("https://a.example/crawl.warc.gz?download=true")) == ".warc"
    assert remote("https://a.example/a%20b.JSONL").name == "a b.JSONL"
    assert remote("s3://a/what?.jsonl").suffix == ".jsonl"
    assert remote("s3://a/x.wet.gz").suffixes == [".wet", ".gz"]


def test_a_refusal_has_a_command_that_fetches_the_object() -> None:
    with pytest.raises(NotRead, match=r"aws s3 cp 's3://a/b c\.csv' - \| python"):
        require_lines(b"a,b", remote("s3://a/b c.csv"), lambda _: True)
    with pytest.raises(NotRead, match=r"curl -fsS https://a/b\.tsv\.gz \| gzip -dc \| python"):
        require_lines(b"a,b", remote("https://a/b.tsv.gz"), lambda _: True)
    with pytest.raises(NotRead, match=r"unzip -p FILE \|"):
        require_lines(b"PK\x03\x04", remote("https://a/b.zip"), lambda _: True)
    assert reading_command(Path("a b")) == "cat 'a b'"


def test_a_size_that_no_server_says_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert [
        size_of(each) for each in (remote("s3://a/b", 7), remote("https://a/b", None), tmp_path / "a", Path("-"))
    ] == [
        *(7, 0, 3, 0),
    ]
