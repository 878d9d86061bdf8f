"""Build the container image without an engine, and run it as a cluster would: read-only, one volume, a nameless user.

    python -m deploy.image_check [--base BASE]        (root, on Debian or Ubuntu; it starts a broker)

1. Unpack buildah and mmdebstrap from Debian's packages into the project's cache (nothing is installed).
2. Build a base with Debian's Python, or pull the one in --base.
3. Build deploy/Dockerfile: it must refuse a base without a digest unless that is allowed.
4. Run the image's programs in its file system, read-only except the volume, with the image's environment and user.

Everything except the packages' cache is temporary. It checks the image's content, not an engine: there are no control
groups, and the network is this machine's.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy.debian_packages import CheckFailed, unpacked
from deploy.local_kafka import LocalKafka, LocalKafkaError, free_port

ROOT = Path(__file__).resolve().parent.parent
DEBIAN_BASE = "localhost/python:debian"
DEBIAN_PACKAGES = "python3,python3-pip,python-is-python3,ca-certificates"
IMAGE = "localhost/neardup-streamer:check"
CERTIFICATES = Path("/etc/ssl/certs")
VOLUME = Path("/var/lib/neardup")
ADVICE = "build the image with an engine of your own (docker build --file deploy/Dockerfile)"
READY_SECONDS = 120
AWAY_SECONDS = 15
DOCUMENTS = ROOT / "examples" / "documents.jsonl"


@dataclass(frozen=True)
class Buildah:
    """buildah with a separate store."""

    program: Path
    directory: Path

    def arguments(self, *words: object) -> list[str]:
        """Command line for buildah with these arguments."""
        store = ("--root", self.directory / "store", "--runroot", self.directory / "run", "--storage-driver", "vfs")
        return list(map(str, (self.program, *store, *words)))

    def run(self, *words: object) -> str:
        """Run a command and return its standard output. Raises CheckFailed, with its output."""
        done = subprocess.run(
            self.arguments(*words), text=True, capture_output=True, env=self._environment(), check=False
        )
        if done.returncode != 0:
            raise CheckFailed(f"buildah {words[0]}:\n{done.stdout[-2_000:]}{done.stderr[-2_000:]}")
        return done.stdout.strip()

    def policy(self) -> Path:
        """Policy file that requires no signatures."""
        file = self.directory / "policy.json"
        file.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        return file

    def _environment(self) -> dict[str, str]:
        registries = self.directory / "registries.conf"
        registries.write_text("unqualified-search-registries = []\n")
        return os.environ | {"BUILDAH_ISOLATION": "chroot", "CONTAINERS_REGISTRIES_CONF": str(registries)}

    def build(self, base: str, *, unpinned: str) -> None:
        """Build the image on a base. Raises CheckFailed if a step fails."""
        # This machine's proxy may have a CA.
        certificate = os.environ.get("PIP_CERT")
        trusted = (
            ("--volume", f"{CERTIFICATES}:{CERTIFICATES}:ro", "--env", f"PIP_CERT={certificate}") if certificate else ()
        )
        files = ("--file", ROOT / "deploy" / "Dockerfile", "--ignorefile", ROOT / "deploy" / "Dockerfile.dockerignore")
        chosen = ("--build-arg", f"BASE={base}", "--build-arg", f"UNPINNED_BASE={unpinned}", "--format", "docker")
        self.run("build", "--signature-policy", self.policy(), *files, *chosen, *trusted, "--tag", IMAGE, ROOT)


def debian_base(buildah: Buildah, mmdebstrap: Path) -> None:
    """Build a Debian image with its Python, where pip may install as in Python's official images."""
    archive = buildah.directory / "base.tar"
    allow_pip = '--customize-hook=rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED'
    chosen = ("--mode=root", "--variant=minbase", f"--include={DEBIAN_PACKAGES}", allow_pip)
    command = [str(mmdebstrap), *chosen, _codename(), str(archive)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        raise CheckFailed(f"mmdebstrap:\n{made.stderr[-2_000:]}")
    container = buildah.run("from", "--signature-policy", buildah.policy(), "scratch")
    buildah.run("add", container, archive, "/")
    buildah.run("commit", "--signature-policy", buildah.policy(), "--rm", container, DEBIAN_BASE)
    archive.unlink()


def _codename() -> str:
    lines = Path("/etc/os-release").read_text().splitlines()
    return next(line.split("=")[1] for line in lines if line.startswith("VERSION_CODENAME="))


@dataclass(frozen=True)
class Container:
    """The image's file system, mounted read-only except the volume, and its configuration."""

    root: Path
    configuration: dict[str, object]

    def command(self, *words: str, **variables: str) -> list[str]:
        """Command line to run a program in the container, with only its user and environment."""
        assignments = [*map(str, self._list("Env")), *(f"{key}={value}" for key, value in variables.items())]
        user = ("chroot", "--userspec", str(self.configuration["User"]), "--groups", "", str(self.root))
        program = ("sh", "-c", f'cd {self.configuration["WorkingDir"]} && exec "$@"', "sh", *words)
        return [*user, "env", "-i", *assignments, *program]

    def streamer(self, *words: str, **variables: str) -> list[str]:
        """Command line for the image's entry point."""
        return self.command(*map(str, self._list("Entrypoint")), *words, **variables)

    def _list(self, key: str) -> list[object]:
        values = self.configuration[key]
        assert isinstance(values, list)
        return values


@contextmanager
def container(buildah: Buildah) -> Iterator[Container]:
    """Mount the image with a read-only root, as an engine does, and an empty volume of its user."""
    configuration = json.loads(buildah.run("inspect", "--type", "image", IMAGE))["Docker"]["config"]
    if list(configuration["Volumes"]) != [str(VOLUME)]:
        raise CheckFailed(f"the image must have the one volume {VOLUME}, not {configuration['Volumes']}")
    name = buildah.run("from", "--signature-policy", buildah.policy(), "--pull-never", IMAGE)
    root = Path(buildah.run("mount", name))
    volume = buildah.directory / "volume"
    volume.mkdir()
    os.chown(volume, *map(int, configuration["User"].split(":")))
    mounts = [
        ["--bind", str(root), str(root)],
        ["-o", "remount,bind,ro", str(root)],
        ["--bind", str(volume), str(root / VOLUME.relative_to("/"))],
        ["-t", "proc", "proc", str(root / "proc")],
        ["--rbind", "/dev", str(root / "dev")],
    ]
    for mount in mounts:
        subprocess.run(["mount", *mount], check=True)
    try:
        yield Container(root, configuration)
    finally:
        for point in (root / "dev", root / "proc", root / VOLUME.relative_to("/"), root):
            subprocess.run(["umount", "--lazy", str(point)], check=False)


def expect(what: str, command: Sequence[str], code: int = 0) -> str:
    """Run a command, print its duration, and return its output. Raises CheckFailed for another exit code."""
    begun = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != code:
        raise CheckFailed(
            f"{what}: exit code {done.returncode}, not {code}\n{done.stdout[-2_000:]}{done.stderr[-2_000:]}"
        )
    print(f"{time.monotonic() - begun:6.1f} s  {what}")
    return done.stdout


def run_it(inside: Container) -> None:
    """Run the image's programs. Raises CheckFailed at the first failure."""
    expect("only the volume is writable", inside.command("sh", "-c", "! touch /opt/neardup/x /tmp/x 2>/dev/null"))
    print(expect("its program prints its versions", inside.streamer("version")).strip())
    warm_up = inside.command("python", "-m", "streamer.fingerprint.warm_up")
    expect("kernels are compiled into the volume", warm_up)
    expect("... and the next start loads them", warm_up)
    extras = ("--set", "kafka.client=confluent-kafka", "--set", "fingerprint.markup=html-main")
    expect("the extras that settings need are installed", inside.streamer(*extras, "config", "check"))
    expect("... and those of WARC and Parquet", inside.command("python", "-c", "import pyarrow.parquet, w3lib, warcio"))
    expect("its demo runs", inside.streamer("demo", "--directory", str(VOLUME / "demo")))


def serve(inside: Container, directory: Path) -> None:
    """Start the service without its broker, then start the broker, send documents, and stop the service."""
    port, kafka_port = free_port(), free_port()
    chosen = {
        "STREAMER_OBSERVE__PORT": str(port),
        "STREAMER_KAFKA__BOOTSTRAP_SERVERS": f"127.0.0.1:{kafka_port}",
        "STREAMER_KAFKA__CLIENT": "confluent-kafka",
    }
    log = directory / "service.log"
    with ExitStack() as stack, log.open("wb") as stream:
        broker = stack.enter_context(LocalKafka(directory / "kafka", port=kafka_port))
        expect("its topics are created", inside.streamer("topics", "create", **chosen))
        broker.stop()
        service = subprocess.Popen(inside.streamer("run", **chosen), stdout=stream, stderr=stream)
        stack.callback(_killed, service)
        begun = time.monotonic()
        while time.monotonic() < begun + AWAY_SECONDS:
            _wait_for(service, log, port, "/healthz", 200)
            time.sleep(1)
        _wait_for(service, log, port, "/readyz", 503)
        print(f"{AWAY_SECONDS:6.1f} s  without a broker it stays healthy and not ready")
        broker.start()
        _wait_for(service, log, port, "/readyz", 200)
        print("          with the broker it becomes ready")
        with DOCUMENTS.open("rb") as lines:
            subprocess.run(
                inside.streamer("topics", "produce", "-", **chosen), stdin=lines, check=True, capture_output=True
            )
        count = len(DOCUMENTS.read_text(encoding="utf-8").splitlines())
        deadline = time.monotonic() + READY_SECONDS
        while _delivered(port) < count:
            if time.monotonic() > deadline:
                raise CheckFailed(f"{_delivered(port)} of {count} documents came out:\n{log.read_text()[-2_000:]}")
            time.sleep(0.2)
        print(f"          all {count} documents came out")
        service.terminate()
        if (code := service.wait(60)) != 0:
            raise CheckFailed(f"the service ended with {code}:\n{log.read_text()[-2_000:]}")
        print("          SIGTERM stopped it cleanly")


def _killed(service: subprocess.Popen[bytes]) -> None:
    if service.poll() is None:
        service.kill()
        service.wait()


def _status(port: int, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def _wait_for(service: subprocess.Popen[bytes], log: Path, port: int, path: str, status: int) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while _status(port, path) != status:
        if service.poll() is not None or time.monotonic() > deadline:
            raise CheckFailed(f"{path} does not answer {status}:\n{log.read_text()[-3_000:]}")
        time.sleep(0.2)


def _delivered(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    return int(sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("neardup_documents_total")))


def check(base: str, packages: Path) -> None:
    """Build and run the image in this mount namespace. Raises CheckFailed at the first failure."""
    machine = os.uname().machine
    libraries = Path(f"/usr/lib/{machine}-linux-gnu")
    # buildah re-executes itself without an environment, so its libraries must be in the loader's default folder.
    both = f"lowerdir={packages / 'buildah'}{libraries}:{libraries}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", both, str(libraries)], check=True)
    with tempfile.TemporaryDirectory(prefix="image-check-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        directory.chmod(0o755)
        buildah = Buildah(packages / "buildah" / "usr" / "bin" / "buildah", directory)
        begun = time.monotonic()
        if base == DEBIAN_BASE:
            debian_base(buildah, packages / "mmdebstrap" / "usr" / "bin" / "mmdebstrap")
        print(f"{time.monotonic() - begun:6.1f} s  the base {base}")
        try:
            buildah.build(base.split("@")[0], unpinned="refused")
        except CheckFailed as refusal:
            if "is not pinned" not in str(refusal):
                raise
            print("          a base without a digest is refused")
        else:
            raise CheckFailed("the build accepted a base without a digest")
        begun = time.monotonic()
        buildah.build(base, unpinned="allowed" if "@sha256:" not in base else "refused")
        print(f"{time.monotonic() - begun:6.1f} s  the image")
        with container(buildah) as inside:
            run_it(inside)
            serve(inside, directory)


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the container image without an engine, and run it read-only with one volume."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument(
        "--base", default=DEBIAN_BASE, help="Python image to build on  [default: built from Debian's packages]"
    )
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    try:
        if options.inside:
            check(options.base, options.inside)
            return 0
        if os.geteuid() != 0:
            raise CheckFailed(f"run it as root, since it mounts file systems; or {ADVICE}")
        for package in ("buildah", "mmdebstrap"):
            folder = unpacked(package, package, ADVICE, needed=True)
    except (CheckFailed, LocalKafkaError) as error:
        print(error, file=sys.stderr)
        return 1
    command = [sys.executable, "-m", "deploy.image_check", "--base", options.base, "--inside", str(folder.parent)]
    return subprocess.run(["unshare", "--mount", *command], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
