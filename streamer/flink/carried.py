"""Settings that a flow supports. Start refuses the others, by name and reason."""

from index.dataflow import Dataflow
from streamer.errors import SettingsError
from streamer.fingerprint.scheme import longer_of, parameters_for
from streamer.settings.settings import Settings


def dataflow_of(settings: Settings, *, seeding: bool = False, incomplete: bool = False, **sizes: int) -> Dataflow:
    """The flow that decides by these settings. Raises SettingsError, one line per problem.

    seeding     whether it begins with an index's entries
    incomplete  as in `Dataflow`, and so are `sizes`
    """
    problems = refusals(settings, seeding=seeding)
    if problems:
        raise SettingsError("\n".join(problems))
    longer, updates = longer_of(settings.index), settings.index.recrawl == "update"
    return Dataflow(parameters_for(settings, {}), longer=longer, updates=updates, incomplete=incomplete, **sizes)


def refusals(settings: Settings, *, seeding: bool = False) -> list[str]:
    """Settings that a flow cannot support, one line each."""
    index = settings.index
    refused = (
        (
            seeding and index.recrawl != "duplicate",
            f'index.recrawl: {index.recrawl}: a seed has no older versions of pages. Set index.recrawl = "duplicate", or let the '
            "job replay the fingerprints.",
        ),
        (
            settings.guard.policy != "alert",
            "guard.policy: pass: Flink watches no hosts: the pages of one are decided in many places. Set guard.policy = "
            '"alert", or decide on one host.',
        ),
        (
            settings.topics.stories is not None,
            "topics.stories: Flink counts no stories: no task sees all duplicates of a document. Unset it, or decide on one "
            "host.",
        ),
        (
            bool(index.base),
            "index.base: Flink's tasks look into no index on a disk: an entry there would have to be in their state. Leave it "
            "out, or decide on one host.",
        ),
        (
            index.entries_max is not None,
            "index.entries_max: Flink counts no entries: no task knows all of them. Leave it out, or decide on one host.",
        ),
        (
            index.age_max_hours is not None,
            "index.age_max_hours: Flink's tasks do not know the record times of each other's partitions. Leave it out, or "
            "decide on one host.",
        ),
    )
    return [problem for is_refused, problem in refused if is_refused]
