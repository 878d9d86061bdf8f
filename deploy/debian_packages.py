"""Programs for checks from Debian's packages, unpacked into the project's cache without installation."""

import os
import shutil
import subprocess
from pathlib import Path

from deploy.cache import made


class CheckFailed(Exception):
    """A check cannot run; the message says why and what to do."""


def unpacked(package: str, folder: str, advice: str, *, needed: bool = False) -> Path:
    """Folder in the project's cache with a package's files, downloaded if missing. Raises CheckFailed.

    folder  name in the cache
    advice  alternative for people, in the error
    needed  also download its missing dependencies
    """

    def unpack(into: Path) -> None:
        if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
            raise CheckFailed(f"this is not Debian or Ubuntu: {advice}")
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
    """Download a package, with its dependencies if `needed`; returns the problem in words, or ""."""
    names, errors = [package], ""
    if needed:
        simulated = ["apt-get", "--simulate", "-o", "Debug::NoLocking=1", "install", "--no-install-recommends", package]
        listed = subprocess.run(simulated, capture_output=True, text=True, check=False)
        names = [line.split()[1] for line in listed.stdout.splitlines() if line.startswith("Inst ")]
        errors = listed.stderr.strip()
        if not names:
            return errors or "apt-get would install nothing"
    download = ["apt-get", "download", "-o", "APT::Sandbox::User=root", *names]
    outcome = subprocess.run(download, cwd=staging, capture_output=True, text=True, check=False)
    return f"{errors}{outcome.stderr.strip()}" if outcome.returncode != 0 else ""
