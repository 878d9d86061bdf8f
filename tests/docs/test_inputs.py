"""The settings of docs/inputs.md read the records that stand beneath them."""

import re
import tomllib
from pathlib import Path

import orjson
import pytest

from index import Source
from streamer.records.decode import Decoder, Document
from streamer.records.record import Record
from streamer.settings.settings import load
from streamer.transports.files.line_reader import lines
from tests.support.paths import ROOT
from tests.support.web_archives import Archive

PAGE = (ROOT / "docs" / "inputs.md").read_text(encoding="utf-8")
RECIPES = {
    name: (settings, record)
    for name, settings, record in re.findall(
        r"^### ([\w-]+)\n(?:(?!^#).*\n)*?```toml\n((?:.*\n)*?)```\n\n```json\n(.*)\n```", PAGE, re.MULTILINE
    )
}
TIME_MS = 1_795_341_600_000

WANTED = {
    "scrapy-cluster": ("https://a.example/1", "", TIME_MS + 251, "a.example"),
    "Nutch": ("https://a.example/1", "Ferry", TIME_MS, "a.example"),
    "StormCrawler": ("https://a.example/1", "Ferry", 0, "a.example"),
}


def decoded(file: Path, value: bytes) -> Document:
    (document,) = Decoder(load(file, environment={}).decode).decode([Record(Source("s", 0), "t", 0, None, value, 0)])
    assert isinstance(document, Document)
    return document


@pytest.mark.parametrize("name", sorted(WANTED))
def test_the_settings_of_a_recipe_read_the_record_beneath_them(tmp_path: Path, name: str) -> None:
    settings, record = RECIPES[name]
    (tmp_path / "service.toml").write_text(settings)
    found = decoded(tmp_path / "service.toml", record.encode())
    assert "The ferry leaves at nine." in found.text
    assert (found.id, found.title, found.time_ms, found.host) == WANTED[name]


def test_every_recipe_is_tested() -> None:
    assert set(RECIPES) == set(WANTED)


def test_the_settings_for_avro_hold_together(tmp_path: Path) -> None:
    (told,) = (block for block in re.findall(r"```toml\n((?:.*\n)*?)```", PAGE) if "registry_url" in block)
    (tmp_path / "service.toml").write_text(told)
    assert load(tmp_path / "service.toml", environment={}).decode.format == tomllib.loads(told)["decode"]["format"]


def test_a_page_of_an_archive_has_the_members_of_the_line_that_is_shown(tmp_path: Path) -> None:
    archive = Archive()
    archive.page("https://a.example/1", "<html>...</html>", charset="gb2312")
    (tmp_path / "crawl").write_bytes(archive.plain)
    (line,) = map(orjson.loads, lines(tmp_path / "crawl"))
    (shown,) = (orjson.loads(block) for block in re.findall(r"```json\n(.*)\n```", PAGE) if "urn:uuid" in block)
    assert line | {"id": ""} == shown | {"id": ""}


def test_a_page_that_stormcrawler_stored_is_read(tmp_path: Path) -> None:
    """Its bolt writes the type and the length before all else, and hides the headers of codings that it has undone."""
    body = "<html>渡轮</html>".encode()
    http = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nX-Crawler-Content-Encoding: gzip\r\n"
        b"X-Crawler-Content-Length: 12\r\nContent-Length: %d\r\nX-Crawler-Transfer-Encoding: chunked\r\n\r\n"
        % len(body)
    )
    record = (
        b"WARC/1.0\r\nWARC-Record-ID: <urn:uuid:1>\r\nContent-Length: %d\r\nWARC-Date: 2026-11-22T10:00:00Z\r\n"
        b"WARC-Type: response\r\nWARC-IP-Address: 127.0.0.1\r\nWARC-Target-URI: https://a.example/1\r\n"
        b"Content-Type: application/http; msgtype=response\r\nWARC-Truncated: length\r\n\r\n" % (len(http) + len(body))
    )
    (tmp_path / "crawl.warc").write_bytes(record + http + body + b"\r\n\r\n")
    (line,) = map(orjson.loads, lines(tmp_path / "crawl.warc"))
    assert (line["text"], line["truncated"], line["url"]) == (body.decode(), "length", "https://a.example/1")
