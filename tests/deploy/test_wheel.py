"""The wheel: what is in it, that it works in an environment of its own, and what is left when it goes."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from trove_classifiers import classifiers, deprecated_classifiers

from tests.support.checkout import ROOT, copy_files, project_files
from tests.support.image_files import copied, let_through

# Installing and compiling in a fresh environment takes a minute, on a busy machine or over a slow line more.
pytestmark = pytest.mark.timeout(900)

DISTRIBUTION = "neardup-streamer"
PACKAGES = ("index", "streamer")
BRIDGE = (
    "The harbour bridge opened on Monday after two years of work; trams, bicycles and people on foot cross it now while "
    "heavy lorries still take the tunnel below the river until the autumn repairs end, the council said in a letter"
)
HILLS = (
    "Rain is expected over the northern hills tonight. Farmers near the old mill moved their cattle to higher fields, and "
    "schools along the valley stay closed until engineers have looked at every culvert, road and weir"
)
LINES = (
    *(json.dumps({"id": name, "text": text}) for name, text in zip("abc", (BRIDGE, f"{BRIDGE}!", HILLS), strict=True)),
    "{",
)


def run(*command: object, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command as in a shell of its own: nothing of this environment or its settings is in its way."""
    foreign = ("STREAMER_", "PYTHON", "VIRTUAL_ENV", "NUMBA_")
    clean = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    return subprocess.run(
        list(map(str, command)), cwd=cwd, env=clean | variables, capture_output=True, text=True, timeout=600
    )


