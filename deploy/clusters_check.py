"""Check the files that other programs read: compose.yaml, the Kubernetes manifests and the systemd unit, by those programs.

1. Fetch kustomize, kubeconform and docker compose by Go, the schemas of Kubernetes by pip, and those of the Prometheus
   operator with its Go module, into the project's cache; systemd-analyze from the PATH or from Debian's package.
2. `docker compose config` reads compose.yaml.
3. kustomize puts the manifests together; kubeconform holds each resource against its schema, unknown fields included.
4. `systemd-analyze verify` reads the unit, `systemd-analyze security` says how much it may do.
5. Each of them must refuse a file with a misspelt key: else it had looked at nothing.

No cluster and no engine runs.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from deploy.cache import made
from deploy.debian_packages import CheckFailed, unpacked

DEPLOY = Path(__file__).resolve().parent
COMPOSE = DEPLOY / "compose.yaml"
KUBERNETES = DEPLOY / "kubernetes"
UNIT = DEPLOY / "systemd" / "neardup.service"

KUSTOMIZE = ("sigs.k8s.io/kustomize/kustomize/v5", "v5.7.1", "")
KUBECONFORM = ("github.com/yannh/kubeconform", "v0.8.0", "/cmd/kubeconform")
DOCKER_COMPOSE = ("github.com/docker/compose/v2", "v2.40.3", "/cmd")
OPERATOR = ("github.com/prometheus-operator/prometheus-operator", "v0.85.0")
OPERATOR_KINDS = ("servicemonitors", "prometheusrules")
SCHEMAS = "kubernetes-validate==1.37.0"
KUBERNETES_VERSIONS = ("v1.37.0", "v1.29.0")
"""The newest, and the first that has all that the manifests use (ReadWriteOncePod)."""

EXPOSURE_MAX = 1.5
"""What `systemd-analyze security` may say of the unit, 0 (may do nothing) to 10."""


def run(*words: object, where: Path | None = None, **variables: str) -> str:
    """Standard output of a command. Raises CheckFailed, with what it said, where it fails."""
    command = list(map(str, words))
    done = subprocess.run(command, cwd=where, env=os.environ | variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CheckFailed(f"{' '.join(command)}:\n{done.stdout[-3_000:]}{done.stderr[-3_000:]}")
    return done.stdout


def built(program: tuple[str, str, str]) -> Path:
    """A program of a Go module, built in a module of its own, as some cannot be installed by name."""
    module, version, folder = program
    if shutil.which("go") is None:
        raise CheckFailed(f"put Go on the PATH: {module} is built with it")

    def build(into: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="go-build-") as name:
            there = Path(name)
            run("go", "mod", "init", "check", where=there)
            run("go", "get", f"{module}{folder}@{version}", where=there)
            run("go", "build", "-mod=mod", "-o", into, f"{module}{folder}", where=there, CGO_ENABLED="0")

    return made(f"{Path(module.removesuffix('/v2').removesuffix('/v5')).name}-{version}", build)


def kubernetes_schemas() -> Path:
    """Folder with a folder of JSON schemas for each version of Kubernetes."""

    def fetch(into: Path) -> None:
        with tempfile.TemporaryDirectory(dir=into.parent) as name:
            run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", name, SCHEMAS)
            for version in KUBERNETES_VERSIONS:
                (into / version).mkdir(parents=True)
                there = Path(name) / "kubernetes_validate" / "kubernetes-json-schema" / f"{version}-local-strict"
                for file in there.iterdir():
                    # The package serves them from an address of its own; here each stands beside what it refers to.
                    text = file.read_text(encoding="utf-8").replace('"/api/_definitions.json#', '"_definitions.json#')
                    schema = json.loads(text)
                    schema.pop("$id", None)
                    (into / version / file.name).write_text(json.dumps(schema), encoding="utf-8")

    return made(f"kubernetes-schemas-{SCHEMAS.split('==')[1]}", fetch)


def operator_schemas() -> Path:
    """Folder with JSON schemas of the Prometheus operator's resources, from the definitions that it ships."""
    module, version = OPERATOR

    def fetch(into: Path) -> None:
        told = json.loads(run("go", "mod", "download", "-json", f"{module}@{version}"))
        into.mkdir()
        for kind in OPERATOR_KINDS:
            file = Path(told["Dir"]) / "example" / "prometheus-operator-crd" / f"monitoring.coreos.com_{kind}.yaml"
            specification = yaml.safe_load(file.read_text(encoding="utf-8"))["spec"]
            for each in specification["versions"]:
                name = f"{specification['names']['kind'].lower()}-monitoring-{each['name']}.json"
                (into / name).write_text(json.dumps(closed(each["schema"]["openAPIV3Schema"])))

    return made(f"operator-schemas-{version}", fetch)


