"""The desk: what the supervisor runs where `ask.enabled` is set."""

from collections.abc import Collection, Sequence
from http import HTTPStatus

from streamer.ask.answers import Told, told_error
from streamer.ask.process import Answerer
from streamer.ask.routes import routes_for
from streamer.ask.status import Status
from streamer.observe.application import Route
from streamer.service.loop import State
from streamer.settings.settings import Settings


class Desk:
    """Questions to a running service: its routes, and the processes that answer.

    Nobody is answered before a worker runs, nor while the index is being restored: its documents would be missing in the
    answers.
    """

    def __init__(self, settings: Settings, status: Status) -> None:
        """Raises SettingsError for a token file that cannot be used."""
        self._status = status
        self._answerer = Answerer(settings)
        # Texts are read from the brokers, which may take seconds: checks do not wait for that.
        self._with_texts = Answerer(settings) if settings.ask.texts else self._answerer
        self._answerers = list(dict.fromkeys([self._answerer, self._with_texts]))
        self._is_whole = False
        self.routes: Sequence[Route] = routes_for(settings, self._ask, status.as_json)

    def attend(self, states: Collection[State]) -> None:
        """Take note of the workers' states, and look after the processes; called all the time, never waits."""
        if State.RESTORING in states:
            self._is_whole = False
        elif State.RUNNING in states:
            self._is_whole = True
        for answerer in self._answerers:
            if self._is_whole or answerer.is_started:
                answerer.attend()
        self._status.sample()

    def end(self) -> None:
        """End the processes."""
        for answerer in self._answerers:
            answerer.end()

    def _ask(self, question: str, asked: bytes) -> Told:
        if not self._is_whole:
            words = "the service is starting, or its index is being restored: ask again later"
            return told_error(HTTPStatus.SERVICE_UNAVAILABLE, "", words)
        return (self._with_texts if question == "document" else self._answerer).ask(question, asked)
