import time

import pytest
import webencodings

from streamer.records.charsets import NoCharset, decoded, guessed, name_of, page_text

CHINESE = "渔民们每天清晨出海，中午之前回到港口，把鱼卖给岸边的小店。"
TEXTS = {
    "gb18030": CHINESE,
    "big5": "漁民們每天清晨出海，中午之前回到港口，把魚賣給岸邊的小店。",
    "shift_jis": "渡し船は毎朝九時に港を出発します。切符は窓口で買うことができます。",
    "euc-jp": "渡し船は毎朝九時に港を出発します。切符は窓口で買うことができます。",
    "iso-2022-jp": "渡し船は毎朝九時に港を出発します。",
    "euc-kr": "여객선은 매일 아침 아홉 시에 항구를 출발합니다.",
    "windows-1251": "Паром отходит от пристани каждое утро в девять часов. Билеты продаются в кассе.",
    "koi8-r": "Паром отходит от пристани каждое утро в девять часов. Билеты продаются в кассе.",
}
LATIN = "Le ferry quitte le port chaque matin à neuf heures, et les élèves paient moitié prix l'été."
LABELS = (
    "x-gbk gb_2312 csgb2312 cn-big5 x-x-big5 x-euc-jp windows-949 koi8 unicode11utf8 x-sjis ks_c_5601-1987 x-cp1251"
)
NO_LABELS = (
    "zlib base64 hex bz2 rot13 uu quopri idna undefined unicode_escape raw_unicode_escape punycode utf-7 utf-32 mbcs"
)


def page(text: str, charset: str, head: str = "") -> bytes:
    return f"<html><head>{head}</head><body><p>{text}</p></body></html>".encode(charset)


@pytest.mark.parametrize("label", LABELS.split())
def test_labels_that_browsers_know_are_charsets(label: str) -> None:
    assert name_of(label) is not None
    body = f"<meta charset={label}>" + "\u20ac"
    assert page_text(body.encode(), "text/html", is_markup=True)


@pytest.mark.parametrize("label", NO_LABELS.split())
def test_codecs_that_are_no_charsets_are_not_looked_up(label: str) -> None:
    assert name_of(label) is None
    for content_type, head in ((f"text/html; charset={label}", ""), ("text/html", f"<meta charset={label}>")):
        body = page(CHINESE, "utf-8", head)
        begin = time.process_time()
        assert page_text(body + b"x-" * 50_000, content_type, is_markup=True).startswith(body.decode())
        assert time.process_time() - begin < 1


def test_every_charset_of_the_standard_decodes_any_bytes() -> None:
    for label in webencodings.LABELS:
        name = name_of(label)
        assert name is not None
        if name == "replacement":
            with pytest.raises(NoCharset):
                decoded(b"a", name)
        else:
            assert isinstance(decoded(bytes(range(256)) * 3, name), str)


@pytest.mark.parametrize("charset", sorted(TEXTS))
@pytest.mark.parametrize(
    ("content_type", "head"),
    [
        ("text/html", ""),
        ("text/html; charset=ISO-8859-1", ""),
        ("text/html; charset=windows-1252", "<meta charset=iso-8859-1>"),
        ("text/html", "<meta http-equiv=content-type content='text/html; charset=us-ascii'>"),
    ],
)
def test_other_scripts_are_found_without_a_declaration_and_under_that_of_servers(
    charset: str, content_type: str, head: str
) -> None:
    body = page(TEXTS[charset], charset, head)
    assert page_text(body, content_type, is_markup=True) == body.decode(charset)
    assert page_text(page(LATIN, "cp1252", head), content_type, is_markup=True) == page(LATIN, "utf-8", head).decode()


@pytest.mark.parametrize("charset", sorted({*TEXTS} - {"iso-2022-jp"}))
@pytest.mark.parametrize("content_type", ["text/html", "text/html; charset=latin1"])
def test_a_declaration_counts_wherever_it_stands_if_the_page_can_be_read_by_it(charset: str, content_type: str) -> None:
    head = "<!-- " + "x" * 6_000 + f" --><meta charset={charset}>"
    body = page(TEXTS[charset], charset, head)
    assert page_text(body, content_type, is_markup=True) == body.decode(charset)
    wrong = page(TEXTS[charset], "utf-8", head)
    assert page_text(wrong, content_type, is_markup=True) == wrong.decode()


def test_a_comment_a_script_and_the_body_declare_nothing() -> None:
    for head in ("<!-- <meta charset=koi8-r> -->", "<title>a</title></head><body><meta charset=koi8-r>"):
        body = page(CHINESE, "utf-8", head)
        assert page_text(body, "text/html", is_markup=True) == body.decode()
    sample = b"<meta charset=big5>" + CHINESE.encode()
    assert page_text(sample, "text/plain", is_markup=False) == sample.decode()


def test_utf_8_that_is_cut_within_a_letter_is_utf_8() -> None:
    assert page_text(CHINESE.encode()[:-2], "text/html", is_markup=True) == CHINESE[:-1] + "\ufffd"


def test_the_standard_says_what_pages_mean_that_declare_utf_16_or_x_user_defined() -> None:
    assert page_text(page(CHINESE, "utf-8", "<meta charset=utf-16>"), None, is_markup=True).count(CHINESE) == 1
    assert page_text(b"<meta charset=x-user-defined>\xe9", None, is_markup=True)[-1] == "é"
    assert page_text("é".encode("utf-16-le"), "text/html; charset=utf-16", is_markup=True) == "é"
    with pytest.raises(NoCharset, match="hz-gb-2312"):
        page_text(b"a", "text/html; charset=hz-gb-2312", is_markup=True)


def test_a_parameter_is_a_charset_only_by_its_name() -> None:
    body = CHINESE.encode("gbk")
    for content_type in (
        'text/html; x="; charset=big5"; charset=gbk',
        'text/html; Charset = "gbk"',
        "text/html;;charset='gbk'",
    ):
        assert page_text(body, content_type, is_markup=True) == CHINESE


@pytest.mark.parametrize(
    "piece",
    [
        b"<meta ",
        b"<meta a='",
        b'<meta content="charset= ',
        b"<!--",
        b"<?xml encoding ",
        b"\x80",
        b"\x1b$",
        b"<meta =",
        b"\xe9<",
    ],
)
def test_declarations_and_guesses_take_time_as_the_page_is_long(piece: bytes) -> None:
    took = []
    for size in (100_000, 800_000):
        body = piece * (size // len(piece))
        begin = time.process_time()
        page_text(body, "text/html; charset=latin1", is_markup=True)
        page_text(b"x", (";" + piece.decode("latin-1")) * (size // len(piece) // 4), is_markup=True)
        took.append(time.process_time() - begin)
    assert took[1] < 20 * took[0] + 0.5


@pytest.mark.parametrize("charset", sorted({*TEXTS} - {"iso-2022-jp"}))
def test_the_detector_guesses_what_is_no_utf_8(charset: str) -> None:
    assert decoded(TEXTS[charset].encode(charset), guessed(TEXTS[charset].encode(charset))) == TEXTS[charset]
