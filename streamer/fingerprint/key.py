"""The secret key of the hashes. Without it, anyone can compute which letters win every bin in a signature."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import xxhash

from streamer.errors import SettingsError
from streamer.fingerprint import shingle_kernels
from streamer.settings.named_files import read_named

KEY_BYTES = 16

_PUBLIC_MULTIPLIER = 0xD6E8FEB86659FD93
"""For the polynomial: an odd number with well-spread bits, from Wang Yi's and Pelle Evensen's mixers."""


@dataclass(frozen=True, slots=True)
class HashKey:
    """Numbers that make feature hashes secret, each uint64.

    multiplier  for the polynomial of letters, odd
    mask        XORed with every polynomial before mixing
    lanes       XORed with word hashes, lane by lane; empty: no second mixing
    seed        for the hash of a whole text
    digest      identifies the key without revealing it; empty for the public key

    >>> HashKey.of(bytes(16)).digest
    '6a7ab8be707cd088'
    >>> PUBLIC.stamp()
    {}
    """

    multiplier: int
    mask: int
    lanes: tuple[int, ...]
    seed: int
    digest: str

    def __repr__(self) -> str:
        return f"HashKey({self.digest or 'public'})"

    @classmethod
    def of(cls, secret: bytes) -> "HashKey":
        """Key from a secret of KEY_BYTES bytes, by BLAKE2b."""
        numbers = np.frombuffer(_derived(secret, b"numbers", 40), "<u8").tolist()
        return cls(
            numbers[0] | 1, numbers[1], (numbers[2], numbers[3]), numbers[4], _derived(secret, b"digest", 8).hex()
        )

    def stamp(self) -> dict[str, str]:
        """The key's part of a scheme's stamp; empty for the public key."""
        return {"key": self.digest} if self.digest else {}

    def salts(self, scopes: Sequence[str | None]) -> npt.NDArray[np.uint64] | None:
        """A secret number for each scope, uint64 [n]; 0 for the empty scope and for none. None if all are 0.

        >>> salts = PUBLIC.salts(["tenant-a", "", "tenant-a"])
        >>> salts[0] == salts[2] != salts[1]
        np.True_
        """
        distinct = {*scopes}
        if distinct <= {None, ""}:
            return None
        # Mixed, as the hash of a short text has the same seed.
        digests = (
            xxhash.xxh3_64_intdigest(scope.encode("utf-8", "surrogatepass"), self.seed) if scope else 0
            for scope in distinct
        )
        mixed = shingle_kernels.mix_column(np.fromiter(digests, np.uint64, len(distinct))).tolist()
        salt_of = {scope: salt if scope else 0 for scope, salt in zip(distinct, mixed, strict=True)}
        return np.fromiter(map(salt_of.__getitem__, scopes), np.uint64, len(scopes))

    def keyed(self, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Feature hashes, uint64 [features, lanes], made secret one to one: mix(hash ^ lane's number)."""
        if self.lanes:
            hashes = np.ascontiguousarray(hashes)
            shingle_kernels.key(hashes, np.array(self.lanes, np.uint64))
        return hashes


PUBLIC = HashKey(_PUBLIC_MULTIPLIER, 0, (), 0, "")
"""Key with the same fingerprints everywhere."""


def read_key(path: Path) -> bytes:
    """Secret from a key file: 32 hexadecimal digits. Raises SettingsError."""
    content = read_named("fingerprint.key_file", path)
    try:
        secret = bytes.fromhex(content.decode("ascii").strip())
    except ValueError:
        secret = b""
    if len(secret) != KEY_BYTES:
        raise SettingsError(
            f"fingerprint.key_file: {path}: a key has {2 * KEY_BYTES} hexadecimal digits. Make one with: openssl rand -hex "
            f"{KEY_BYTES}"
        )
    return secret


def _derived(secret: bytes, purpose: bytes, size: int) -> bytes:
    return hashlib.blake2b(secret, digest_size=size, person=purpose).digest()
