"""Settings that follow the index in place unless they are set."""

from contextlib import suppress

from index import Index, errors
from streamer.settings.settings import Settings


def as_in_place(settings: Settings) -> Settings:
    """The settings, with `fingerprint.markup` as the index in place was made with, if it is unset.

    Its default became "auto", and an index keeps the fingerprints that it has. Without an index, or with one that cannot be read,
    the settings stay: what opens it says why.

    >>> as_in_place(Settings()).fingerprint.markup
    'auto'
    """
    directory = settings.index.directory
    if "markup" in settings.fingerprint.model_fields_set or not directory.is_dir():
        return settings
    with (
        suppress(errors.NeardupIndexError, OSError),
        Index.open(directory, None, map_bytes_max=settings.index.map_bytes_max, read_only=True) as index,
    ):
        markup = index.parameters.fingerprint.get("markup", "none").partition(",")[0]
        return settings.replaced(fingerprint={"markup": markup})
    return settings
