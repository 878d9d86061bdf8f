"""The library says what the service says, decides a position once, and stands beside a running service."""

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest
from rich.console import Console

import streamer
from deploy.made_up_site import others
from index import errors
from streamer import Answer, Filter, IndexClosedError, NeardupError, Settings, SettingsError
from streamer.service.file_job import filter_files
from streamer.settings.settings import load
from tests.support.forks import forked
from tests.support.news import LINES

TEXT = (
    "In the harbour of the small town the fishermen mended their nets and spoke of the storm that had passed at night. "
    * 3
)
NEAR = TEXT + "Nobody was hurt."
OTHER = (
    "The parliament voted on the budget for schools, and both parties claimed the result as a victory of their own. "
    * 3
)


def settings_for(directory: Path, *overrides: str) -> Settings:
    return load(None, [f"index.directory={directory}", "fingerprint.key=public", *overrides], {}, over_files=True)


def lines_of(out: Path) -> list[dict[str, object]]:
    return [orjson.loads(line) for line in (out / "verdicts.jsonl").read_bytes().splitlines()]


def told(answer: Answer) -> tuple[object, ...]:
    return answer.verdict, answer.reason, answer.similarity, answer.distance, answer.original_id


@pytest.mark.parametrize("scheme", ["minhash", "simhash"])
def test_admitting_says_what_the_service_says_of_the_same_documents(tmp_path: Path, scheme: str) -> None:
    lines = LINES[:300]
    (tmp_path / "news.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    settings = settings_for(tmp_path / "service", f"fingerprint.scheme={scheme}")
    filter_files(settings, [tmp_path / "news.jsonl"], tmp_path / "out", Console(quiet=True))
    expected = [
        (line["verdict"], line["reason"], line.get("similarity"), line["distance"], line["original"])
        for line in lines_of(tmp_path / "out")
    ]
    with Filter(tmp_path / "library", settings) as library:
        answers = [*library.admit(lines[:120]), *library.admit(lines[120:])]
    assert {answer.verdict for answer in answers} >= {"unique", "duplicate", "dead-letter"}
    assert [told(answer) for answer in answers] == expected
    with Filter(tmp_path / "service", settings, read_only=True) as beside:
        assert {answer.verdict for answer in beside.check(lines) if answer.kept} == {"undecidable", "dead-letter"}


def test_a_check_changes_nothing_and_admitting_then_says_the_same(tmp_path: Path) -> None:
    with Filter(tmp_path) as seen:
        assert [told(each) for each in seen.check([{"id": "a", "text": TEXT}])] == [
            ("unique", "no-match", None, None, None)
        ]
        seen.admit([{"id": "a", "text": TEXT}])
        checked = seen.check([{"id": "b", "text": NEAR}, {"id": "c", "text": OTHER}, {"id": "d", "text": OTHER}])
        assert [each.verdict for each in checked] == ["duplicate", "unique", "unique"]
        assert checked[0].original_id == "a"
        assert checked[0].original_position is not None
        assert checked[0].original_position.endswith("/0/0")
        assert checked[0].similarity is not None
        assert 0.8 < checked[0].similarity < 1
        admitted = seen.admit([{"id": "b", "text": NEAR}, {"id": "c", "text": OTHER}, {"id": "d", "text": OTHER}])
        assert admitted[:2] == checked[:2]
        assert (admitted[2].verdict, admitted[2].original_id) == ("duplicate", "c")


def test_a_caller_that_died_before_its_own_commit_asks_again_and_hears_the_same(tmp_path: Path) -> None:
    documents = [{"id": "a", "text": TEXT}, {"id": "b", "text": NEAR}]
    with Filter(tmp_path, source="crawl") as seen:
        assert seen.position == 0
        first = seen.admit(documents)
        assert seen.position == 2
    with Filter(tmp_path, source="crawl") as seen:
        assert seen.position == 2
        again = seen.admit(documents, position=0)
        assert again == [replace(each, replayed=True) for each in first]
        assert seen.position == 2
        # Without its position the same documents are new ones, and repeat themselves.
        assert [each.verdict for each in seen.admit(documents)] == ["duplicate", "duplicate"]


def test_a_part_of_a_batch_that_was_decided_keeps_its_answers(tmp_path: Path) -> None:
    with Filter(tmp_path, source="crawl") as seen:
        seen.admit([{"text": TEXT}], position=5)
        assert seen.position == 6
        answers = seen.admit([{"text": OTHER}, {"text": OTHER}], position=5)
    assert [(each.verdict, each.replayed) for each in answers] == [("unique", True), ("unique", False)]


def test_one_source_has_one_filter_at_a_time_and_openings_without_a_name_never_meet(tmp_path: Path) -> None:
    command = "import sys; from streamer import Filter; Filter(sys.argv[1], source='crawl')"
    with Filter(tmp_path, source="crawl"):
        other = subprocess.run([sys.executable, "-c", command, tmp_path], capture_output=True, text=True, check=False)
    assert "source 'crawl' is open in another filter" in other.stderr
    Filter(tmp_path, source="crawl").close()
    for _ in range(2):
        with Filter(tmp_path) as seen:
            (answer,) = seen.admit([{"text": OTHER}])
            assert not answer.replayed


def test_a_filter_that_only_reads_decides_nothing_and_makes_no_index(tmp_path: Path) -> None:
    with pytest.raises(errors.IndexMissingError):
        Filter(tmp_path / "none", read_only=True)
    assert not (tmp_path / "none").exists()
    Filter(tmp_path).close()
    with (
        Filter(tmp_path, read_only=True) as seen,
        pytest.raises(ValueError, match="read_only=True: it can only check"),
    ):
        seen.admit([{"text": TEXT}])


def test_an_index_of_other_settings_is_refused(tmp_path: Path) -> None:
    Filter(tmp_path).close()
    with pytest.raises(errors.ParametersDifferError):
        Filter(tmp_path, settings_for(tmp_path, "fingerprint.scheme=simhash"), read_only=True)


def test_what_cannot_be_decoded_is_a_dead_letter_and_what_is_no_document_an_error(tmp_path: Path) -> None:
    with Filter(tmp_path) as seen:
        answers = seen.check([{"id": "a"}, b"no JSON", {"text": "half a pair \ud800", "number": 2**70}])
        assert [each.reason for each in answers] == ["no-text", "not-json", answers[2].reason]
        assert answers[2].verdict == "unique"
        assert answers[0].detail is not None
        assert "there is no text at /text" in answers[0].detail
        with pytest.raises(TypeError, match=r"documents\[1\] must be a mapping or bytes, not str"):
            seen.check([{"text": TEXT}, "a text"])  # type: ignore[list-item]
        with pytest.raises(TypeError, match=r"documents\[0\] cannot be written as JSON"):
            seen.check([{"text": object()}])
        with pytest.raises(ValueError, match="position must be at least 0"):
            seen.admit([{"text": TEXT}], position=-1)
        assert seen.check([]) == seen.admit([]) == []


def test_the_package_is_imported_without_what_it_needs() -> None:
    command = "import sys, streamer; assert not {'numpy', 'pydantic', 'lmdb'} & set(sys.modules); print(dir(streamer))"
    output = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True).stdout
    assert output.strip() == str(streamer.__all__)


