"""Two days in production with Flink, on this machine: each step has to leave every document with one right verdict.

    python -m deploy.flink_day [--documents N] [--directory FOLDER] [--json]

Kafka, a JobManager, two TaskManagers and the other parts run in processes of their own, and documents with planted
near-duplicates flow in all the time. After each step all that was written until then comes out exactly once, and the
verdicts are those of one index that reads the log in order. The index that goes on at the end learns frames from what it
restores, so it may keep one in a thousand copies that the other drops. In the end `streamer verify` reads everything.

Pages come again. The first day begins with an index that seeds the job, with the default settings. The second one begins on
Flink, with retention, documents to forget and to give back, and half as many documents.
"""

import argparse
import json
import logging
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
from kafka.errors import KafkaError

from deploy.flink_flow import BROKEN, Flow, written
from deploy.flink_outputs import Records, VerdictsByPosition, by_position, delivered, given_back, one_index, reading
from deploy.flink_service import PARTITIONS, SplitService, Watch, split_service
from deploy.local_flink import JOB, QUICK, LocalFlink, LocalFlinkError
from deploy.local_kafka import LocalKafka, LocalKafkaError
from deploy.planted_fingerprints import OneIndex, Verdicts
from index.errors import NeardupIndexError
from streamer.errors import StreamerError
from streamer.settings.parts import settings_of
from streamer.transports.kafka.topics import committed_offsets

CLUSTER = {"taskmanager.numberOfTaskSlots": "2", "execution.checkpointing.interval": "2 s"}
UPGRADED_JOB = Path(__file__).with_name("flink") / "upgraded_job.py"

FLOWING_SECONDS = 300
"""Time in which `--documents` flow in; a day takes longer."""

SEEDED_SHARES = 5
"""One of so many shares is there at the beginning, for the index that seeds the job."""

SHARES = 40
"""A step ends after one of so many shares of the documents has followed it."""

REPEATED_SHARES = 4
"""On the way back copies come from the last one of so many shares of all documents: their entries have not left."""

KEPT_SHARE_MAX = 0.001
"""Most copies, as a share of what a restored index has decided, that it may keep by frames of its own."""

log = logging.getLogger("deploy.flink_day")


class DayFailed(Exception):
    """A step failed; the message names it, and the folder with the logs."""


AGAIN_SHARE = 0.15
"""Pages that came before, among all documents."""

GIVEN_BACK_SINCE = "20s"
"""On the second day the duplicates of such a time are given back."""

FORGOTTEN_EVERY = 5
"""On the second day one of so many documents is forgotten, of those that came until then."""

SECOND = (
    "kafka.group=second",
    *(
        f"topics.{name}=second-{name}"
        for name in ("input", "unique", "duplicate", "dead_letter", "fingerprints", "verdicts")
    ),
)
"""The second day's own topics, on the brokers of the first."""

EPOCHS = ("--epoch-minutes", "0.2")
"""The state forgets so often. What seeds it has a job's epochs too."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step that passed.

    seconds           until the service was at work again, and a share of the documents had followed
    checking_seconds  until all documents had come out and were compared
    documents         that came out so far
    """

    step: str
    seconds: float
    checking_seconds: float
    documents: int


