"""Programs that checks need, from Debian's packages, unpacked into the project's cache; nothing is installed."""

import os
import shutil
import subprocess
from pathlib import Path

from deploy.cache import made


class CheckFailed(Exception):
    """A check cannot run; the message says why and what to do."""


def unpacked(package: str, folder: str, advice: str, *, needed: bool = False) -> Path:
    """Folder of the project's cache with the files of a package, fetched where it is not there yet. Raises CheckFailed.

    folder  its name in the cache
    advice  what else a person may do
    needed  also fetch the packages that it needs and that are not installed
    """

    def unpack(into: Path) -> None:
        if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
            raise CheckFailed(f"this is no Debian or Ubuntu: {advice}")
        staging = into.parent
        problem = _downloaded(package, staging, needed=needed)
        if problem and os.geteuid() == 0:
            subprocess.run(["apt-get", "update"], capture_output=True, check=False)
            problem = _downloaded(package, staging, needed=needed)
        if problem:
            raise CheckFailed(
                f"cannot download Debian's package {package}: {problem}\n"
                f"Run `apt-get update` as root and try again, or {advice}."
            )
        for each in staging.glob("*.deb"):
            subprocess.run(["dpkg-deb", "--extract", str(each), str(into)], check=True)

    return made(folder, unpack)


def _downloaded(package: str, staging: Path, *, needed: bool) -> str:
    """Download a package, perhaps with those that it needs; the problem in words, or nothing."""
    names, said = [package], ""
    if needed:
        simulated = ["apt-get", "--simulate", "-o", "Debug::NoLocking=1", "install", "--no-install-recommends", package]
        listed = subprocess.run(simulated, capture_output=True, text=True, check=False)
        names = [line.split()[1] for line in listed.stdout.splitlines() if line.startswith("Inst ")]
        said = listed.stderr.strip()
        if not names:
            return said or "apt-get would install nothing"
    download = ["apt-get", "download", "-o", "APT::Sandbox::User=root", *names]
    outcome = subprocess.run(download, cwd=staging, capture_output=True, text=True, check=False)
    return f"{said}{outcome.stderr.strip()}" if outcome.returncode != 0 else ""
