"""A walk through the page on a phone of 390 pixels, in a real Chromium: it clicks, asks, and looks at what is shown.

Chromium obeys over the pipe of its DevTools protocol: messages in JSON, each ended by a zero byte.
"""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import orjson

from deploy.debian_packages import CheckFailed
from streamer.explain.words import words

PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
STEP_SECONDS = 10
POLL_SECONDS = 0.05
WORD_CHARACTERS_MAX = 24
"""Longer words may break, and so may addresses, at their slashes."""

Evaluate = Callable[[str], Any]
"""Evaluates JavaScript in the page."""


class Step(NamedTuple):
    """An action, and what must become true then. Both are JavaScript.

    >>> Step("it is empty", "", "true").action
    ''
    """

    problem: str
    action: str
    expected: str


FITS = (
    "document.documentElement.scrollWidth <= innerWidth && "
    "[...document.querySelectorAll('.scroll')].every((each) => each.scrollWidth <= each.clientWidth)"
)

# Chinese breaks anywhere.
BROKEN_WORDS = f"""(() => {{
  const broken = [], range = document.createRange();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {{
    for (const word of texts.currentNode.data.matchAll(/(?<!\\S)(?:(?!\\p{{Script=Han}})[\\p{{L}}\\p{{N}}.,:;()%])+(?!\\S)/gu)) {{
      if (word[0].length > {WORD_CHARACTERS_MAX}) continue;
      range.setStart(texts.currentNode, word.index);
      range.setEnd(texts.currentNode, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((each) => Math.round(each.bottom))).size > 1) broken.push(word[0]);
    }}
  }}
  return broken;
}})()"""

COMMANDS = "[...document.querySelectorAll('#found .command:not([hidden])')].map((each) => each.textContent)"


def steps(host: str, asked: str, language: str = "en") -> Sequence[Step]:
    """The walk: the host's link has the words `host`, and the search is for the id `asked`."""
    said = words("page", language)
    id_, host, all_places, give_back, why = (
        orjson.dumps(text).decode() for text in (asked, host, said["all-places"], said["give-back"], said["why"])
    )
    is_button = "[...document.querySelectorAll('#found button')].find((each) => each.textContent.startsWith(%s))"
    return (
        Step("the page did not finish", "", "document.body?.dataset.shown === 'yes'"),
        Step(
            "it does not speak the browser's language",
            "",
            f"document.querySelector('#question button').textContent === {why}",
        ),
        Step("it overflows sideways", "", FITS),
        Step("the day has no chart", "", "document.querySelectorAll('#day rect').length > 100"),
        Step(
            "a host's link shows no pairs of it",
            f"[...document.querySelectorAll('#hosts a')].find((each) => each.textContent === {host}).click()",
            f"document.querySelector('#of-host').textContent.includes({host}) && "
            f"document.querySelector('#pairs').textContent.includes('only of ' + {host})",
        ),
        Step(
            "the way back from a host is missing",
            "document.querySelector('#of-host a').click()",
            "!document.querySelector('#pairs').textContent.includes('only of ')",
        ),
        Step(
            "a scope shows no stories of it",
            f"document.querySelector('#scope').value = {host}; document.querySelector('#of-scope').requestSubmit()",
            f"document.querySelector('#stories').textContent.includes('only of ' + {host})",
        ),
        Step(
            "the way back from a scope is missing",
            "document.querySelector('#scope').value = ''; document.querySelector('#of-scope').requestSubmit()",
            "!document.querySelector('#stories').textContent.includes('only of ')",
        ),
        Step(
            "the search shows no decision",
            f"document.querySelector('#asked').value = {id_}; document.querySelector('#question').requestSubmit()",
            f"document.querySelector('#found b')?.textContent.endsWith({id_})",
        ),
        Step(
            "not all places can be shown",
            # Of its original, and of what it resembles in a protected set.
            f"{is_button % all_places}.click(); {is_button.replace('.find', '.findLast') % all_places}.click()",
            f"document.querySelectorAll('#found mark').length === 8 && !{is_button % all_places}",
        ),
        Step(
            "the command that gives back is missing",
            f"{is_button % give_back}.click()",
            f"{COMMANDS}.length === 1",
        ),
        Step("it overflows sideways after the walk", "", FITS),
    )