def refusals(seen: Filter) -> set[str]:
    """What each public call raises."""
    calls: list[Callable[[], object]] = [
        lambda: seen.admit([{"text": OTHER}]),
        lambda: seen.admit([]),
        lambda: seen.check([{"text": OTHER}]),
        lambda: seen.check([]),
        lambda: seen.position,
    ]
    found = set()
    for call in calls:
        with pytest.raises(errors.IndexClosedError) as refusal:
            call()
        found.add(str(refusal.value))
    return found


def test_a_closed_filter_says_so_in_an_error_of_its_own(tmp_path: Path) -> None:
    with Filter(tmp_path, source="crawl") as seen:
        seen.admit([{"text": TEXT}])
    assert refusals(seen) == {f"The index in {tmp_path} is closed. Open it again."}
    seen.close()


def test_a_forked_child_hears_no_answer_of_another_one_and_opens_a_filter_of_its_own(tmp_path: Path) -> None:
    def child(seen: Filter, number: int) -> list[str]:
        (refusal,) = refusals(seen)
        assert "was opened by the parent of this process" in refusal
        seen.close()
        text = OTHER.replace("parliament", f"assembly of town {number}") if number else TEXT
        with Filter(tmp_path, source=f"crawl-{number}") as own:
            answers = own.admit([{"id": str(number), "text": f"{number} {text[::-1]}"}, {"text": NEAR}])
        return [answer.verdict for answer in answers if not answer.replayed]

    with Filter(tmp_path, source="crawl") as seen:
        seen.admit([{"text": TEXT}])
        waiting = [forked(lambda number=each: child(seen, number)) for each in range(2)]  # type: ignore[misc]
        assert [wait() for wait in waiting] == [["unique", "duplicate"]] * 2
        assert seen.position == 1
        assert [answer.verdict for answer in seen.admit([{"text": NEAR}])] == ["duplicate"]


def test_a_source_is_free_once_its_filter_is_closed_whatever_children_live_on(tmp_path: Path) -> None:
    reading, writing = os.pipe()

    def child() -> bool:
        os.close(writing)
        return os.read(reading, 1) == b""

    with Filter(tmp_path, source="crawl"):
        wait = forked(child)
    with Filter(tmp_path, source="crawl"):
        pass
    os.close(writing)
    assert wait()
    os.close(reading)


