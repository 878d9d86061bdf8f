"""Counters and dates are left out of the substance of a text; facts never are."""

import time

import pytest

from streamer.text.characters import normalise
from streamer.text.substance import counters_and_dates

BODY = "王女士说，两人失踪，救援队正在寻找。"


def substance(passage: str, *, is_sentence: bool = False) -> str:
    text, at, parts = normalise(passage), 0, []
    for begin, end, word in counters_and_dates(text, is_sentence=is_sentence):
        parts += [text[at:begin], word]
        at = end
    return "".join([*parts, text[at:]])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("阅读 1204 次 2024-05-01", "阅读 33 次 2024-05-02"),
        ("阅读次数：1204 更新时间：2024-05-01 12:30", "阅读次数：5 更新时间：2024-06-11 2:30"),
        ("阅读(1204) 评论(33)", "阅读(1.2万) 评论(３４)"),
        ("2024年5月1日 星期三 10:20 来源：新华社 阅读：1204", "2024年5月2日 星期四 11:20 来源：新华社 阅读：2204"),
        ("张三 2024-05-01 阅读 1204", "张三 2024-05-02 阅读 1205"),
        ("1.2万人看过", "3人看过"),
        ("发布于 3小时前", "发布于 2天前"),
        ("By John Smith · 3 min read · 1,204 views", "By John Smith · 3 min read · 1.3k views"),
        ("Published on May 5, 2024 at 10:33 am", "Published on May 15, 2024 at 1:33 pm"),
        ("Views: 12 Updated: 2024-05-01", "Views: 13 Updated: 2024-05-02"),
        ("1 comment", "2 comments"),
        ("Aktualisiert am 12. Mai 2024 um 10:33", "Aktualisiert am 13. Mai 2024 um 11:05"),
        ("Posted 3 hours ago", "Posted 2 days ago"),
        ("12 просмотров", "19 просмотров"),
    ],
)
def test_a_line_of_counters_and_dates_has_the_same_substance_whatever_they_count(before: str, after: str) -> None:
    assert substance(before) == substance(after) != normalise(before)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("12 dead", "13 dead"),
        ("Price: $100", "Price: $90"),
        ("价格：100元", "价格：90元"),
        ("Final score 3:1", "Final score 3:2"),
        ("3:1", "3:2"),
        ("100 comments removed by moderators", "200 comments removed by moderators"),
        ("Moderators removed 100 comments", "Moderators removed 200 comments"),
        ("Concert on May 12, 2024", "Concert on May 13, 2024"),
        ("Deadline: 2024-05-01", "Deadline: 2024-05-02"),
        ("42", "43"),
        ("Views of 3 experts", "Views of 4 experts"),
    ],
)
def test_a_fact_in_a_short_line_belongs_to_the_substance(before: str, after: str) -> None:
    assert substance(before) != substance(after)


@pytest.mark.parametrize(
    "sentence",
    [
        "The post got 100 comments, 200 likes and 3 shares.",
        "该视频已被观看 1000 次。",
        "The bridge was opened on May 12, 2024.",
        "When asked, 1,204 readers said yes!",
    ],
)
def test_nothing_is_left_out_of_a_sentence(sentence: str) -> None:
    assert substance(sentence, is_sentence=True) == normalise(sentence)


def test_a_sentence_that_says_nothing_else_is_left_out() -> None:
    assert substance("Read 123 times.", is_sentence=True) == substance("Read 124 times.", is_sentence=True)


def test_a_passage_of_digits_takes_time_in_proportion_to_its_length() -> None:
    """A bound that is generous: a quadratic search takes 64 times as long for 8 times the length."""

    def seconds(length: int) -> float:
        passages = ["1" * length, "1 " * (length // 2), "2024-05-" * (length // 8), "views " * (length // 6)]
        began = time.process_time()
        for passage in passages * 20:
            counters_and_dates(passage, is_sentence=False)
        return time.process_time() - began

    seconds(64)
    assert seconds(8 * 128) < 32 * max(seconds(128), 0.001)
