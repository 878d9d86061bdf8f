"""A value that no setting reads is named with what to do, and a text in another charset with the charset that reads it."""

import pytest

from index.entry import Source
from streamer.records.decode import DeadLetter, Decoder, Document
from streamer.records.forms.hints import charset_hint, name_of
from streamer.records.record import Record
from streamer.settings.settings import Decode


def decoded(value: bytes, charset: str = "utf-8") -> Document | DeadLetter:
    record = Record(Source("stream", 0), "documents", 7, None, value, 0)
    return Decoder(Decode(charset=charset)).decode([record])[0]


def dead_letter(value: bytes) -> DeadLetter:
    found = decoded(value)
    assert isinstance(found, DeadLetter)
    return found


@pytest.mark.parametrize(
    ("charset", "text", "named"),
    [
        ("shift_jis", "船は毎朝七時に港を出て、夕方に島から戻ってきます。", "Japanese in decode.charset = shift_jis"),
        ("cp932", "①船は毎朝七時に港を出て、夕方に島から戻ってきます。", "Japanese in decode.charset = cp932"),
        ("euc_jp", "船は毎朝七時に港を出て、夕方に島から戻ってきます。", "Japanese in decode.charset = euc_jp"),
        ("euc_kr", "배는 매일 아침 일곱 시에 항구를 떠나 저녁에 돌아옵니다.", "Korean in decode.charset = euc_kr"),
        ("cp949", "펲은 매일 아침 일곱 시에 항구를 떠나 저녁에 돌아옵니다.", "Korean in decode.charset = cp949"),
        ("big5", "漁民們把網撒向海面,每天早上七點出發,傍晚從島上回來。", "Chinese in decode.charset = big5"),
        ("gbk", "渔民们把网撒向海面,每天早上七点出发,傍晚从岛上回来。", "Chinese in decode.charset = gb18030"),
    ],
)
def test_a_text_in_a_charset_of_east_asia_is_sent_to_that_charset_which_reads_it(
    charset: str, text: str, named: str
) -> None:
    for value in (text, f'{{"text": "{text}"}}', f'{{"text": "{text * 400}"}}'):
        assert dead_letter(value.encode(charset)).detail.endswith(named)
    value = f'{{"text": "{text}"}}'.encode(charset)
    found = decoded(value, named.rpartition(" ")[2])
    assert isinstance(found, Document)
    assert found.text == text


@pytest.mark.parametrize("charset", ["latin-1", "cp1251", "koi8-r", "iso8859-7", "cp1256", "cp874"])
def test_a_text_in_a_charset_of_the_west_is_sent_nowhere(charset: str) -> None:
    text = "Crème brûlée ПАРОХОД уходит Το πλοίο φεύγει العربية لغة جميلة ภาษาไทย".encode(charset, "ignore")
    assert "decode.charset" not in dead_letter(text).detail


@pytest.mark.parametrize("charset", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"])
def test_utf_16_and_32_are_named_and_sent_to_no_setting_that_refuses_them(charset: str) -> None:
    value = '{"text": "harbour"}'.encode(charset)
    # The half of a line feed stays before the next line of a file.
    for each in (value, *([b"\0" + value, value[:-1]] if charset == "utf-16-le" else [])):
        detail = dead_letter(each).detail
        assert f"this is UTF-{charset[4:6]}" in detail
        assert "iconv" in detail
        assert "decode" not in detail


@pytest.mark.parametrize(
    "value", [b"\0", b"\0" * 4_096, b'{"text": "a"}' + b"\0" * 100, b"\0" * 100 + b'{"text": "a"}']
)
def test_zero_bytes_that_a_crash_left_are_no_wire_format(value: bytes) -> None:
    detail = dead_letter(value).detail
    assert "zero bytes" in detail
    assert "registry" not in detail


def test_the_wire_format_of_a_registry_is_named() -> None:
    assert "schema registry" in dead_letter(b"\0\0\x01\x86\xa1\x02a").detail


def test_a_hint_looks_at_no_more_than_a_values_beginning() -> None:
    text = "渔民们把网撒向海面" * 10_000
    assert "gb18030" in charset_hint(text.encode("gbk") + b"\xff\xff")
    assert name_of(b"a" * 10_000) is None
    assert name_of(b"") is None