def test_a_child_of_a_parent_with_threads_is_refused_and_does_not_wait(tmp_path: Path) -> None:
    """Another thread may hold the filter at the fork, and no thread of the child would release it."""
    with Filter(tmp_path) as seen, ThreadPoolExecutor(2) as pool:
        texts = [{"text": f"{number} {OTHER}"} for number in range(200)]
        done = [pool.submit(seen.admit, [text]) for text in texts]
        waiting = [forked(lambda: len(refusals(seen))) for _ in range(5)]
        assert [wait() for wait in waiting] == [1] * 5
        assert all(len(each.result()) == 1 for each in done)


def test_rows_of_a_table_are_documents(tmp_path: Path) -> None:
    """docs/api.md: frame.to_dict("records")."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"id": [1, 2], "text": [LINES[0], None], "time": pandas.to_datetime(["2026-11-22", None]), "by": [b"\xff", {1}]}
    )
    with Filter(tmp_path) as seen:
        first, second = seen.admit(frame.to_dict("records"))
    assert (first.verdict, second.verdict, second.reason) == ("unique", "dead-letter", "no-text")


def unrelated(count: int) -> list[str]:
    return [text for place, text in enumerate(others("en", 2 * count).texts) if place % 6][:count]


@pytest.mark.parametrize("cuts", [[0, 40], [0, 1, 2, 3, 40], [0, 7, 11, 40]])
@pytest.mark.parametrize("scheme", ["minhash", "simhash"])
def test_an_id_that_names_another_text_each_time_is_no_id(tmp_path: Path, scheme: str, cuts: list[int]) -> None:
    """A feed gives all its items its own address; each item is printed again elsewhere."""
    texts = unrelated(20)
    items = [{"id": "https://feed.example/", "text": text} for text in texts]
    reprints = [
        {"id": f"https://other.example/{place}", "text": f"{text} Nobody was hurt."} for place, text in enumerate(texts)
    ]
    documents = [*items, *reprints]
    with Filter(tmp_path, settings_for(tmp_path, f"fingerprint.scheme={scheme}")) as seen:
        answers = [each for begin, end in pairwise(cuts) for each in seen.admit(documents[begin:end])]
        asked = seen.check([{"id": "https://feed.example/", "text": OTHER}])[0]
    # The first items look like a page that was rewritten.
    assert [(each.verdict, each.reason) for each in answers[:3]] == [
        ("unique", "no-match"),
        *[("update", "other-text")] * 2,
    ]
    assert {(each.verdict, each.reason) for each in [*answers[3:20], asked]} == {("unique", "shared-id")}
    assert [each.verdict for each in answers[20:]] == ["unique"] * 2 + ["duplicate"] * 18


def test_a_page_that_is_wholly_rewritten_twice_or_edited_in_between_stays_a_page(tmp_path: Path) -> None:
    one, other, third, fourth = unrelated(4)
    turns = [one, other, third, f"{third} Nobody was hurt.", fourth, f"{fourth} Nobody was hurt."]
    with Filter(tmp_path, settings_for(tmp_path)) as seen:
        answers = seen.admit([{"id": "https://site.example/page", "text": text} for text in turns])
    assert [each.verdict for each in answers] == ["unique", *["update"] * 5]
    assert [each.reason for each in answers[1:]] == [
        *["other-text"] * 2,
        "recrawled",
        "other-text",
        "recrawled",
    ]


def test_items_that_come_again_or_are_edited_leave_a_shared_id_shared(tmp_path: Path) -> None:
    """A feed is read every hour: the items of before, the last of them edited, and a new one."""
    texts = unrelated(8)
    with Filter(tmp_path, settings_for(tmp_path)) as seen:

        def come(*items: str) -> list[tuple[str, str]]:
            answers = seen.admit([{"id": "https://feed.example/", "text": item} for item in items])
            return [(each.verdict, each.reason) for each in answers]

        come(*texts[:6])
        assert come(*texts[2:6]) == [("duplicate", "same-text")] * 4
        assert come(f"{texts[5]} Nobody was hurt.") == [("update", "recrawled")]
        assert come(*texts[6:]) == [("unique", "shared-id")] * 2


def test_short_texts_with_one_id_are_versions_of_a_page(tmp_path: Path) -> None:
    """A price or a score is another text each time, and the page is the same."""
    with Filter(tmp_path, settings_for(tmp_path)) as seen:
        answers = seen.admit([{"id": "https://site.example/", "text": text[:90]} for text in unrelated(8)])
    assert [each.verdict for each in answers] == ["unique", *["update"] * 7]


def test_a_filter_takes_six_settings_by_name_or_all_as_a_mapping(tmp_path: Path) -> None:
    with Filter(tmp_path / "named", similarity_min=0.8, text="/body", host="/url") as seen:
        assert seen.admit({"body": TEXT, "url": "https://a.example/"}).verdict == "unique"
        assert seen.index.parameters.banding is not None
    mapped = {"minhash.similarity_min": 0.8, "decode.text": "/body", "decode.host": "/url", "index.templates": True}
    with Filter(tmp_path / "named", mapped) as seen:
        assert seen.check({"body": NEAR}).verdict == "duplicate"
    # Texts are read as --set reads them.
    with Filter(tmp_path / "named", {**mapped, "minhash.similarity_min": "0.8"}) as seen:
        assert len(seen) == 1


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (
            {"settings": {"decode.texts": "/body"}},
            SettingsError,
            "decode.texts: there is no such setting; did you mean",
        ),
        ({"similarity_min": 3}, SettingsError, r"minhash.similarity_min: must be .*, not 3 \(given in Python\)"),
        ({"text": "body"}, SettingsError, "decode.text: must be "),
        ({"settings": Settings(), "text": "/body"}, TypeError, "set decode.text there, or give a mapping"),
    ],
)
def test_a_wrong_setting_is_named_and_leaves_no_index(
    tmp_path: Path, arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Filter(tmp_path / "seen", **arguments)
    assert not (tmp_path / "seen").exists()


def test_a_filter_answers_one_document_or_several(tmp_path: Path) -> None:
    with Filter(tmp_path) as seen:
        assert seen.admit({"text": TEXT}).verdict == "unique"
        assert seen.admit(b'{"text": "a short one"}').verdict == "unique"
        assert seen.check({"text": NEAR}) == seen.check([{"text": NEAR}])[0]
        assert seen.admit([]) == seen.check(iter(())) == []
        assert seen.position == 2
        with pytest.raises(TypeError, match=r'a document is a mapping or bytes: write \{"text": ...\}'):
            seen.check(TEXT)  # type: ignore[call-overload]


def test_a_filter_is_a_container_that_says_what_it_is(tmp_path: Path) -> None:
    with Filter(tmp_path, {"fingerprint.key": "public"}) as seen:
        assert len(seen) == 0
        assert seen
        assert {"text": TEXT} not in seen
        seen.admit([{"text": TEXT}, {"text": "short"}, {"text": NEAR}])
        assert {"text": NEAR} in seen
        assert {"text": OTHER} not in seen
        # A document that cannot be compared is nothing that was seen.
        assert b"no JSON" not in seen
        # The duplicate is far enough from its original to have entered too.
        assert len(seen) == 3
        assert repr(seen) == f"<Filter {str(tmp_path)!r}: 3 entries>"
        with pytest.raises(TypeError, match="a document is a mapping or bytes, not list"):
            assert [{"text": NEAR}] not in seen
    assert repr(seen) == f"<Filter {str(tmp_path)!r}: closed>"
    for use in (lambda: len(seen), lambda: {"text": TEXT} in seen, lambda: seen.position):
        with pytest.raises(IndexClosedError):
            use()


def test_every_error_on_purpose_is_one_of_the_package_s(tmp_path: Path) -> None:
    for name in streamer.__all__:
        exported = getattr(streamer, name)
        if name.endswith("Error"):
            assert issubclass(exported, NeardupError)
    with pytest.raises(NeardupError, match="There is no index"):
        Filter(tmp_path / "none", read_only=True)
    with Filter(tmp_path), pytest.raises(NeardupError, match="already open in this process"):
        Filter(tmp_path)


def test_settings_are_loaded_from_a_path_of_any_kind(tmp_path: Path) -> None:
    (tmp_path / "service.toml").write_text('[decode]\ntext = "/body"\n')
    for path in (str(tmp_path / "service.toml"), tmp_path / "service.toml"):
        assert streamer.load_settings(path).decode.text == "/body"


def test_what_goes_into_a_frame_comes_back_but_for_duplicates(tmp_path: Path) -> None:
    text = "One text of this morning. " * 30
    rows: list[dict[str, object]] = [
        {"id": 1, "text": text},
        {"id": 2},
        {"id": 3, "text": None},
        {"id": 4, "text": float("nan")},
        {"id": 5, "text": "x" * (8 * 2**20 + 1)},
        {"id": 6, "text": 7},
        {"id": 7, "text": text},
        {},
    ]
    with Filter(tmp_path, load()) as opened:
        answers = opened.admit(rows)
        assert [row.get("id") for row, answer in zip(rows, answers, strict=True) if answer.kept] == [
            1,
            2,
            3,
            4,
            5,
            6,
            None,
        ]
        assert [answer.problem is not None for answer in answers] == [False, *[True] * 5, False, True]
        assert answers[4].problem is not None
        assert answers[4].problem.startswith("too-large: ")
        assert [answer.kept for answer in opened.check(rows)] == [False, *[True] * 5, False, True]
