"""Settings that a flow supports. Start refuses the others, by name and reason."""

from index import Retention
from index.dataflow import Dataflow, Retained
from streamer.errors import SettingsError
from streamer.fingerprint.scheme import longer_of, parameters_for, retention_of
from streamer.settings.settings import Settings

EPOCHS_IN_AGE = 8
"""Epochs in `index.age_max_hours`: alike documents are filed once in each, and one more is kept."""

EPOCH_MINUTES = 60.0
"""An epoch's length if entries leave by number alone."""


def dataflow_of(
    settings: Settings,
    *,
    incomplete: bool = False,
    epoch_minutes: float | None = None,
    **sizes: int,
) -> Dataflow:
    """The flow that decides by these settings. Raises SettingsError, one line per problem.

    seeding        whether it begins with an index's entries
    incomplete     as in `Dataflow`, and so are `sizes`
    epoch_minutes  an epoch's length with retention; None: by `EPOCHS_IN_AGE`, or EPOCH_MINUTES
    """
    problems = refusals(settings)
    if problems:
        raise SettingsError("\n".join(problems))
    longer, updates = longer_of(settings.index), settings.index.recrawl == "update"
    retained = _retained(settings, epoch_minutes)
    parameters = parameters_for(settings, {})
    return Dataflow(parameters, longer=longer, updates=updates, incomplete=incomplete, retained=retained, **sizes)


def _retained(settings: Settings, epoch_minutes: float | None) -> Retained | None:
    retention = retention_of(settings.index)
    if retention == Retention():
        return None
    if epoch_minutes is None and retention.age_max_ms is not None:
        return Retained(retention, max(1, retention.age_max_ms // EPOCHS_IN_AGE))
    return Retained(retention, max(1, round((epoch_minutes or EPOCH_MINUTES) * 60_000)))


def refusals(settings: Settings) -> list[str]:
    """Settings that a flow cannot support, one line each."""
    index = settings.index
    refused = (
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
            bool(index.protected),
            "index.protected: Flink's tasks look into no index on a disk: protected sets are asked by a service on one host. "
            "Leave it out, or decide on one host.",
        ),
    )
    return [problem for is_refused, problem in refused if is_refused]
