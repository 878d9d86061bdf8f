"""Check the page at / in a real Chromium with hostile data, or take a running service's screenshot.

    python -m deploy.page_check [--target HOST:PORT] [--screenshot FILE] [--dark] [--width PIXELS] [--language zh]

1. Take Chromium from the PATH, or unpack Debian's package into the project's cache (nothing is installed).
2. Serve the page with synthetic answers full of markup, scripts and long words; or use the service at --target.
3. Check the DOM in Chromium, in each language: all parts are present, no data became markup, and the console is empty.
4. Walk through it on a phone (`page_walk`): nothing overflows or breaks, links and buttons show what they promise.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

import orjson
from selectolax.lexbor import LexborHTMLParser

from deploy.debian_packages import CheckFailed, unpacked
from deploy.page_walk import on_a_phone, walked
from streamer.ask.reply import AskReply
from streamer.ask.routes import routes_for
from streamer.explain.words import LANGUAGES, words
from streamer.observe.http import HttpServer
from streamer.settings.settings import load

PROGRAMS = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
PACKAGE = "chromium-headless-shell"
ADVICE = "put Chromium on the PATH (Debian and Ubuntu: apt install chromium)"

HOSTILE = (
    "<script>document.title='struck'</script><img src=x onerror=\"document.title='struck'\">&amp;'\"\u202e" + "長" * 300
)
QUOTED = "O'Brien's \"<b>page</b>\" $(false) `false` \\ 100%s.html"
"""An id that a shell would take apart."""
POSITION = "documents/0/17"
SHOWN_SECONDS = 4


def made_up_status() -> bytes:
    """Synthetic `Status.as_json` for a busy service."""
    documents = {"unique": 900, "duplicate": 300, "suspect": 9, "dead-letter": 2, HOSTILE: 1}
    history = [
        {"time_seconds": 1_800_000_000 + 5 * at, "documents": {name: at * count for name, count in documents.items()}}
        for at in range(60)
    ]
    day = [{**sample, "time_seconds": 1_800_000_000 + 300 * at} for at, sample in enumerate(history)]
    return orjson.dumps(
        {
            "time_seconds": 1_800_000_300,
            "ready": False,
            "words": HOSTILE,
            "documents": documents,
            "reasons": [{"verdict": name, "reason": HOSTILE, "documents": count} for name, count in documents.items()],
            "history": history,
            "day": day,
            "lags": [{"topic": HOSTILE, "partition": "0", "records": 12_345}],
            "last_delivery_seconds": 1_800_000_290,
            "index": {"entries": 1_234_567, "bytes": 2**30, "bytes_max": 2**40, "full_in_days": 12.0},
            "hosts": [{"host": HOSTILE, "documents": 1_000, "unequal": 950, "beyond": True}],
            "hosts_beyond": 1,
            "texts": True,
            "scopes": True,
        }
    )


def made_up_audit() -> dict[str, object]:
    """Synthetic report of the audit, with recall of the day, precision of the whole sample alone, and hostile ids."""
    known = {"estimate": 0.9712, "low": 0.9504, "high": 0.9866, "seen": 412}
    unknown = {"estimate": None, "low": None, "high": None, "seen": 12}
    thresholds = [
        {
            "similarity_min": (50 + 5 * at) / 100,
            "dropped": {**known, "estimate": 0.5 - at / 20},
            "recall": unknown if at > 8 else {**known, "estimate": 1 - at / 10},
            "precision": known,
        }
        for at in range(10)
    ]
    wrong = {
        "was": "kept",
        "position": POSITION,
        "id": HOSTILE,
        "kept_position": HOSTILE,
        "kept": 0.93,
        "original": None,
    }
    return {
        "one_in": 256,
        "sampled": 9_000,
        "similarity_min": 0.7,
        "day": {"recall": known, "precision": unknown},
        "all": {"recall": known, "precision": known},
        "thresholds": thresholds,
        "wrong": [wrong],
    }


def made_up_answer(question: str, payload: bytes) -> AskReply:
    """Synthetic `Answers.answer` on one pair, which depends on host, scope and id, and on whether texts are whole."""
    asked = payload.decode()
    id_ = f"only of {asked}" if question == "pairs" and asked else QUOTED if asked == QUOTED else HOSTILE
    place = {"id": id_, "position": POSITION, "stream": HOSTILE, "time": "2026-01-02T03:04:05.678Z"}
    content: dict[str, object]
    if question == "audit":
        content = made_up_audit()
    elif question == "stories":
        counts = {"documents": 50, "hosts": 47, "first_hosts": [HOSTILE], "first_seen": "2026-01-02T03:04:05.678Z"}
        scope = orjson.loads(payload).get("scope")
        content = {"stories": [{**place, **counts, **({} if scope is None else {"id": f"only of {scope}"})}]}
    elif question == "pairs":
        verdict = {"verdict": "duplicate", "reason": "similar", "similarity": 0.91, "distance": None}
        content = {"pairs": [{**place, **verdict, "original_id": HOSTILE, "original_position": HOSTILE}]}
    else:
        side = {"id": HOSTILE, "position": HOSTILE, "title": HOSTILE, "characters": 9, "missing": ""}
        one, more = [["same", HOSTILE], ["differing", HOSTILE]], [["gap", HOSTILE]]
        spans = one + (one if question == "texts" else more)
        sides = {"own": {**side, "spans": spans}, "other": {**side, "spans": spans}}
        decision = {
            **place,
            "verdict": "duplicate",
            "reason": "similar",
            "sentence": HOSTILE,
            "original": {"id": HOSTILE, "position": HOSTILE},
            "rules": [{"setting": HOSTILE, "value": HOSTILE, "meaning": HOSTILE}],
            "protected": [
                {
                    "set": HOSTILE,
                    "id": HOSTILE,
                    "likeness": {"similarity": 0.91, "distance": None, "cosine": None},
                    "texts": {**sides, "changes": 1, "hidden": 0},
                }
            ],
            "notes": [HOSTILE],
            "texts": {**sides, "changes": 2, "hidden": 0},
        }
        content = {"asked": POSITION, "decisions": [decision], "left_out": 0, "problem": ""}
    return AskReply(HTTPStatus.OK, orjson.dumps(content))


@contextmanager
def made_up_service() -> Iterator[str]:
    """Serve synthetic answers; yields the address, host:port."""
    settings = load(None, ["ask.enabled=true"], {})
    routes = routes_for(settings.ask, settings.observe.host, made_up_answer, made_up_status)
    with HttpServer("127.0.0.1", 0, lambda: b"", lambda: (True, "ok"), lambda: (True, "ok"), routes=routes) as server:
        yield f"127.0.0.1:{server.port}"


def problems(page: str, console: str, language: str = "en") -> list[str]:
    """Problems in the page that Chromium built from the synthetic answers, and in its console."""
    document = LexborHTMLParser(page)
    title, root = document.css_first("title"), document.css_first("html")
    said = words("page", language)
    recall = said["of-last-day"].format(measured=said["recall"], low="95.0", high="98.7 %")
    precision = said["of-all"].format(measured=said["precision"], low="95.0", high="98.7 %")
    checks = {
        "the page did not finish": document.css_first("body[data-shown=yes]") is not None,
        "the tiles are missing": len(document.css("#tiles b")) == 8,
        "it speaks another language": root is not None and (root.attributes.get("lang") or "").startswith(language),
        "the audit's tiles are missing": all(each in _text(document, "#tiles") for each in (recall, precision)),
        "the audit's curve is missing": len(document.css("#curve polyline")) == 3,
        "the threshold in force is missing": said["in-force"].format(threshold="0.70")
        in _text(document, "#thresholds"),
        "the doubtful verdict is missing": HOSTILE in _text(document, "#doubtful"),
        "the chart is empty": len(document.css("#chart rect")) > 100,
        "the day is empty": len(document.css("#day rect")) > 100,
        "the charts have no axes": [len(axis.css("span")) for axis in document.css(".axes > div")] == [3] * 6,
        "a number is none": "NaN" not in (document.text() or ""),
        "the verdicts are missing": len(document.css("#verdicts tr")) == 6,
        "the host is missing": HOSTILE in _text(document, "#hosts"),
        "the story is missing": f"{HOSTILE}{HOSTILE}4750" in _text(document, "#stories"),
        "the pair is missing": HOSTILE in _text(document, "#pairs"),
        "the link to why is missing": document.css_first("#pairs a[href='#why=documents%2F0%2F17']") is not None,
        "differing words are not marked": [mark.text() for mark in document.css("#pairs mark")] == [HOSTILE, HOSTILE],
        "the explanation is missing": HOSTILE in _text(document, "#found"),
        "what it resembles in a protected set is missing": said["resembles-protected"].format(
            id=HOSTILE, set=HOSTILE, likeness="91.0 %"
        )
        in _text(document, "#found"),
        "words became markup": len(document.css("script")) == 1 and not document.css("img"),
        "a script of a document ran": title is not None and title.text() == said["title"],
    }
    complaints = [line for line in console.splitlines() if ":CONSOLE" in line]
    return [problem for problem, holds in checks.items() if not holds] + complaints


def problems_on_a_phone(url: str, asked: str, language: str) -> list[str]:
    """Problems on a walk through the page at `url` that searches for the id `asked`, with a browser in `language`."""
    program, variables = chromium()
    with on_a_phone(url, str(program), variables, language) as (evaluate, complaints):
        return walked(evaluate, HOSTILE, asked, language) + complaints


def _text(document: LexborHTMLParser, selector: str) -> str:
    node = document.css_first(selector)
    return "" if node is None else node.text()


def chromium() -> tuple[Path, dict[str, str]]:
    """Chromium's path and environment, from the PATH, the cache or a download. Raises CheckFailed."""
    on_path = next((path for path in map(shutil.which, PROGRAMS) if path), None)
    if on_path is not None:
        return Path(on_path), {}
    folder = unpacked(PACKAGE, "chromium", ADVICE, needed=True)
    libraries = sorted({str(library.parent) for library in (folder / "usr" / "lib").rglob("*.so*")})
    return folder / "usr" / "lib" / "chromium" / PACKAGE, {"LD_LIBRARY_PATH": ":".join(libraries)}


