"""The check of the page tells what is wrong with it; `make page-check` runs it in a real Chromium."""

import html
import urllib.request

import pytest

from deploy.page_check import HOSTILE, POSITION, made_up_service, problems

WORDS = html.escape(HOSTILE)
ROWS = "<tr></tr>" * 6
SPANS = "<span>0</span><span>1</span><span>2</span>"
AXES = f"<div class=axes><div>{SPANS}</div><div><i></i>{SPANS}</div></div>"
SOUND = f"""<html lang=en><title>Near-duplicate filter</title><body data-shown=yes><div id=tiles>{"<b>1</b>" * 8}
recall, last day: 95.0 to 98.7 % precision, in all: 95.0 to 98.7 %</div>
<svg id=curve>{"<polyline />" * 3}</svg><table id=thresholds><td>0.70 in force</table><table id=doubtful><td>{WORDS}</table>
<svg id=chart>{"<rect></rect>" * 200}</svg>{AXES * 3}
<svg id=day>{"<rect />" * 200}</svg><table id=verdicts>{ROWS}</table><table id=hosts><tr><td>{WORDS}</table>
<table id=stories><tr><td>{WORDS}{WORDS}<td>47<td>50</table>
<table id=pairs><tr><td>{WORDS}<a href="#why=documents%2F0%2F17">why</a><mark>{WORDS}</mark><mark>{WORDS}</mark></table>
<div id=found>{WORDS} resembles {WORDS} of the protected set {WORDS}: 91.0 %</div><script></script>"""


def test_a_sound_page_has_no_problems() -> None:
    assert problems(SOUND, "[1:2] nothing of note") == []


@pytest.mark.parametrize(
    ("sound", "broken", "problem"),
    [
        (" data-shown=yes", "", "the page did not finish"),
        ("lang=en", "lang=zh-CN", "it speaks another language"),
        ("<b>1</b>", "<p>1</p>", "the tiles are missing"),
        ("recall, last day", "recall, in all", "the audit's tiles are missing"),
        ("<polyline />", "<line />", "the audit's curve is missing"),
        ("0.70 in force", "0.70", "the threshold in force is missing"),
        (f"<table id=doubtful><td>{WORDS}", "<table id=doubtful>", "the doubtful verdict is missing"),
        ("<rect>", "<path>", "the chart is empty"),
        ("<rect />", "<path />", "the day is empty"),
        ("<div><span>0", "<div><b>0", "the charts have no axes"),
        ("<b>1</b>", "<b>NaN</b>", "a number is none"),
        (f"<mark>{WORDS}</mark>", "", "differing words are not marked"),
        (f"<div id=found>{WORDS}", f"<div id=found>{HOSTILE}", "words became markup"),
        ("<title>Near-duplicate filter", "<title>struck", "a script of a document ran"),
        ("<td>47<td>50", "", "the story is missing"),
        ("of the protected set", "of the set", "what it resembles in a protected set is missing"),
        ("#why=documents", "/documents", "the link to why is missing"),
    ],
)
def test_what_is_wrong_with_a_page_is_told(sound: str, broken: str, problem: str) -> None:
    assert sound in SOUND
    assert problem in problems(SOUND.replace(sound, broken), "")


def test_the_page_in_chinese_is_held_against_chinese_words() -> None:
    assert "the audit's tiles are missing" in problems(SOUND, "", "zh")
    chinese = {
        "lang=en": "lang=zh-CN",
        "Near-duplicate filter": "近似重复过滤器",
        "recall, last day: 95.0 to 98.7 % precision, in all: 95.0 to 98.7 %": (
            "召回率，最近一天：95.0 至 98.7 % 精确率，全部样本：95.0 至 98.7 %"
        ),
        "0.70 in force": "0.70 当前",
        f"resembles {WORDS} of the protected set {WORDS}: ": f"与受保护集合 {WORDS} 中的 {WORDS} 相似：",
    }
    page = SOUND
    for english, word in chinese.items():
        page = page.replace(english, word)
    assert problems(page, "", "zh") == []


def test_what_the_console_says_is_a_problem() -> None:
    line = "[1122/1:INFO:CONSOLE:1] Refused to execute inline script"
    assert problems(SOUND, line) == [line]


def test_the_made_up_service_shows_the_page_of_the_real_one() -> None:
    with made_up_service() as target:
        assert b'id="pairs"' in urllib.request.urlopen(f"http://{target}/", timeout=5).read()
        told = urllib.request.urlopen(f"http://{target}/v1/documents/{POSITION.replace('/', '%2F')}", timeout=5).read()
    assert HOSTILE[:20].encode() in told
