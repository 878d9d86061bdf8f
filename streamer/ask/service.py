"""The HTTP API in the supervisor, with `ask.enabled`."""

from collections.abc import Collection, Sequence
from http import HTTPStatus

from streamer.ask.process import Answerer
from streamer.ask.reply import AskReply, error_reply
from streamer.ask.routes import routes_for
from streamer.ask.status import Status
from streamer.observe.application import Route
from streamer.service.state import State
from streamer.settings.settings import Settings


class AskService:
    """Routes of the API and the answering processes.

    It answers 503 without a worker, and during a restore: an incomplete index would miss duplicates.
    """

    def __init__(self, settings: Settings, status: Status) -> None:
        """Raises SettingsError for an unusable token file."""
        self._status = status
        self._answerer = Answerer(settings)
        # Reading texts from the brokers may take seconds, which checks must not wait for.
        self._with_texts = Answerer(settings) if settings.ask.texts else self._answerer
        self._answerers = list(dict.fromkeys([self._answerer, self._with_texts]))
        self._is_whole = False
        self.routes: Sequence[Route] = routes_for(settings.ask, settings.observe.host, self._ask, status.as_json)

    def attend(self, states: Collection[State]) -> None:
        """Follow the workers' states, and start or restart the processes. Call it often; it never waits."""
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

    def _ask(self, question: str, payload: bytes) -> AskReply:
        if not self._is_whole:
            message = "the service is starting, or its index is being restored: try again later"
            return error_reply(HTTPStatus.SERVICE_UNAVAILABLE, "", message)
        return (self._with_texts if question in {"document", "texts"} else self._answerer).ask(question, payload)