def closed(schema: Any) -> Any:
    """The schema with no other fields in its objects than it names, as a server that is asked to be strict has it."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(value) for key, value in schema.items()}
    is_open = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if isinstance(schema.get("properties"), dict) and not is_open:
        found["additionalProperties"] = False
    return found


def check_compose(program: Path, file: Path) -> None:
    """Let docker compose read a file. Raises CheckFailed."""
    run(program, "--file", file, "config", "--quiet")


def check_folder(kustomize: Path, kubeconform: Path, folder: str) -> None:
    """Put the manifests of a folder together, and check them; then with a misspelt key. Raises CheckFailed."""
    text = run(kustomize, "build", KUBERNETES / folder)
    print(f"kubeconform, {' and '.join(KUBERNETES_VERSIONS)}, {folder}: {check_manifests(kubeconform, text)}")
    wrong = text.replace("\nspec:\n", "\nspec:\n  misspelt: true\n", 1)
    refused(folder, lambda: check_manifests(kubeconform, wrong))


def check_manifests(kubeconform: Path, text: str) -> str:
    """Let kubeconform hold resources against the schemas of each version; its summary. Raises CheckFailed."""
    summary = ""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        for version in KUBERNETES_VERSIONS:
            places = (
                f"{kubernetes_schemas()}/{version}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json",
                f"{operator_schemas()}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json",
            )
            locations = [word for place in places for word in ("-schema-location", place)]
            summary = run(kubeconform, "-strict", "-summary", *locations, file.name).strip()
    return summary


def systemd_analyze() -> tuple[Path, dict[str, str]]:
    """The program, and the variables that it needs."""
    found = shutil.which("systemd-analyze")
    if found:
        return Path(found), {}
    folder = unpacked("systemd", "systemd", "put systemd-analyze on the PATH", needed=True)
    libraries = [str(path) for path in folder.glob("usr/lib/*-linux-gnu")]
    return folder / "usr/bin/systemd-analyze", {
        "LD_LIBRARY_PATH": ":".join([*libraries, *(f"{p}/systemd" for p in libraries)])
    }


def check_unit(text: str) -> str:
    """Let systemd read a unit, whose programs stand in a folder of their own; its exposure. Raises CheckFailed."""
    program, variables = systemd_analyze()
    with tempfile.TemporaryDirectory(prefix="unit-") as name:
        for place in re.findall(r"/opt/neardup(/bin/\S+)", text):
            stand_in = Path(f"{name}{place}")
            stand_in.parent.mkdir(exist_ok=True)
            stand_in.touch(mode=0o755)
        file = Path(name) / UNIT.name
        file.write_text(text.replace("/opt/neardup", name), encoding="utf-8")
        done = subprocess.run(
            [program, "verify", "--man=no", file], env=os.environ | variables, capture_output=True, text=True
        )
        complaints = [line for line in done.stderr.splitlines() if UNIT.name in line]
        if done.returncode != 0 or complaints:
            raise CheckFailed(f"systemd-analyze verify: {done.stderr}")
        threshold = f"--threshold={EXPOSURE_MAX * 10:.0f}"
        told = run(program, "security", "--offline=yes", "--no-pager", threshold, file, **variables)
    return next(line for line in reversed(told.splitlines()) if "exposure" in line).strip("→ ")


def refused(what: str, check: Callable[[], object]) -> None:
    """Make sure that a check refuses what is wrong. Raises CheckFailed where it does not."""
    try:
        check()
    except CheckFailed:
        return
    raise CheckFailed(f"{what} was let through with a misspelt key: the check looks at nothing")


def main() -> int:
    """Check compose.yaml, the Kubernetes manifests and the systemd unit by the programs that read them."""
    begun = time.monotonic()
    try:
        compose = built(DOCKER_COMPOSE)
        check_compose(compose, COMPOSE)
        with tempfile.TemporaryDirectory(prefix="compose-") as name:
            wrong = Path(name) / "compose.yaml"
            wrong.write_text(COMPOSE.read_text(encoding="utf-8").replace("restart:", "restrat:", 1))
            refused("compose.yaml", lambda: check_compose(compose, wrong))
        print("docker compose config: compose.yaml is sound")

        kustomize, kubeconform = built(KUSTOMIZE), built(KUBECONFORM)
        for folder in ("service", "parts", "monitoring"):
            check_folder(kustomize, kubeconform, folder)

        unit = UNIT.read_text(encoding="utf-8")
        print(f"systemd-analyze: {check_unit(unit)}")
        refused("the unit", lambda: check_unit(unit.replace("WatchdogSec", "WatchdgoSec")))
    except CheckFailed as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{time.monotonic() - begun:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