def walked(evaluate: Evaluate, host: str, asked: str, language: str = "en") -> list[str]:
    """Problems on the walk, which ends at the first missing part."""
    for problem, action, expected in steps(host, asked, language):
        try:
            evaluate(action)
            _wait(evaluate, expected)
        except CheckFailed as error:
            return [f"on a phone: {problem} ({error})"]
    problems = [f"on a phone: the word {word!r} is broken" for word in evaluate(BROKEN_WORDS)]
    words = words_of(evaluate(COMMANDS)[0])
    if words != ["streamer", "give-back", "--", asked]:
        problems.append(f"a shell reads the command that gives back as {words}")
    return problems


def words_of(command: str) -> list[str]:
    """The words of a command, as a real shell reads them."""
    script = f"printf '%s\\0' {command}"
    return subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout.decode().split("\0")[:-1]


def _wait(evaluate: Evaluate, expected: str) -> None:
    deadline = time.monotonic() + STEP_SECONDS
    while not evaluate(expected):
        if time.monotonic() > deadline:
            raise CheckFailed(f"not true within {STEP_SECONDS} seconds: {expected}")
        time.sleep(POLL_SECONDS)


@contextmanager
def on_a_phone(
    url: str, program: str, variables: Mapping[str, str], language: str = "en"
) -> Iterator[tuple[Evaluate, list[str]]]:
    """A page in Chromium; yields its evaluation, and the list of complaints in its console, which grows.

    program, variables  as `chromium` of page_check gives them
    language            that the browser asks for
    """
    (read_here, written_there), (read_there, written_here) = os.pipe(), os.pipe()
    with (
        tempfile.TemporaryDirectory(prefix="page-walk-", ignore_cleanup_errors=True) as profile,
        open(read_here, "rb") as answers,  # noqa: PTH123, a descriptor has no path
        open(written_here, "wb", buffering=0) as questions,  # noqa: PTH123
    ):
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
        ]
        # A program gets the pipe as 3 and 4, and only a shell can say so.
        process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" "$@" 3<&{read_there} 4>&{written_there}', program, *options, "about:blank"],
            stderr=subprocess.DEVNULL,
            pass_fds=(read_there, written_there),
            env={**os.environ, **variables},
        )
        os.close(read_there)
        os.close(written_there)
        try:
            browser = _Browser(questions.write, answers.read1)
            browser.open(url, language)
            yield browser.evaluate, browser.complaints
        finally:
            process.terminate()
            process.wait()


class _Browser:
    def __init__(self, write: Callable[[bytes], Any], read: Callable[[], bytes]) -> None:
        self._write, self._read = write, read
        self._held = b""
        self._asked = 0
        self._session: dict[str, str] = {}
        self.complaints: list[str] = []

    def open(self, url: str, language: str) -> None:
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        for domain in ("Runtime", "Log", "Page"):
            self._ask(f"{domain}.enable")
        self._ask("Emulation.setDeviceMetricsOverride", **PHONE)
        agent = self._ask("Browser.getVersion")["userAgent"]
        self._ask("Emulation.setUserAgentOverride", userAgent=agent, acceptLanguage=language)
        self._ask("Page.navigate", url=url)

    def evaluate(self, expression: str) -> Any:
        answer = self._ask("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise CheckFailed(answer["exceptionDetails"].get("exception", {}).get("description", expression))
        return answer["result"].get("value")

    def _ask(self, method: str, **parameters: object) -> dict[str, Any]:
        self._asked += 1
        question = {"id": self._asked, "method": method, "params": parameters, **self._session}
        self._write(orjson.dumps(question) + b"\0")
        while True:
            message = self._next()
            if message.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
                self.complaints.append(f"the console: {orjson.dumps(message['params']).decode()[:300]}")
            if message.get("id") == self._asked:
                if "error" in message:
                    raise CheckFailed(f"{method}: {message['error']}")
                return dict(message["result"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._held:
            if not (more := self._read()):
                raise CheckFailed("Chromium ended during the walk")
            self._held += more
        message, self._held = self._held.split(b"\0", 1)
        return dict(orjson.loads(message))
