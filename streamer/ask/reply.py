"""HTTP API replies: a status and JSON."""

from http import HTTPStatus
from typing import NamedTuple

from streamer.observe.application import error_body

READY = b"ready"
"""The answering process's first message."""


class AskReply(NamedTuple):
    """HTTP status and JSON body.

    >>> AskReply(HTTPStatus.OK, b"{}").status.phrase
    'OK'
    """

    status: HTTPStatus
    body: bytes


def error_reply(status: HTTPStatus, field: str, message: str) -> AskReply:
    """Error reply in the common form.

    >>> error_reply(HTTPStatus.BAD_REQUEST, "documents", "it is empty").status
    <HTTPStatus.BAD_REQUEST: 400>
    """
    return AskReply(status, error_body(field, message))
