"""Charts: where points, bars and marks are drawn."""

import re

from streamer.evaluation.chart import Chart, at_equal_steps


def numbers(pattern: str, svg: str) -> list[float]:
    return [float(number) for match in re.findall(pattern, svg) for number in match]


def test_a_line_runs_from_the_base_line_on_the_left_to_the_top_on_the_right() -> None:
    chart = Chart("label")
    chart.line("recall", [(0, 0), (1, 1)])
    chart.marks_across([(0, "first"), (1, "last")])
    svg = chart.svg("caption")
    left, base, right, top = numbers(r"d='M([0-9.]+) ([0-9.]+) L([0-9.]+) ([0-9.]+)'", svg)
    assert left < right
    assert top < base
    assert [f"x='{place:.1f}'" in svg for place in (left, right)] == [True, True]
    assert f"M{left:.0f} {base:.0f}H{right:.0f}" in svg


def test_a_bar_stands_on_the_base_line_at_its_share_of_the_height() -> None:
    chart = Chart("label")
    chart.bars("duplicates", 0.25, [(0.5, 1.0, "whole"), (0.75, 0.5, "half")])
    whole, half = re.findall(r"x='([0-9.]+)' y='([0-9.]+)' width='([0-9.]+)' height='([0-9.]+)'", chart.svg("caption"))
    assert float(whole[0]) + float(whole[2]) == float(half[0])
    assert float(whole[1]) + float(whole[3]) == float(half[1]) + float(half[3])
    assert float(whole[3]) == 2 * float(half[3])


def test_every_series_has_a_colour_and_its_name_in_it() -> None:
    chart = Chart("label")
    chart.dots("one", [(0, 0, "title of a dot")])
    chart.line("other", at_equal_steps([0.5, 1]))
    svg = chart.svg("caption")
    colours = re.findall(r"fill='(#[0-9a-f]{6})'>(one|other)<", svg)
    assert [name for _, name in colours] == ["one", "other"]
    assert len({colour for colour, _ in colours}) == 2
    for colour, _ in colours:
        assert f"stroke='{colour}'" in svg
    assert "<title>title of a dot</title>" in svg
