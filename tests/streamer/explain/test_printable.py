"""Texts that a terminal may show, whatever is in them."""

from streamer.explain.printable import printable


def test_escapes_say_what_stood_there() -> None:
    assert printable("a\x1b[31m\x9b\u202eb\ud800\r\nc\0") == r"a\x1b[31m\x9b\u202eb\ud800 c\x00"