def run_in_chromium(
    url: str, *options: str, environment: Mapping[str, str] | None = None, timeout_seconds: float = 120
) -> tuple[str, str]:
    """The page in Chromium after SHOWN_SECONDS, and its standard error. `environment` adds variables.

    The clock of the page stands still during its requests, so a busy service needs a longer timeout.
    """
    program, variables = chromium()
    with tempfile.TemporaryDirectory(prefix="page-check-", ignore_cleanup_errors=True) as profile:
        command = [
            str(program),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            f"--user-data-dir={profile}",
            f"--virtual-time-budget={SHOWN_SECONDS * 1000}",
            *options,
            url,
        ]
        outcome = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
            env={**os.environ, **variables, **(environment or {})},
        )
    if outcome.returncode != 0:
        raise CheckFailed(f"{program} ended with {outcome.returncode}:\n{outcome.stderr[-2_000:]}")
    return outcome.stdout, outcome.stderr


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the page, or take a screenshot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", help="host:port of a running service without a token, for a screenshot")
    parser.add_argument("--screenshot", type=Path, help="write a screenshot of the page to this file")
    parser.add_argument("--dark", action="store_true", help="use the dark colour scheme")
    parser.add_argument("--language", choices=LANGUAGES, default="en", help="language of the screenshot")
    parser.add_argument("--width", type=int, default=1200, help="pixels")
    parser.add_argument("--height", type=int, default=1400, help="pixels")
    options = parser.parse_args(arguments)
    try:
        with ExitStack() as stack:
            target = options.target or stack.enter_context(made_up_service())
            url = f"http://{target}/"
            if options.screenshot is not None:
                dark = ["--blink-settings=preferredColorScheme=0"] if options.dark else []
                size = f"--window-size={options.width},{options.height}"
                shown = f"{url}?lang={options.language}"
                run_in_chromium(shown, f"--screenshot={options.screenshot.resolve()}", size, "--hide-scrollbars", *dark)
            wrong = []
            if not options.target:
                for language in LANGUAGES:
                    address = f"{url}?lang={language}#why={quote(POSITION, safe='')}"
                    found = problems(*run_in_chromium(address, "--dump-dom"), language)
                    for asked in (QUOTED, HOSTILE):
                        found += problems_on_a_phone(url, asked, language)
                    wrong += [f"{language}: {each}" for each in found]
    except CheckFailed as error:
        print(error, file=sys.stderr)
        return 1
    for problem in wrong:
        print(problem)
    if not options.target:
        print(f"the page in Chromium: {len(wrong)} problems")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
