"""Packages of others that are missing or broken: where they are looked for, and the words that name the repair.

What a setting or an input needs is imported before the first record (`lack_of`, `require_package`). A setting for pages that
may never come asks only whether their parser is there. All else is imported where it is used, and each process asks at its end
whether an import ended it (`imports_named`).
"""

import importlib
import importlib.metadata
import importlib.util
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from streamer.errors import SettingsError

IMPORT_ERRORS = (
    ImportError,
    OSError,
    AttributeError,
    LookupError,
    NameError,
    RuntimeError,
    SyntaxError,
    SystemError,
    TypeError,
    ValueError,
)
"""What a package that is damaged, or that another release of Python or numpy was for, raises while it is imported."""

_OURS = {"streamer", "index", "__main__"}
_NAME = re.compile(r"[A-Za-z0-9._-]+")


class _Feature(NamedTuple):
    modules: tuple[str, ...]
    packages: tuple[str, ...]


_FEATURES = {
    "confluent": _Feature(("confluent_kafka",), ("confluent-kafka",)),
    "html": _Feature(("trafilatura", "lxml.html"), ("trafilatura", "lxml", "lxml-html-clean")),
    "parquet": _Feature(("pyarrow.parquet",), ("pyarrow",)),
    "registry": _Feature(("fastavro",), ("fastavro",)),
    "remote": _Feature(("fsspec", "aiohttp", "s3fs"), ("fsspec", "s3fs", "aiohttp")),
    "warc": _Feature(("warcio.recordloader", "brotli", "chardetng_py"), ("warcio", "brotli", "chardetng-py")),
}


def lack_of(feature: str, leave_out: Sequence[str] = (), *, by_name: bool = False) -> str:
    """What is wrong with a feature's packages, after "needs"; empty if all can be imported. Imports them.

    leave_out  modules that are not needed this time
    by_name    look only whether the packages are there: for an input that may never come

    >>> lack_of("warc")
    ''
    """
    modules = [each for each in _FEATURES[feature].modules if each not in leave_out]
    names = [each.partition(".")[0] for each in modules]
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        are = "the package {}, which is not" if len(missing) == 1 else "the packages {}, which are not"
        return f"{are.format(' and '.join(missing))} installed: {install_command(feature)}"
    for module, name in () if by_name else zip(modules, names, strict=True):
        try:
            importlib.import_module(module)
        except IMPORT_ERRORS as error:
            return f"the package {name}, which {_broken(name, _culprit(error)[1] or name, error)}"
    return ""


def require_package(needed_by: str, feature: str, *, by_name: bool = False) -> None:
    """Raise SettingsError for what `lack_of` finds. `needed_by` begins the sentence."""
    if lack := lack_of(feature, by_name=by_name):
        raise SettingsError(f"{needed_by} needs {lack}")


def failed_import(error: BaseException) -> str:
    """What to say of an error that a package of others raised while it was imported. Empty for any other error.

    >>> failed_import(ModuleNotFoundError("No module named 'orjson'", name="orjson")).partition(":")[0]
    'the package orjson cannot be imported (ModuleNotFoundError'
    >>> failed_import(ValueError("of our own"))
    ''
    """
    asked, culprit = _culprit(error)
    if not asked or asked in _OURS:
        return ""
    return f"the package {asked} {_broken(asked, culprit, error)}"


@contextmanager
def imports_named() -> Iterator[None]:
    """Raise SettingsError in place of an error that a package of others raised while it was imported."""
    try:
        yield
    except IMPORT_ERRORS as error:
        if words := failed_import(error):
            raise SettingsError(words) from error
        raise


def install_command(feature: str) -> str:
    """Command for a shell that installs what a feature needs, in the tested releases, for the Python that runs.

    >>> install_command("warc").partition(" -m ")[2]
    "pip install warcio==1.8.1 'brotli>=1.2' chardetng-py==0.3.5"
    """
    return _pip("install", *_FEATURES[feature].packages)


def _culprit(error: BaseException) -> tuple[str, str]:
    """The package of others that we imported amid an error, and the one that it imported in turn and that failed. Or empty."""
    names: list[str] = []
    at = error.__traceback__
    while at is not None:
        name = str(at.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        if at.tb_frame.f_code.co_name == "<module>" and name not in _OURS:
            names.append(name)
        at = at.tb_next
    if isinstance(error, ImportError) and error.name:
        names.append(error.name.partition(".")[0])
    if not names:
        return "", ""
    # Of what is not here, only its user says by which name it is installed.
    here = {*sys.stdlib_module_names, *_distributions()}
    return names[0], next((name for name in reversed(names) if name in here), names[0])


def _distributions() -> Mapping[str, Sequence[str]]:
    with suppress(OSError, ValueError):
        return importlib.metadata.packages_distributions()
    return {}


def _broken(asked: str, culprit: str, error: BaseException) -> str:
    words = (str(error).splitlines() or [""])[0][:300]
    found = None
    with suppress(ImportError, ValueError):
        found = importlib.util.find_spec(culprit)
    place = f", in {found.origin}" if found is not None and found.has_location else ""
    through = f", for {culprit} cannot" if culprit != asked else ""
    reason = f"cannot be imported{through} ({type(error).__name__}: {words}{place})"
    if culprit in sys.stdlib_module_names:
        return f"{reason}. That is Python's own: run `streamer` with a Python that has all its modules."
    packages = dict.fromkeys(_distributions().get(culprit) or [culprit])
    return f"{reason}. Install it again: {_pip('install', '--force-reinstall', *packages)}"


def _pip(*words: str) -> str:
    # An extra's name would not do: the program may be installed from a folder that no index knows.
    requirements: list[str] = []
    with suppress(importlib.metadata.PackageNotFoundError):
        requirements = importlib.metadata.requires("neardup-streamer") or []
    pinned: dict[str, str] = {}
    for each in requirements:
        pinned.setdefault(_plain(_NAME.match(each)[0]), each.partition(";")[0].strip())  # type: ignore[index]
    return shlex.join([sys.executable, "-m", "pip", *(pinned.get(_plain(each), each) for each in words)])


def _plain(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()
