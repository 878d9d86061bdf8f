"""Text from anywhere, as a terminal may show it."""

import regex

_BLANK = regex.compile(r"\s+")
_HARMFUL = regex.compile(r"[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}]")


def printable(text: str) -> str:
    r"""The text on one line, in characters that are safe for a terminal.

    Control characters, lone surrogates and writing-direction marks become escapes such as \x1b.
    """
    return str(_HARMFUL.sub(_escape, _BLANK.sub(" ", text)))


def _escape(harmful: "regex.Match[str]") -> str:
    number = ord(harmful[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
