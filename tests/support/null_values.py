"""Records without key and value, which `KafkaProducer.send` refuses to take as None."""

from typing import Any

from kafka.serializer import Serializer

NULL_VALUE: Any = object()
"""Value to send in place of None, by a producer with the serializer below."""


class NullValueSerializer(Serializer):  # type: ignore[misc]
    def serialize(self, _topic: str, _headers: list[tuple[str, bytes]], data: Any) -> bytes | None:
        return None if data is NULL_VALUE else data