def succeed(*command: object, cwd: Path) -> str:
    done = run(*command, cwd=cwd)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Environment:
    """An environment into which the wheel is installed."""

    directory: Path
    wheel: Path

    @property
    def python(self) -> Path:
        return self.directory / "bin" / "python"

    @property
    def streamer(self) -> Path:
        return self.directory / "bin" / "streamer"

    @property
    def site_packages(self) -> Path:
        (found,) = self.directory.glob("lib/python*/site-packages")
        return found

    def pip(self, *arguments: object) -> None:
        command = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", self.python)
        succeed(*command, *arguments, cwd=self.directory)

    def left(self) -> set[str]:
        """Relative paths of everything in it that belongs to the distribution or bears the name of its packages."""
        names = (*PACKAGES, "neardup*")
        files = {file for name in names for file in self.site_packages.glob(f"{name}/**/*") if file.is_file()}
        return {str(file.relative_to(self.directory)) for file in files | set(self.directory.glob("bin/streamer*"))}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a release: made from the source distribution, which is made from what git has."""
    directory = tmp_path_factory.mktemp("release")
    checkout = copy_files({file: file for file in project_files()}, directory / "checkout")
    succeed(sys.executable, "-m", "build", "--outdir", directory / "dist", checkout, cwd=directory)
    (found,) = (directory / "dist").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def image_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that pip makes and installs in the image, from nothing but the files that are copied into it."""
    directory = tmp_path_factory.mktemp("image")
    context = let_through((ROOT / "deploy" / "Dockerfile.dockerignore").read_text(encoding="utf-8"), project_files())
    tree = copy_files(copied((ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8"), context), directory / "tree")
    succeed(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", directory, tree, cwd=directory)
    (found,) = directory.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(image_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    directory = tmp_path_factory.mktemp("installed") / "environment"
    succeed(sys.executable, "-m", "venv", "--without-pip", directory, cwd=directory.parent)
    environment = Environment(directory, image_wheel)
    # Most of what the dependencies consist of is never imported: to compile all of it takes as long as the rest.
    environment.pip("install", "--no-compile", "--constraint", ROOT / "constraints.txt", image_wheel)
    return environment


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def metadata_of(wheel: Path) -> Metadata:
    (text,) = (content for name, content in contents(wheel).items() if name.endswith(".dist-info/METADATA"))
    # The same check of every field that a package index makes when something is handed in.
    return Metadata.from_email(text, validate=True)


# --- what is in it ---


def test_the_wheel_holds_every_file_of_the_packages_and_no_other_package(wheel: Path) -> None:
    tracked = {file for file in project_files() if file.split("/")[0] in PACKAGES}
    held = {name for name in contents(wheel) if ".dist-info/" not in name}

    assert held == tracked
    assert {name for name in tracked if not name.endswith(".py")} > {f"{package}/py.typed" for package in PACKAGES}


def test_the_image_installs_the_same_as_a_release(wheel: Path, image_wheel: Path) -> None:
    assert image_wheel.name == wheel.name
    # The lines of RECORD may stand in another order; it holds no more than the hashes of the others.
    ours, theirs = (
        {k: v for k, v in contents(each).items() if not k.endswith("RECORD")} for each in (wheel, image_wheel)
    )
    assert theirs == ours


def test_the_metadata_are_complete_and_a_package_index_would_take_them(wheel: Path) -> None:
    metadata = metadata_of(wheel)

    assert metadata.name == DISTRIBUTION
    assert metadata.summary
    assert metadata.keywords
    assert metadata.license_expression == "Apache-2.0"
    assert set(metadata.license_files or ()) == {path.name for path in ROOT.glob("LICENSE*")}
    assert metadata.description == (ROOT / "README.md").read_text(encoding="utf-8")
    assert metadata.description_content_type == "text/markdown"
    assert metadata.classifiers
    assert set(metadata.classifiers) <= classifiers - deprecated_classifiers.keys()
    # There is no address yet that would answer.
    assert not metadata.project_urls
    assert metadata.home_page is None


@pytest.mark.parametrize("name", ["prometheus-client", "kafka-python"])
def test_a_package_of_which_private_parts_are_used_is_pinned_exactly(wheel: Path, name: str) -> None:
    (required,) = (one for one in metadata_of(wheel).requires_dist or () if canonicalize_name(one.name) == name)
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    (tested,) = (Requirement(pin) for pin in pins if canonicalize_name(pin.split("==")[0]) == name)

    assert required.specifier == tested.specifier


# --- that it works ---


def test_the_installed_command_filters(installed: Environment, tmp_path: Path) -> None:
    (tmp_path / "news.jsonl").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    arguments = ("filter", "news.jsonl", "--out", "out", "--index", "index", "--json")
    totals = json.loads(succeed(installed.streamer, *arguments, cwd=tmp_path))

    verdicts = [json.loads(line) for line in (tmp_path / "out" / "verdicts.jsonl").read_text().splitlines()]
    assert [(one["id"], one["verdict"], one["reason"], one["original"]) for one in verdicts] == [
        ("a", "unique", "no-match", None),
        ("b", "duplicate", "similar", "a"),
        ("c", "unique", "no-match", None),
        (None, "dead-letter", "not-json", None),
    ]
    assert verdicts[1]["similarity"] == 1.0
    assert (totals["unique"], totals["duplicate"], totals["dead_letter"]) == (2, 1, 1)
    assert (tmp_path / "out" / "unique.jsonl").read_text().splitlines() == [LINES[0], LINES[2]]


def test_the_installed_command_shows_its_settings(installed: Environment, tmp_path: Path) -> None:
    chosen = ("--preset", "simhash-improved-2", "--set", "fingerprint.bits=128")
    shown = succeed(installed.streamer, *chosen, "config", "show", cwd=tmp_path)

    assert "bits = 128" in shown.splitlines()


def test_a_program_that_imports_both_packages_has_their_types(installed: Environment, tmp_path: Path) -> None:
    program = tmp_path / "consumer.py"
    shutil.copyfile(ROOT / "tests" / "support" / "consumer.py", program)
    check = (sys.executable, "-m", "mypy", "--strict", "--python-executable", installed.python, program)

    assert "Success: no issues found" in succeed(*check, cwd=tmp_path)
    assert succeed(installed.python, program, tmp_path / "index-data", cwd=tmp_path) == "1 1 unique\n"

    # Were the types not there, everything would be Any, and this would pass.
    program.write_text(program.read_text().replace("distance_max, int)", "distance_max, str)"))
    assert run(*check, cwd=tmp_path).returncode == 1


def test_a_foreign_index_is_refused_by_the_installed_command_too(installed: Environment, tmp_path: Path) -> None:
    (tmp_path / "index.py").write_text("raise SystemExit('their code ran')\n")
    done = run(installed.streamer, "config", "show", cwd=tmp_path, PYTHONPATH=str(tmp_path))

    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (os.EX_CONFIG, "", 1)
    assert str(tmp_path / "index.py") in done.stderr


# --- that it goes ---


def test_uninstalling_leaves_nothing_but_what_running_kept_for_the_next_start(
    installed: Environment, tmp_path: Path
) -> None:
    (tmp_path / "news.jsonl").write_text(f"{LINES[0]}\n", encoding="utf-8")
    succeed(installed.streamer, "filter", "news.jsonl", "--out", "out", cwd=tmp_path)
    installed.pip("uninstall", "--yes", DISTRIBUTION)
    left = installed.left()

    # Machine code, and tables of characters: no list of an installer knows them.
    kept = {(Path(file).parent.name, Path(file).suffix) for file in left}
    assert kept == {("__pycache__", suffix) for suffix in (".nbi", ".nbc", ".tables")}
    # What is left is no package: another `index` further down the path is the one that is imported.
    theirs = tmp_path / "theirs" / "index"
    theirs.mkdir(parents=True)
    (theirs / "__init__.py").write_text("WHOSE = 'theirs'\n")
    program = f"import sys; sys.path.append({str(theirs.parent)!r}); import index; print(index.WHOSE)"
    assert succeed(installed.python, "-c", program, cwd=tmp_path) == "theirs\n"

    for package in PACKAGES:
        shutil.rmtree(installed.site_packages / package)
    installed.pip("install", "--no-deps", installed.wheel)
    succeed(installed.streamer, "config", "show", cwd=tmp_path)
    installed.pip("uninstall", "--yes", DISTRIBUTION)
    folders = [installed.site_packages / package for package in PACKAGES]

    assert (installed.left(), [folder for folder in folders if folder.exists()]) == (set(), [])
    installed.pip("install", "--no-deps", installed.wheel)
