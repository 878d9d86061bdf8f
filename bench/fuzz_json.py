"""JSON with numbers and strings as no careful writer writes them, for `bench.fuzz --of json`."""

import random

NUMBERS = (
    *("NaN", "-NaN", "nan", "Infinity", "-Infinity", "inf", "1e400", "-1e400", "1e-400", "1E+0400", "0e999999999"),
    *("-0", "-0.0", "01", "1.", ".5", "9" * 19, "9" * 20, "18446744073709551616", "9" * 400, "9" * 4_300, "9" * 4_301),
    *("340282366920938463463374607431768211455", "0." + "3" * 400, "20190101000000", "1546300800000000000"),
)
STRINGS = (
    *('"20190101000000"', '"2025年11月22日"', '"Sat Nov 22 10:00:00 2025"', '"\\u0000"', '"\ufffe"', '"\u2028"'),
    *('"\\ud83d"', '"\\ude00\\ud83d"', '"\\ud83d\\ude00"', '"\\x41"', '"\x01"', '"\\', '"\\u12'),
)
SHAPES = (
    *('{"$date":{"$numberLong":"1"}}', '{"$date":1e400}', '{"seconds":NaN}', "[2025,11,22]", "[NaN,[NaN]]"),
    *("null", "true", "{}", "[]", "tru"),
)

HOSTILE = (
    *("NaN,", "1e999,", "9", "0.3", "[", '{"a":', '"\\ud83d",', "\\", '"\\u', "-", "1e", " ", '"a":1,'),
    *("9" * 4_300 + ",", "Infinity "),
)
"""Pieces that take quadratic time where a parser is not careful."""

_FIELDS = ("id", "title", "time", "host", "tags", "score", "text", "text", "id", "\\ud83d", "$date")


def value(chance: random.Random, size: int) -> bytes:
    """A value with about so many bytes: an object whose fields are odd, or one piece without end within it."""
    if chance.random() < 0.3:
        return hostile(chance.choice(HOSTILE), size)
    fields = [
        f'"{chance.choice(_FIELDS)}":{chance.choice([*NUMBERS, *STRINGS, *SHAPES])}'
        for _ in range(max(1, min(size // 60, 200)))
    ]
    fields.append(f'"text":"{"text " * (size // 10)}"')
    chance.shuffle(fields)
    return ("{" + ",".join(fields) + chance.choice(["}", "}", "}", "", "}}", "}\0"])).encode()


def hostile(piece: str, size: int) -> bytes:
    """A value with about so many bytes, most of them one piece over and over."""
    return f'{{"id":99999999999999999999,"text":"a","x":[{piece * (size // len(piece))}0]}}'.encode()
