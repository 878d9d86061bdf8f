"""Base sets when an index is opened: whether they fit, and their places in its list."""

import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from index.errors import BaseDiffersError, ParametersDifferError
from index.session import Base, OpenIndex
from index.storage import bases
from index.storage.bases import BaseName
from index.storage.parameters import Parameters
from index.storage.stamp import SECRET_BYTES, secret_of
from index.storage.store import Store


class Below(NamedTuple):
    """Base sets, open, with the secret that their fingerprints are made with.

    >>> below([], lambda folder: opened)
    Below(folders=(), opened=(), secret=None)
    """

    folders: tuple[Path, ...]
    opened: tuple[OpenIndex, ...]
    secret: bytes | None

    def close(self) -> None:
        """Close all sets."""
        for base in self.opened:
            base.store.close()

    def require_equal(self, asked: Parameters) -> None:
        """Raise BaseDiffersError unless all have these parameters. Ask before an index is made with them."""
        for folder, base in zip(self.folders, self.opened, strict=True):
            _fit(base, folder, lambda stored, where: stored.require_equal(asked, where))

    def asked(
        self,
        store: Store,
        parameters: Parameters | Callable[[bytes | None], Parameters] | None,
        secret: bytes | None,
        where: str,
        *,
        read_only: bool,
    ) -> tuple[Parameters | None, bytes | None]:
        """Parameters for an index as `Index.open` has them, and the secret that it stores, those of the sets if it is new.

        Raises BaseDiffersError before anything is stored.
        """
        secret = secret or self.secret
        if self.opened and parameters is not None and not read_only and store.is_new():
            # A set without a secret has another key than any index with one.
            assumed = secret or secrets.token_bytes(SECRET_BYTES)
            self.require_equal(parameters(assumed) if callable(parameters) else parameters)
        if callable(parameters):
            kept = secret_of(store, where, None if read_only else secret or secrets.token_bytes(SECRET_BYTES))
            return parameters(kept), kept
        return parameters, secret_of(store, where, secret)

    def sets(self, store: Store, deciding: Parameters, *, read_only: bool) -> tuple[Base, ...]:
        """The sets with their numbers in the index of this store. It notes new ones, unless it is read-only.

        Raises BaseDiffersError unless an index that decides by these parameters may look into all.
        """
        if not self.opened:
            return ()
        for folder, base in zip(self.folders, self.opened, strict=True):
            _fit(base, folder, lambda stored, where: stored.deciding(deciding, where).require_equal(deciding, where))
        identities = [base.identity for base in self.opened]
        known = store.read(bases.met)
        if not read_only and not set(identities) <= set(known):
            store.write(lambda transaction: bases.meet(transaction, identities))
            known = store.read(bases.met)
        places = {identity: place for place, identity in enumerate(dict.fromkeys([*known, *identities]))}
        return tuple(
            Base(BaseName(base.identity, folder.name), bases.first_number(places[base.identity]), base)
            for folder, base in zip(self.folders, self.opened, strict=True)
        )


def below(folders: Sequence[Path], opened: Callable[[Path], OpenIndex]) -> Below:
    """Open base sets by `opened`, which opens a folder's index for reading. A set that is named twice counts once."""
    found: dict[str, tuple[Path, OpenIndex]] = {}
    with ExitStack() as on_failure:
        for folder in dict.fromkeys(Path(os.path.realpath(folder)) for folder in folders):
            base = opened(folder)
            on_failure.callback(base.store.close)
            if base.identity in found:
                # A copy of a set that is open already.
                base.store.close()
                continue
            found[base.identity] = folder, base
            base.read(lambda session: session.tree)
            base.tree.file()
        made = [secret_of(base.store, os.fspath(folder), None) for folder, base in found.values()]
        on_failure.pop_all()
    folders_of_bases, bases_opened = tuple(zip(*found.values(), strict=True)) if found else ((), ())
    return Below(folders_of_bases, bases_opened, next((secret for secret in made if secret), None))


def _fit(base: OpenIndex, folder: Path, require: Callable[[Parameters, str], None]) -> None:
    try:
        require(base.parameters, os.fspath(folder))
    except ParametersDifferError as problem:
        raise BaseDiffersError(problem.where, problem.differences) from None
