"""`streamer why` as it is typed: over files from end to end, and with brokers that do not answer."""

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from deploy.made_up_site import site
from tests.support.command_line import Done, run

NOT_FOUND, NO_INDEX, WRONG_SETTING = 1, 66, 78
BODY = " ".join(f"word{number}" for number in range(80))
ESCAPES = "\x1b]0;owned\x07\x9b31m\u202e"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder in which pages.jsonl was filtered into `out`, with the index in `index`."""
    made = tmp_path_factory.mktemp("why")
    documents = [
        {"id": "first", "title": "A page", "text": f"{BODY} the end"},
        {"id": "copy", "title": "A page", "text": f"{BODY} another {ESCAPES} end"},
        {"id": f"odd{ESCAPES}", "text": " ".join(f"other{number}" for number in range(60))},
        {"id": "short", "text": "few words"},
        {"id": "again", "text": "few words"},
        {"id": "wordless", "text": "..."},
        {"id": "textless", "body": "no text at all"},
        {"id": "first", "text": f"{BODY} the end"},
    ]
    (made / "pages.jsonl").write_bytes(
        b"\n".join([*map(orjson.dumps, documents), b'{"text": "cut' + ESCAPES.encode(), b""])
    )
    counted = ("--set", "topics.stories=stories")
    assert run("filter", made / "pages.jsonl", "--out", made / "out", "--index", made / "index", *counted).code == 0
    return made


def asked(folder: Path, what: str, *arguments: object) -> Done:
    return run("why", what, "--out", folder / "out", "--index", folder / "index", *arguments)


def decisions(folder: Path, what: str, *arguments: object) -> list[dict[str, Any]]:
    done = asked(folder, what, "--json", *arguments)
    assert (done.code, done.err) == (0, "")
    found: list[dict[str, Any]] = orjson.loads(done.out)["decisions"]
    return found


def test_a_page_of_a_site_with_a_template_is_explained_by_its_own_text(tmp_path: Path) -> None:
    lines = [
        orjson.dumps({"id": f"page-{number}", "text": text, "url": f"https://shop.example/{number}"})
        for number, text in enumerate(site("en", 0.1, pages=40, copies=0).texts)
    ]
    (tmp_path / "pages.jsonl").write_bytes(b"\n".join(lines))
    assert run("filter", tmp_path / "pages.jsonl", "--out", tmp_path / "out", "--index", tmp_path / "index").code == 0
    assert asked(tmp_path, "page-25").code == 0
    (found,) = decisions(tmp_path, "page-25")
    assert found["verdict"] == "unique"
    # By the template alone every page is near every other one.
    assert all(each["why_not"] for each in found["near"])


def test_a_duplicate_is_explained_by_its_original_the_setting_and_the_words(folder: Path) -> None:
    done = asked(folder, "copy")
    assert done.code == 0
    shown = " ".join(done.out.split())
    for words in (
        "duplicate (similar)",
        f"original first {folder / 'pages.jsonl'}:1 unique (no-match), still counts",
        "minhash.similarity_min = 0.7",
        "the words differ in 1 place",
        "[-the-] end",
        r"{+another \x1b]0;owned\x07\x9b31m\u202e-}".replace("-}", "+}"),
    ):
        assert words in shown, shown
    (told,) = decisions(folder, "copy")
    assert told["near"][0]["relation"] == "original"
    assert told["texts"]["changes"] == 1
    assert told["position"] == f"{folder / 'pages.jsonl'}/0/1"
    assert told["similarity"] == told["near"][0]["similarity"] >= 0.7


def test_nothing_that_a_terminal_obeys_is_printed(folder: Path) -> None:
    for what in ("copy", f"odd{ESCAPES}", "pages.jsonl", f"{folder / 'pages.jsonl'}:9"):
        for arguments in ((), ("--json",), ("--full",)):
            done = asked(folder, what, *arguments)
            assert not set(done.out + done.err) & {"\x1b", "\x07", "\x9b", "\u202e"}


@pytest.mark.parametrize(
    ("what", "verdict", "reason", "setting"),
    [
        ("short", "unique", "short-text-new", "minhash.features_min"),
        ("again", "duplicate", "short-text-same", "minhash.features_min"),
        ("wordless", "undecidable", "no-features", None),
        ("textless", "dead-letter", "no-text", "decode.text"),
    ],
)
def test_every_kind_of_decision_is_explained(
    folder: Path, what: str, verdict: str, reason: str, setting: str | None
) -> None:
    (told,) = decisions(folder, what)
    assert (told["verdict"], told["reason"]) == (verdict, reason)
    assert [rule["setting"] for rule in told["rules"]][:1] == ([setting] if setting else [])


def test_a_dead_letter_is_found_by_its_line_and_tells_the_decoders_words_and_its_bytes(folder: Path) -> None:
    (told,) = decisions(folder, f"{folder / 'pages.jsonl'}:9")
    assert (told["verdict"], told["reason"]) == ("dead-letter", "not-json")
    assert "control character" in told["notes"][0] or "unexpected" in told["notes"][0]
    assert told["texts"]["own"]["spans"][0][1].startswith(r'{"text": "cut\x1b]0;owned')
    assert decisions(folder, f"{folder / 'pages.jsonl'}/0/8") == [told]


def test_an_id_that_came_twice_is_told_newest_first(folder: Path) -> None:
    newest, oldest = decisions(folder, "first")
    assert (newest["verdict"], newest["original"]["id"], oldest["verdict"]) == ("duplicate", "first", "unique")
    assert newest["texts"]["changes"] == 0
    assert [each["position"] for each in decisions(folder, "first", "--limit", "1")] == [newest["position"]]
    assert "1 older decisions" in asked(folder, "first", "--limit", "1").out
    assert len(decisions(folder, "first", "--limit", "1", "--all")) == 2


def test_texts_that_are_not_asked_for_are_not_read(folder: Path) -> None:
    (told,) = decisions(folder, "copy", "--no-texts")
    assert "texts" not in told
    assert told["near"] is None


def test_what_is_not_known_says_so_and_ends_with_1(folder: Path) -> None:
    done = asked(folder, "nobody")
    assert (done.code, done.out) == (NOT_FOUND, "")
    assert "nothing is known of 'nobody'" in done.err
    done = asked(folder, "nobody", "--json")
    assert (done.code, orjson.loads(done.out)["decisions"]) == (NOT_FOUND, [])


def test_what_stands_there_now_is_not_taken_for_what_stood_there(folder: Path, tmp_path: Path) -> None:
    settings = ("--set", "decode.id=/title")
    (told,) = decisions(folder, "copy", *settings)
    assert "another id, 'A page'" in told["texts"]["own"]["missing"]
    assert told["near"] is None
    assert "another id" in asked(folder, "copy", *settings).out
    assert run("why", "copy", "--out", tmp_path, "--index", folder / "index").code == WRONG_SETTING
    assert run("why", "copy", "--no-texts", "--index", tmp_path / "none").code == NO_INDEX


def test_without_brokers_the_index_answers_and_one_line_says_that_there_are_no_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # A file whose name could be that of a topic.
    Path("documents").write_bytes(b'{"id": "one", "text": "%s"}' % BODY.encode())
    run("filter", "documents", "--out", "out", "--index", "index")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{taken.getsockname()[1]}"
        settings = ("--set", f"kafka.bootstrap_servers={nobody}", "--set", "kafka.request_timeout_ms=300")
        # In a process of its own: the client leaves sockets behind where no broker answers.
        command = [sys.executable, "-m", "streamer", "why", "documents/0/0", "--index", "index", *settings]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "unique (no-match)" in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"no texts: no answer from {nobody}")


def test_of_files_without_their_folder_the_index_answers_and_says_how_to_see_texts(folder: Path) -> None:
    done = run("why", "first", "--index", folder / "index", "--json")
    assert done.code == 0
    assert "(--out)" in orjson.loads(done.out)["decisions"][0]["texts"]["own"]["missing"]


def test_why_names_the_story_of_a_record_and_stories_lists_the_largest(folder: Path) -> None:
    for asked_for in ("copy", "first"):
        assert "story 3 documents from 0 hosts, kept as first" in " ".join(asked(folder, asked_for).out.split())
    assert [each["story"] and each["story"]["documents"] for each in decisions(folder, "again")] == [2]
    assert [each["story"] for each in decisions(folder, "wordless")] == [None]
    listed = run("stories", "--index", folder / "index")
    assert [line.split()[-1] for line in listed.out.splitlines()[1:]] == ["first", "short"]
    (largest,) = orjson.loads(run("stories", "--index", folder / "index", "--top", "1", "--json").out)["stories"]
    assert (largest["documents"], largest["newest"]["id"]) == (3, "first")
    assert orjson.loads(run("stories", "--index", folder / "index", "--host", "no.example", "--json").out) == {
        "stories": []
    }


def test_two_tenants_with_the_same_stories_list_their_own_alone(tmp_path: Path) -> None:
    documents = [
        {
            "id": f"{story[:3]}/{place}",
            "text": f"{BODY} {story}",
            "tenant": tenant,
            "url": f"https://{host}.example/{place}",
        }
        for tenant in ("a", "b")
        for story in ("one story " * 9, "another " * 60)
        for place, host in enumerate(("x", "y", "x", *(("z",) if tenant == "b" else ())))
    ]
    (tmp_path / "pages.jsonl").write_bytes(b"\n".join(map(orjson.dumps, documents)))
    settings = ("--set", "topics.stories=stories", "--set", "decode.scope=/tenant")
    folders = ("--out", tmp_path / "out", "--index", tmp_path / "index")
    assert run("filter", tmp_path / "pages.jsonl", *folders, *settings).code == 0

    def listed(*arguments: str) -> list[tuple[str, int]]:
        done = run("stories", "--index", tmp_path / "index", *settings, "--json", *arguments)
        assert done.code == 0, done.err
        return [(each["id"], each["documents"]) for each in orjson.loads(done.out)["stories"]]

    of_b = [("b/ano/0", 4), ("b/one/0", 4)]
    assert len(listed()) == 4
    assert (listed("--scope", "a"), listed("--scope", "b")) == ([("a/ano/0", 3), ("a/one/0", 3)], of_b)
    assert listed("--scope", "b", "--top", "1") == of_b[:1]
    assert listed("--scope", "b", "--host", "z.example") == listed("--host", "b/z.example") == of_b
    assert listed("--scope", "a", "--host", "z.example") == []
    unknown = run("stories", "--index", tmp_path / "index", *settings, "--scope", "c/d")
    assert (unknown.code, unknown.err) == (0, "no such story has its kept document in the scope 'c/d'\n")
    refused = run("stories", "--index", tmp_path / "index", "--scope", "a")
    assert (refused.code, "set decode.scope as for the service" in refused.err) == (WRONG_SETTING, True)
