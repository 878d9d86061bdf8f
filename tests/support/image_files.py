"""Which files a container image gets: what its ignore file lets through and its Dockerfile copies.

Ignore files as moby's patternmatcher reads them, which is not as git does: patterns start at the top of the folder,
`*` stops at a slash, the last pattern that matches a path or a folder above it decides. Of the Dockerfile only plain
COPY lines of one stage are understood; anything else that copies is refused.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath


def let_through(ignore_file: str, files: Collection[str]) -> set[str]:
    """The files, relative paths, that the patterns of an ignore file leave in the build's context."""
    patterns = list(_patterns(ignore_file))
    return {file for file in files if not _ignored(file, patterns)}


def copied(dockerfile: str, context: Collection[str]) -> dict[str, str]:
    """Where in the working folder each copied file comes to stand, and its path in the context.

    Raises ValueError for a COPY or ADD that is not plain, and for a source that the context does not have.
    """
    found: dict[str, str] = {}
    for line in re.sub(r"\\\n", " ", dockerfile).splitlines():
        instruction, *words = line.split() or [""]
        if instruction not in {"COPY", "ADD"}:
            continue
        if instruction == "ADD" or words[0].startswith(("--", "[")) or words[-1].startswith("/"):
            raise ValueError(f"not a plain COPY: {line}")
        *sources, destination = words
        into_folder = destination.endswith("/") or len(sources) > 1
        for source in map(_clean, sources):
            here = {file: beneath for file in context if (beneath := _beneath(file, source)) is not None}
            if not here and "*" not in source:
                raise ValueError(f"{source} is not in the context: {line}")
            for file, beneath in here.items():
                # The contents of a folder are copied, not the folder; a file keeps its name where a folder takes it.
                name = beneath or (PurePosixPath(file).name if into_folder else "")
                found[str(PurePosixPath(destination) / name)] = file
    return found


def _beneath(file: str, source: str) -> str | None:
    """The path of a file below what a COPY names, empty if it is that itself; None if it is neither."""
    parts, wanted = PurePosixPath(file).parts, PurePosixPath(source).parts
    if len(parts) < len(wanted) or not all(map(fnmatchcase, parts, wanted)):
        return None
    return "/".join(parts[len(wanted) :])


def _patterns(ignore_file: str) -> Iterator[tuple[re.Pattern[str], bool]]:
    """Each pattern, and whether what it matches is ignored (and not let through again)."""
    for line in ignore_file.splitlines():
        pattern = line.strip()
        if pattern and not line.startswith("#"):
            excepted = pattern.startswith("!")
            yield re.compile(_expression(_clean(pattern.removeprefix("!").strip()))), not excepted


def _ignored(file: str, patterns: Sequence[tuple[re.Pattern[str], bool]]) -> bool:
    path = PurePosixPath(file)
    names = [str(each) for each in (path, *path.parents[:-1])]
    ignored = False
    for pattern, ignores in patterns:
        if any(map(pattern.fullmatch, names)):
            ignored = ignores
    return ignored


def _expression(pattern: str) -> str:
    """The pattern as a regular expression for a whole path."""
    parts = {"**/": "(.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(parts.get(token) or re.escape(token) for token in re.findall(r"\*\*/|\*\*|.", pattern))


def _clean(path: str) -> str:
    if set(path) & set("[]\\"):
        raise ValueError(f"classes and escapes are not understood: {path}")
    return str(PurePosixPath(path.lstrip("/")))
