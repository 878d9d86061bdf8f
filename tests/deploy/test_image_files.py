"""What the container image is made of."""

import pytest

from tests.support.checkout import ROOT, project_files
from tests.support.image_files import copied, let_through

DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
IGNORE_FILE = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text(encoding="utf-8")
LITTER = {
    "index/__pycache__/kernels.cpython-312.pyc",
    "streamer/__pycache__/kernels.scan-9.py312.nbi",
    "streamer/text/__pycache__/text.cpython-312.pyc",
    ".venv/lib/index/entry.py",
    "build/lib/streamer/cli.py",
    "demo-output/streamer/documents.jsonl",
    "neardup_streamer.egg-info/PKG-INFO",
}


def packaged(files: set[str]) -> set[str]:
    return {file for file in files if file.startswith(("streamer/", "index/"))}


def test_the_image_gets_every_file_of_the_packages_and_what_installing_them_needs() -> None:
    files = project_files()
    top = {"pyproject.toml", "constraints.txt", "README.md"} | {file for file in files if file.startswith("LICENSE")}
    tree = copied(DOCKERFILE, let_through(IGNORE_FILE, files | LITTER))

    assert set(tree) == packaged(files) | top
    assert all(name == source for name, source in tree.items())


def test_data_that_moves_into_a_new_folder_still_gets_into_the_image() -> None:
    moved = {"streamer/demo/stories/chinese.toml", "streamer/fingerprint/methods/markers.txt", "index/lsm/py.typed"}
    files = project_files() | moved

    assert moved <= set(copied(DOCKERFILE, let_through(IGNORE_FILE, files)))


def test_an_ignore_file_that_lists_kinds_of_files_loses_the_others() -> None:
    listed = "*\n!pyproject.toml\n!constraints.txt\n!README.md\n!index/*.py\n!streamer/*.py\n!streamer/py.typed\n"
    files = {"streamer/cli.py", "streamer/markers.txt", "streamer/demo/documents.py", "streamer/py.typed"}

    assert let_through(listed, files) == {"streamer/cli.py", "streamer/py.typed"}


# --- the ignore file, by the examples of Docker's reference ---


@pytest.mark.parametrize(
    ("ignore_file", "files", "left"),
    [
        pytest.param("# comment\n*/temp*", "a/temporary.txt a/b/temp temp", "a/b/temp temp", id="one level down"),
        pytest.param("*/*/temp*", "a/b/temporary.txt a/temp", "a/temp", id="two levels down"),
        pytest.param("temp?", "tempa tempb temp tempab", "temp tempab", id="one character"),
        pytest.param("**/*.go", "a.go b/a.go b/c/a.go a.py", "a.py", id="any level"),
        pytest.param("/a/b", "a/b/c a/c x/a/b", "a/c x/a/b", id="from the top"),
        pytest.param("a", "a/b/c b/a", "b/a", id="all of a folder"),
        pytest.param("a/**", "a/b a/b/c b", "b", id="all beneath"),
        pytest.param("*.md\n!README.md", "README.md other.md a/other.md", "README.md a/other.md", id="exception"),
        pytest.param(
            "*.md\n!README*.md\nREADME-secret.md", "README.md README-secret.md", "README.md", id="the last one decides"
        ),
        pytest.param(
            "*.md\nREADME-secret.md\n!README*.md",
            "README.md README-secret.md",
            "README.md README-secret.md",
            id="the last one decides, too",
        ),
        pytest.param("*\n!a\n**/x", "a/b a/x a/b/x/c b", "a/b", id="a folder let through again"),
    ],
)
def test_patterns_of_an_ignore_file_mean_what_docker_says(ignore_file: str, files: str, left: str) -> None:
    assert let_through(ignore_file, files.split()) == set(left.split())


# --- COPY ---


def test_a_folder_is_copied_by_its_contents_and_a_file_into_a_folder_by_its_name() -> None:
    dockerfile = "COPY a/x y* \\\n  ./\nCOPY b ./c\nCOPY d e\n"

    assert copied(dockerfile, ["a/x", "yy", "b/z/f", "d", "other"]) == {
        "x": "a/x",
        "yy": "yy",
        "c/z/f": "b/z/f",
        "e": "d",
    }


@pytest.mark.parametrize("line", ["COPY --from=x a b", 'COPY ["a", "b"]', "ADD a b", "COPY a /b", "COPY gone ./"])
def test_what_is_not_understood_or_not_there_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"COPY|context"):
        copied(line, ["a"])
