"""The files of the project as git would hand them to somebody else."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def project_files() -> set[str]:
    """Relative paths of all files that git tracks or would track: nothing that is ignored, nothing that is gone."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return {file for file in listed.split("\0") if file and (ROOT / file).is_file()}


def copy_files(files: dict[str, str], into: Path) -> Path:
    """Copy files of the project, where each comes to stand to its path in the project, into a new folder."""
    for name, source in files.items():
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / source, into / name)
    return into