class Day:
    """A service between its steps: its processes, the documents that flow in, and what came out."""

    def __init__(
        self,
        stack: ExitStack,
        service: SplitService,
        flink: LocalFlink,
        flow: Flow,
        records: Records,
        verdicts: Verdicts,
        documents: int,
    ) -> None:
        self._service, self._flink, self._flow, self._records = service, flink, flow, records
        self._verdicts, self._documents = verdicts, documents
        self._timeout_seconds = 240 + documents / 500
        self._tasks, self._seeds, self._job = 1, 0, ""
        self._watch: Watch | None = None
        self._before: set[str] = set()
        self._by_flink: set[str] | None = None
        self._one_index: OneIndex | None = None
        self._expected: VerdictsByPosition = {}
        self._stack = stack

    def steps(self) -> Iterable[Step]:
        """Take all steps, and check each. Raises DayFailed."""
        for name, take in self._plan():
            log.info("%s ...", name)
            yield self._passed(name, take)

    def _plan(self) -> Sequence[tuple[str, Callable[[], None]]]:
        return (
            ("one service with an index decides", self._decide_on_one_host),
            ("the index seeds the job", self._go_to_flink),
            ("rescale from 1 task to 2", lambda: self._go_on_from_savepoint(tasks=2)),
            ("rescale from 2 tasks to 4", lambda: self._go_on_from_savepoint(tasks=4)),
            ("kill -9 a TaskManager", self._kill_a_task_manager),
            ("kill -9 the JobManager", self._kill_the_job_manager),
            ("lose the state: seed and replay", self._lose_the_state),
            ("upgrade the job", lambda: self._go_on_from_savepoint(program=UPGRADED_JOB)),
            ("go back to one host", self._go_back),
            ("streamer verify --all", self._verify),
        )

    def _passed(self, name: str, take: Callable[[], None]) -> Step:
        begin = time.monotonic()
        try:
            take()
            taken = time.monotonic()
            documents = self._checked()
        except (
            LocalFlinkError,
            StreamerError,
            NeardupIndexError,
            KafkaError,
            OSError,
            ValueError,
            subprocess.SubprocessError,
        ) as error:
            logs = f"{self._service.directory}/*.log and {self._flink.directory}/*.out"
            raise DayFailed(f"{name}: {error}\nLogs: {logs}") from error
        return Step(name, round(taken - begin, 1), round(time.monotonic() - taken, 1), documents)

    # --- steps ---

    def _decide_on_one_host(self) -> None:
        self._flow.send(self._documents // SEEDED_SHARES)
        self._service.begin_whole()
        self._let_flow()
        self._records.wait_for_all(written(self._service.settings), self._timeout_seconds, self._require_sound)
        self._service.end()
        committed = committed_offsets(self._service.settings)
        topic = self._service.settings.topics.input
        self._before = {
            f"{topic}/{source.partition}/{offset}" for source, end in committed.items() for offset in range(end)
        }
        copied = shutil.copytree(self._service.directory / "decide", self._service.directory / "one-index")
        self._one_index = self._stack.enter_context(one_index(self._service.settings, copied))

    def _go_to_flink(self) -> None:
        self._seed()
        self._service.begin("fingerprint", "route")
        self._let_flow()

    def _go_on_from_savepoint(self, tasks: int | None = None, program: Path = JOB) -> None:
        savepoint = self._flink.stop_with_savepoint(self._job)
        self._tasks = tasks or self._tasks
        self._submit(since=savepoint, program=program)
        self._let_flow()

    def _kill_a_task_manager(self) -> None:
        restored = self._flink.times_restored(self._job)
        self._flink.kill_task_manager()
        self._flink.start_task_manager()
        self._flink.wait(
            lambda: self._flink.times_restored(self._job) > restored, "return to a checkpoint", self._timeout_seconds
        )
        self._flink.wait_until_running(self._job)
        self._let_flow()

    def _kill_the_job_manager(self) -> None:
        self._flink.wait(lambda: self._flink.checkpoints_completed(self._job), "checkpoint", self._timeout_seconds)
        self._flink.kill_job_manager()
        self._flink.start_job_manager()
        self._flink.wait_for_task_managers(self._flink.task_manager_count)
        self._submit(since=self._flink.latest_checkpoint(self._job))
        self._let_flow()

    def _lose_the_state(self) -> None:
        repeated = self._verdicts.repeated
        self._flink.cancel(self._job)
        for state in (self._flink.checkpoints, self._flink.savepoints):
            shutil.rmtree(state)
        self._seed()
        self._let_flow()
        self._checked()
        if self._verdicts.repeated == repeated:
            raise ValueError("the job repeated no verdict: it replayed nothing")

    def _go_back(self) -> None:
        # One host reads partitions in its own order. Copies of entries that stay have the same verdicts in any order.
        self._flow.wait_for(self._documents, self._timeout_seconds)
        self._checked()
        outputs = delivered(self._records.headers)
        first = len(outputs) - len(outputs) // REPEATED_SHARES
        uniques = {at for at, (verdict, _) in outputs.items() if verdict == "unique"}
        self._flow.repeat(lambda number: number >= first and self._position_of(number) in uniques)
        self._checked()
        self._service.end("fingerprint")
        self._flink.wait(self._is_delivered, "delivery of all fingerprints", self._timeout_seconds)
        self._flink.cancel(self._job)
        self._watch = None
        self._by_flink = set(delivered(self._records.headers))
        self._service.begin("decide", "fingerprint")
        self._let_flow()

    def _position_of(self, number: int) -> str:
        """Position of a document by its number in the flow."""
        return f"{self._service.settings.topics.input}/{number % PARTITIONS}/{number // PARTITIONS}"

    def _verify(self) -> None:
        command = self._service.command("decide", "verify", "--all", "--json")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")

    # --- what steps share ---

    def _seed(self) -> None:
        """Start a job from the index's entries, with the commands of docs/flink.md."""
        self._seeds += 1
        output = self._service.directory / f"seed-{self._seeds}.log"
        with output.open("wb") as stream:
            seeding = subprocess.Popen(
                self._service.command("decide", "index", "seed"), stdout=stream, stderr=stream, stdin=subprocess.DEVNULL
            )
        try:
            self._flink.wait(lambda: _ended(seeding, output) or "--seed now" in output.read_text(), "seed", 60)
            job = self._flink.submit(*self._service.options, *EPOCHS, "--seed", parallelism=self._tasks)
            self._flink.wait(lambda: _ended(seeding, output), "end of `streamer index seed`", self._timeout_seconds)
        finally:
            seeding.kill()
            seeding.wait()
        self._submit(since=self._flink.stop_with_savepoint(job), seeded=True)

    def _submit(self, **how: Any) -> None:
        self._job = self._flink.submit(*self._service.options, *EPOCHS, parallelism=self._tasks, **how)
        self._watch = Watch(self._service, self._flink, self._job)

    def _let_flow(self) -> None:
        """Wait until a share of the documents was sent."""
        self._flow.wait_for(len(self._flow.sent) + max(1, self._documents // SHARES), self._timeout_seconds)

    def _require_sound(self) -> None:
        self._service.require_running()
        if self._watch is not None:
            self._watch.look()

    def _is_delivered(self) -> bool:
        """Whether `route` has delivered all that `fingerprint` has read."""
        settings = self._service.settings
        return committed_offsets(settings) == committed_offsets(settings_of(settings, "fingerprint"))

    def _checked(self) -> int:
        """How many documents came out, each once and as by one index; those written before the call among them.

        Raises ValueError for a document that came out twice, or with another verdict; TimeoutError.
        """
        settings = self._service.settings
        awaited = written(settings) if self._service.parts else self._before
        self._records.wait_for_all(awaited, self._timeout_seconds, self._require_sound)
        outputs = delivered(self._records.headers)
        if self._one_index is not None:
            # Without a job there are no signs of life, so time stands in a partition after its last document.
            verdicts = self._one_index.decide(to_the_end=self._watch is None)
            self._expected |= by_position(settings, verdicts)
        found = {at: verdict for at, verdict in outputs.items() if at not in self._before}
        by_restored = set() if self._by_flink is None else found.keys() - self._by_flink
        if kept := require_same(found, self._expected, by_restored):
            log.info("the restored index kept %d copies of %d that another one drops", kept, len(by_restored))
        if self._watch is not None:
            self._verdicts.wait_for(len(outputs) - len(self._before), self._timeout_seconds)
            if self._verdicts.changed:
                raise ValueError(f"{self._verdicts.changed} batches were decided again, and otherwise")
        return len(outputs)


class SecondDay(Day):
    """A service that begins on Flink, with retention, and forgets and gives back."""

    def _plan(self) -> Sequence[tuple[str, Callable[[], None]]]:
        return (
            ("second day: Flink decides from the first document", self._begin_on_flink),
            ("forget documents amid the flow", self._forget),
            ("give documents back amid the flow", self._give_back),
            ("rescale from 1 task to 2", lambda: self._go_on_from_savepoint(tasks=2)),
            ("kill -9 a TaskManager", self._kill_a_task_manager),
            ("lose the state: replay everything", self._replay),
        )

    def _begin_on_flink(self) -> None:
        self._one_index = self._stack.enter_context(
            one_index(self._service.settings, self._service.directory / "one-index")
        )
        self._submit()
        self._service.begin("fingerprint", "route")
        self._let_flow()

    def _forget(self) -> None:
        assert self._one_index is not None
        self._let_flow()
        ids = [orjson.loads(each)["id"] for each in self._flow.sent if each != BROKEN][::FORGOTTEN_EVERY]
        self._tell("index", "forget", *ids)
        self._checked()
        if not self._one_index.forgotten:
            raise ValueError("the index knows none of what was forgotten")

    def _give_back(self) -> None:
        assert self._one_index is not None
        self._tell("give-back", "--since", GIVEN_BACK_SINCE)
        self._checked()
        back = given_back(self._records.headers)
        if not back or len(back) != self._one_index.given_back:
            raise ValueError(f"{len(back)} records came back, and the log has {self._one_index.given_back} of them")

    def _tell(self, *words: str) -> None:
        """Run a command that tells the job, and let documents follow."""
        command = self._service.command("decide", *words, "--flink", "--flink-address", self._flink.address)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(f"exit code {done.returncode}\n{done.stderr}")
        log.info(done.stdout.strip())
        self._let_flow()

    def _replay(self) -> None:
        repeated = self._verdicts.repeated
        self._flink.cancel(self._job)
        for state in (self._flink.checkpoints, self._flink.savepoints):
            shutil.rmtree(state)
        self._submit()
        self._let_flow()
        self._checked()
        if self._verdicts.repeated == repeated:
            raise ValueError("the job repeated no verdict: it replayed nothing")


def require_same(found: VerdictsByPosition, expected: VerdictsByPosition, by_restored: Set[str] = frozenset()) -> int:
    """Raise ValueError unless each verdict is the expected one. There may be more expected ones.

    A restored index may keep KEPT_SHARE_MAX of the documents at `by_restored` as unique. Returns how many it kept.
    """
    others = [position for position, verdict in found.items() if verdict != expected.get(position)]
    kept = {position for position in others if position in by_restored and found[position] == ("unique", None)}
    if len(kept) > KEPT_SHARE_MAX * len(by_restored):
        kept = set()
    wrong = [
        f"{position}: {found[position]}, by one index {expected.get(position)}"
        for position in others
        if position not in kept
    ]
    if wrong:
        raise ValueError(f"{len(wrong)} of {len(found)} verdicts are wrong; {wrong[0]}")
    return len(kept)


def _ended(process: "subprocess.Popen[bytes]", output: Path) -> bool:
    """Whether a command has ended well. Raises LocalFlinkError if it failed."""
    if process.poll():
        raise LocalFlinkError(f"`streamer index seed` ended with {process.returncode}: see {output}")
    return process.returncode == 0


def run(directory: Path, documents: int) -> list[Step]:
    """Run both days in a new folder, and log each step. Raises DayFailed, LocalKafkaError, LocalFlinkError."""
    with ExitStack() as stack:
        log.info("starting Kafka ...")
        kafka = stack.enter_context(LocalKafka(directory / "kafka"))
        log.info("starting Flink: a JobManager and two TaskManagers ...")
        flink = stack.enter_context(LocalFlink(directory / "flink", settings=QUICK | CLUSTER))
        log.info("Flink's page: %s; logs in %s", flink.address, directory)
        second = (*SECOND, f"index.entries_max={documents // 10}")
        steps = _run_day(Day, directory / "service", kafka, flink, documents)
        return steps + _run_day(SecondDay, directory / "second", kafka, flink, documents // 2, second)


def _run_day(
    kind: type[Day],
    directory: Path,
    kafka: LocalKafka,
    flink: LocalFlink,
    documents: int,
    overrides: Sequence[str] = (),
) -> list[Step]:
    with ExitStack() as stack:
        service = stack.enter_context(split_service(directory, kafka.bootstrap_servers, overrides))
        records = stack.enter_context(reading(service.settings))
        verdicts = stack.enter_context(Verdicts(kafka.bootstrap_servers, service.settings.topics.verdicts))
        rate = documents / FLOWING_SECONDS
        flow = stack.enter_context(Flow(service.settings, rate, again_share=AGAIN_SHARE))
        steps = []
        for step in kind(stack, service, flink, flow, records, verdicts, documents).steps():
            log.info(
                "%-50s %6.1f s, checked in %5.1f s: %7s documents came out once, as by one index",
                step.step,
                step.seconds,
                step.checking_seconds,
                f"{step.documents:,}",
            )
            steps.append(step)
        return steps


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both days; exit code 0 if every check held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=6_000, help="documents in all, at least")
    parser.add_argument(
        "--directory", type=Path, help="new folder for all data, which stays; without it the data of a failed day stay"
    )
    parser.add_argument("--json", action="store_true", help="write the steps to standard output as JSON")
    options = parser.parse_args(arguments)
    if options.directory is not None and options.directory.exists():
        parser.error(f"--directory: {options.directory} exists: name a new folder")
    log.addHandler(logging.StreamHandler())
    log.setLevel(logging.INFO)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    directory = (options.directory or Path(tempfile.mkdtemp(prefix="flink-day-"))).resolve()
    begin = time.monotonic()
    try:
        steps = run(directory, options.documents)
    except (DayFailed, LocalKafkaError, LocalFlinkError) as error:
        log.error("%s\nAll data: %s", error, directory)
        return 1
    except KeyboardInterrupt:
        log.info("stopped; all data: %s", directory)
        return 1
    log.info("every check held; %.0f s in all", time.monotonic() - begin)
    if options.directory is None:
        shutil.rmtree(directory)
    if options.json:
        print(json.dumps({"steps": [asdict(step) for step in steps]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
