"""Reports: the bars of histograms, and the figures as JSON."""

import re
from html.parser import HTMLParser

import numpy as np

from index.storage.parameters import Parameters
from streamer.evaluation.report import Evaluation, page, rule
from streamer.evaluation.scores import Scores, Truth, entering_all, score
from streamer.fingerprint.scheme import parameters_for
from streamer.settings.settings import load

SIMHASH = entering_all(Parameters(64, 3))
MINHASH = entering_all(parameters_for(load(None, [], {}), {}))


class Bars(HTMLParser):
    """The titles of the bars, and whether every element that was opened is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.titles: list[str] = []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag == "path"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag != "html":
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "title" and "rect" in self.open:
            self.titles.append(data)


def test_the_page_has_a_bar_for_every_distance_that_occurs() -> None:
    truth = Truth(np.array([1, 1, 1, 0, 0, 0], np.bool_), np.array([0, 0, 0, 1, 1, 0], np.bool_))
    distances = np.array([0, 0, 7, 31, 65, 9])
    evaluation = Evaluation(
        "a <set>", "in & force", SIMHASH, distances, truth, score(distances <= 3, truth), 9.0, False
    )
    drawn = page([evaluation])
    assert "a &lt;set&gt;: in &amp; force" in drawn
    bars = Bars()
    bars.feed(drawn)
    assert bars.open == ["html"]
    assert bars.titles == [
        "duplicates, 0 bits: 0.6667",
        "duplicates, 7 bits: 0.3333",
        "different, 31 bits: 0.5000",
    ]


def test_a_second_look_is_part_of_the_rule_and_of_the_figures() -> None:
    truth = Truth(np.ones(1, np.bool_), np.zeros(1, np.bool_))
    told = {}
    for preset in ("simhash-best", "simhash-improved-1"):
        parameters = parameters_for(load(None, (), {}, preset=preset), {})
        figures = Evaluation("s", "t", parameters, None, truth, Scores(1, 0, 0, 0), 9.0, False).as_json()
        told[rule(parameters)] = figures["distance_max"], figures["similarity_min"], figures["second_look"]
    assert told == {
        "distance ≤ 7 of 64, cosine ≥ 0.85": (7, None, "cosine"),
        "similarity ≥ 0.25": (None, 0.25, "metadata"),
    }


def test_similarities_descend_from_one_with_the_threshold_between_two_bars() -> None:
    """A similarity of .7 counts as a duplicate and stands left of the border; a slightly lower one stands right of it."""
    truth = Truth(np.array([1, 1, 1, 0, 0, 0], np.bool_), np.array([0, 0, 0, 1, 1, 1], np.bool_))
    distances = np.array([0, 3_000, 3_001, 10_000, 10_001, 9_000])
    evaluation = Evaluation("s", "t", MINHASH, distances, truth, score(distances <= 3_000, truth), 9.0, False)
    drawn = page([evaluation])
    bars = Bars()
    bars.feed(drawn)
    assert bars.titles == [
        "duplicates, similarity 1.00 to 0.98: 0.3333",
        "duplicates, similarity 0.72 to 0.70: 0.3333",
        "duplicates, similarity 0.70 to 0.68: 0.3333",
        "different, similarity 0.12 to 0.10: 0.3333",
        "different, similarity 0.02 to 0.00: 0.3333",
    ]
    assert "similarity ≥ 0.7" in drawn
    border = re.search(r"M([0-9.]+) 24V", drawn)
    edges = [float(x) for x in re.findall(r"<rect x='([0-9.]+)'", drawn)]
    assert border is not None
    assert edges[1] < float(border[1]) < edges[2]


def test_figures_name_the_threshold_of_their_own_scheme_only() -> None:
    truth = Truth(np.ones(1, np.bool_), np.zeros(1, np.bool_))
    figures = [
        Evaluation("s", "t", parameters, None, truth, Scores(1, 0, 0, 0), 9.0, False).as_json()
        for parameters in (SIMHASH, MINHASH)
    ]
    assert [(each["scheme"], each["distance_max"], each["similarity_min"]) for each in figures] == [
        ("simhash", 3, None),
        ("minhash", None, 0.7),
    ]
