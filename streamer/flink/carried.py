"""Settings that a flow supports. Start refuses the others, by name and reason."""

from index.dataflow import Dataflow
from streamer.errors import SettingsError
from streamer.fingerprint.scheme import parameters_for
from streamer.settings.settings import Settings


def dataflow_of(settings: Settings, **sizes: int) -> Dataflow:
    """The flow that decides by these settings; `sizes` as in `Dataflow`. Raises SettingsError, one line per problem."""
    problems = refusals(settings)
    if problems:
        raise SettingsError("\n".join(problems))
    return Dataflow(parameters_for(settings, {}), **sizes)


def refusals(settings: Settings) -> list[str]:
    """Settings that a flow cannot support, one line each."""
    index, problems = settings.index, []
    if settings.fingerprint.scheme == "minhash" and index.insert == "root" and index.templates:
        problems.append(
            "index.templates: Flink learns no frames of hosts, for a frame is learnt from all pages of a host in turn, and "
            "the flow has no place for these: set index.templates = false, or decide on one machine."
        )
    if index.recrawl != "duplicate":
        problems.append(
            f"index.recrawl: {index.recrawl}: Flink knows no older versions, for an update takes the older one's place, and "
            'the documents that resembled that one were decided elsewhere: set index.recrawl = "duplicate", or decide on one '
            "host."
        )
    if settings.guard.policy != "alert":
        problems.append(
            "guard.policy: pass: Flink watches no hosts, for a host's pages are decided in many places: set guard.policy = "
            '"alert", or decide on one host.'
        )
    if index.entries_max is not None:
        problems.append(
            "index.entries_max: Flink counts no entries, for none of its tasks knows all of them: leave it out, or decide on "
            "one host."
        )
    if index.age_max_hours is not None:
        problems.append(
            "index.age_max_hours: an age is the record time of a document's partition against that of another document, and "
            "Flink's tasks know neither: leave it out, or decide on one host."
        )
    return problems
