"""Hosts: how they are read, and what counts as one."""

import subprocess
import sys

import pytest

from streamer.records.hosts import HOST_CHARACTERS_MAX, host_of, host_reader


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("https://Example.ORG./a", "example.org"),
        ("Example.org.", "example.org"),
        ("example.org:8080", "example.org"),
        ("example.org:8080/a", "example.org"),
        ("https://xn--fsqu00a.xn--fiqs8s/a", "例子.中国"),
        ("XN--FSQU00A.xn--fiqs8s", "例子.中国"),
        ("xn--.example", "xn--.example"),
        ("xn--a" + "é" + ".example", "xn--aé.example"),
        ("xn--" + "a" * HOST_CHARACTERS_MAX, "xn--" + "a" * HOST_CHARACTERS_MAX),
        ("192.0.2.7:80", "192.0.2.7"),
        ("2001:db8::1", "2001:db8::1"),
        ("Evening News: City", "evening news: city"),
        ("新华网", "新华网"),
        (".", None),
    ],
)
def test_a_host_has_one_name_however_it_is_written(value: str, expected: str | None) -> None:
    assert host_of(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("https://news.example.co.uk/a", "example.co.uk"),
        ("WWW.Example.org.", "example.org"),
        ("www.example.org:8080", "example.org"),
        ("https://www.食狮.公司.cn/", "食狮.公司.cn"),
        ("https://www.xn--85x722f.xn--55qx5d.cn/", "食狮.公司.cn"),
        ("https://one.github.io/a", "one.github.io"),
        ("https://two.pages.one.github.io/a", "one.github.io"),
        ("https://github.io/", "github.io"),
        ("co.uk", "co.uk"),
        ("a.b.of-no-list", "b.of-no-list"),
        ("localhost", "localhost"),
        ("http://192.0.2.7/a", "192.0.2.7"),
        ("http://[2001:db8::1]/a", "2001:db8::1"),
        ("a..example.org", "a..example.org"),
        ("新华网", "新华网"),
        ("", None),
        (7, None),
        ("http://[broken/", None),
    ],
)
def test_a_registrable_domain_stands_for_all_hosts_below_it(value: object, expected: str | None) -> None:
    assert host_reader("registrable-domain")(value) == expected


def test_without_a_scope_no_document_has_a_host() -> None:
    assert host_reader("none")("https://example.org/") is None


def test_the_list_of_suffixes_is_read_only_where_a_setting_asks_for_it() -> None:
    program = (
        "import sys; from streamer.records.decode import Decoder; from streamer.settings.settings import Decode; "
        "Decoder(Decode()); assert 'publicsuffixlist' not in sys.modules; "
        "Decoder(Decode(host_scope='registrable-domain')); assert 'publicsuffixlist' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_no_list_is_asked_for_over_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the network is used")

    monkeypatch.setattr("socket.socket.connect", refuse)
    assert host_reader("registrable-domain")("a.b.example.org") == "example.org"
