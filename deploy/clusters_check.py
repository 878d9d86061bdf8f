"""Check compose.yaml, the Kubernetes manifests and the systemd unit with the programs that read them.

1. Fetch kustomize, kubeconform and docker compose by Go, Kubernetes' schemas by pip, and the Prometheus operator's schemas
   by its Go module, to the project's cache. Take systemd-analyze from the PATH or Debian's package.
2. `docker compose config` reads compose.yaml.
3. kustomize builds the manifests; kubeconform validates each resource strictly.
4. `systemd-analyze verify` reads the unit, and `systemd-analyze security` rates its exposure.
5. Each program must refuse a file with a misspelt key, as a negative control.

No cluster or container engine runs.
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
"""The newest version, and the oldest with ReadWriteOncePod, which the manifests use."""

EXPOSURE_MAX = 1.5
"""The unit's maximum exposure by `systemd-analyze security`, from 0 (no rights) to 10."""


def run(*words: object, where: Path | None = None, **variables: str) -> str:
    """Run a command and return its standard output. Raises CheckFailed, with its output."""
    command = list(map(str, words))
    done = subprocess.run(command, cwd=where, env=os.environ | variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CheckFailed(f"{' '.join(command)}:\n{done.stdout[-3_000:]}{done.stderr[-3_000:]}")
    return done.stdout


def built(program: tuple[str, str, str]) -> Path:
    """Build a program in a new Go module, since `go install` refuses some of them."""
    module, version, folder = program
    if shutil.which("go") is None:
        raise CheckFailed(f"put Go on the PATH: {module} needs it to build")

    def build(into: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="go-build-") as name:
            workspace = Path(name)
            run("go", "mod", "init", "check", where=workspace)
            run("go", "get", f"{module}{folder}@{version}", where=workspace)
            run("go", "build", "-mod=mod", "-o", into, f"{module}{folder}", where=workspace, CGO_ENABLED="0")

    return made(f"{Path(module.removesuffix('/v2').removesuffix('/v5')).name}-{version}", build)


def kubernetes_schemas() -> Path:
    """Folder with JSON schemas, one subfolder per Kubernetes version."""

    def fetch(into: Path) -> None:
        with tempfile.TemporaryDirectory(dir=into.parent) as name:
            run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", name, SCHEMAS)
            for version in KUBERNETES_VERSIONS:
                (into / version).mkdir(parents=True)
                schemas = Path(name) / "kubernetes_validate" / "kubernetes-json-schema" / f"{version}-local-strict"
                for file in schemas.iterdir():
                    # References point to a server path; here they point to the same folder.
                    text = file.read_text(encoding="utf-8").replace('"/api/_definitions.json#', '"_definitions.json#')
                    schema = json.loads(text)
                    schema.pop("$id", None)
                    (into / version / file.name).write_text(json.dumps(schema), encoding="utf-8")

    return made(f"kubernetes-schemas-{SCHEMAS.split('==')[1]}", fetch)


def operator_schemas() -> Path:
    """Folder with JSON schemas for the Prometheus operator's resources, from its CRDs."""
    module, version = OPERATOR

    def fetch(into: Path) -> None:
        download = json.loads(run("go", "mod", "download", "-json", f"{module}@{version}"))
        into.mkdir()
        for kind in OPERATOR_KINDS:
            file = Path(download["Dir"]) / "example" / "prometheus-operator-crd" / f"monitoring.coreos.com_{kind}.yaml"
            specification = yaml.safe_load(file.read_text(encoding="utf-8"))["spec"]
            for each in specification["versions"]:
                name = f"{specification['names']['kind'].lower()}-monitoring-{each['name']}.json"
                (into / name).write_text(json.dumps(closed(each["schema"]["openAPIV3Schema"])))

    return made(f"operator-schemas-{version}", fetch)


def closed(schema: Any) -> Any:
    """Forbid unknown fields in a schema's objects, as strict server-side validation does."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: closed(value) for key, value in schema.items()}
    is_open = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if isinstance(schema.get("properties"), dict) and not is_open:
        strict["additionalProperties"] = False
    return strict


def check_compose(program: Path, file: Path) -> None:
    """Validate a file with docker compose. Raises CheckFailed."""
    run(program, "--file", file, "config", "--quiet")


def check_folder(kustomize: Path, kubeconform: Path, folder: str) -> None:
    """Build and check a folder's manifests, then with a misspelt key. Raises CheckFailed."""
    text = run(kustomize, "build", KUBERNETES / folder)
    print(f"kubeconform, {' and '.join(KUBERNETES_VERSIONS)}, {folder}: {check_manifests(kubeconform, text)}")
    wrong = text.replace("\nspec:\n", "\nspec:\n  misspelt: true\n", 1)
    refused(folder, lambda: check_manifests(kubeconform, wrong))


def check_manifests(kubeconform: Path, text: str) -> str:
    """Validate resources with kubeconform for each version; returns its summary. Raises CheckFailed."""
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
    """Path of systemd-analyze, and the environment variables that it needs."""
    on_path = shutil.which("systemd-analyze")
    if on_path:
        return Path(on_path), {}
    folder = unpacked("systemd", "systemd", "put systemd-analyze on the PATH", needed=True)
    libraries = [str(path) for path in folder.glob("usr/lib/*-linux-gnu")]
    return folder / "usr/bin/systemd-analyze", {
        "LD_LIBRARY_PATH": ":".join([*libraries, *(f"{p}/systemd" for p in libraries)])
    }


def check_unit(text: str) -> str:
    """Verify a unit with placeholder programs; returns its exposure. Raises CheckFailed."""
    program, variables = systemd_analyze()
    with tempfile.TemporaryDirectory(prefix="unit-") as name:
        for place in re.findall(r"/opt/neardup(/bin/\S+)", text):
            placeholder = Path(f"{name}{place}")
            placeholder.parent.mkdir(exist_ok=True)
            placeholder.touch(mode=0o755)
        file = Path(name) / UNIT.name
        file.write_text(text.replace("/opt/neardup", name), encoding="utf-8")
        done = subprocess.run(
            [program, "verify", "--man=no", file], env=os.environ | variables, capture_output=True, text=True
        )
        complaints = [line for line in done.stderr.splitlines() if UNIT.name in line]
        if done.returncode != 0 or complaints:
            raise CheckFailed(f"systemd-analyze verify: {done.stderr}")
        threshold = f"--threshold={EXPOSURE_MAX * 10:.0f}"
        ratings = run(program, "security", "--offline=yes", "--no-pager", threshold, file, **variables)
    return next(line for line in reversed(ratings.splitlines()) if "exposure" in line).strip("→ ")


def refused(what: str, check: Callable[[], object]) -> None:
    """Negative control: raise CheckFailed unless the check refuses its input."""
    try:
        check()
    except CheckFailed:
        return
    raise CheckFailed(f"{what} passed with a misspelt key: the check is ineffective")


def main() -> int:
    """Check compose.yaml, the Kubernetes manifests and the systemd unit with the programs that read them."""
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
