"""The schemes by name, and the index parameters that compare their fingerprints."""

from collections.abc import Mapping

import orjson
import xxhash

from index import FrameRule, Longer, Parameters, Retention, RootRule, minhash
from streamer.errors import SettingsError
from streamer.fingerprint.fingerprints import Scheme as Scheme
from streamer.fingerprint.key import PUBLIC, HashKey, read_key
from streamer.fingerprint.minhash.minhash import MinHasher
from streamer.fingerprint.simhash.fingerprinter import Fingerprinter
from streamer.records.relation import Measure
from streamer.settings.settings import Index, Settings
from streamer.text.normalisation import Normaliser


def scheme_for(settings: Settings, key: HashKey = PUBLIC) -> Scheme:
    """The scheme named in the settings, its tables loaded.

    key  of the index that will hold the fingerprints (`key_for`)
    """
    scheme: Scheme
    if settings.fingerprint.scheme == "minhash":
        scheme = MinHasher(settings.minhash, Normaliser(settings.fingerprint), key, crafted=settings.guard.crafted)
    else:
        look = settings.second_look.look(settings.fingerprint.second_look)
        scheme = Fingerprinter(settings.fingerprint, look, key)
    scheme.scope = settings.decode.scope
    return scheme


def knows_key(settings: Settings) -> bool:
    """Whether the settings give the hash key, so that no index needs to keep it."""
    return settings.fingerprint.key == "public" or settings.fingerprint.key_file is not None


def key_for(settings: Settings, secret: bytes | None) -> HashKey:
    """Hash key for an index's documents.

    secret  `Index.secret`; None: made with another key, or no index

    Raises SettingsError if the settings ask for the index's own secret and it has none.
    """
    if settings.fingerprint.key == "public":
        return PUBLIC
    if settings.fingerprint.key_file is not None:
        return HashKey.of(read_key(settings.fingerprint.key_file))
    if secret is None:
        raise SettingsError(
            f"fingerprint.key: the index in {settings.index.directory} keeps no secret of its own. Set fingerprint.key_file to "
            'the file that it was made with, or fingerprint.key = "public" where it was made so; or rebuild it from the '
            "output topics (streamer index rebuild DIRECTORY --topics --switch)."
        )
    return HashKey.of(secret)


def require_shared_key(settings: Settings) -> None:
    """Raise SettingsError unless processes without the index can have the key, too."""
    if not knows_key(settings):
        raise SettingsError(
            "fingerprint.key_file: the parts of a service share one key. Name a file with 32 hexadecimal digits, the same for "
            "every part (openssl rand -hex 16; for an index in use: streamer index key). Or set fingerprint.key = "
            '"public".'
        )


def settings_digest(settings: Settings, stamp: Mapping[str, str]) -> str:
    """Digest of all settings that give a record its text, id and fingerprint, and the stamp: 8 hexadecimal digits.

    A schema registry's address and its request settings do not count. The scope is in the stamp.
    """
    decode = settings.decode.model_dump(mode="json", exclude={*_OF_THE_REGISTRY, "scope"})
    return xxhash.xxh3_64_hexdigest(orjson.dumps([decode, dict(stamp)], option=orjson.OPT_SORT_KEYS))[:8]


_OF_THE_REGISTRY = {*("registry_url", "registry_user", "registry_password", "registry_cafile", "registry_timeout_ms")}


def parameters_for(settings: Settings, stamp: dict[str, str]) -> Parameters:
    """Parameters for the index. Bands follow from the number of bins and from `similarity_min`."""
    index, chosen = settings.index, settings.minhash
    if settings.fingerprint.scheme == "minhash":
        banding = minhash.banding_for(chosen.bins, chosen.bin_bits, chosen.similarity_min)
        distance_max = minhash.distance_of(chosen.similarity_min)
        rule = _root_rule(index, distance_max, minhash.distance_of(index.root_similarity_min))
        frames = FrameRule() if index.templates and rule is not None else None
        return Parameters(banding.bits, distance_max, index.insert, stamp, banding, root=rule, frames=frames)
    bits, look = settings.fingerprint.bits, settings.second_look.look(settings.fingerprint.second_look)
    farthest = min(bits, 2 * index.distance_max) if index.root_distance_max is None else index.root_distance_max
    rule = _root_rule(index, index.distance_max, farthest)
    return Parameters(bits, index.distance_max, index.insert, stamp, look=look, root=rule)


def scheme_with_parameters(settings: Settings, key: HashKey = PUBLIC) -> tuple[Scheme, Parameters]:
    """The scheme for the settings, and the parameters of an index that holds its fingerprints."""
    scheme = scheme_for(settings, key)
    return scheme, parameters_for(settings, scheme.stamp())


def longer_of(settings: Index) -> Longer | None:
    """Configured growth and new text from which a document extends its original."""
    growth = max(1, round(settings.longer_min * 10_000)) if settings.longer == "pass" else 0
    new_max = round(settings.new_max * 10_000)
    return Longer(growth, new_max) if growth or new_max < 10_000 else None


def retention_of(settings: Index) -> Retention:
    """Configured retention; an age is at least one millisecond."""
    hours = settings.age_max_hours
    return Retention(settings.entries_max, None if hours is None else max(1, round(hours * 3_600_000)))


def measure_of(settings: Settings, parameters: Parameters) -> Measure:
    """What the numbers of an index's decisions mean."""
    return Measure(parameters.by_similarity, parameters.banding is not None, settings.index.longer_min)


def _root_rule(index: Index, distance_max: int, root_distance_max: int) -> RootRule | None:
    """Limits with insert = "root": members lie more than a third of the radius from their matches."""
    return RootRule(root_distance_max, distance_max // 3) if index.insert == "root" else None
