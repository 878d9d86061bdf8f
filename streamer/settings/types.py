"""Types for settings beyond text and number: their bounds, and the accepted values in words."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from jsonpointer import JsonPointer, JsonPointerException
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field


class Section(BaseModel):
    """A group of settings: immutable, and without unknown keys. A setting's docstring is its description."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)

    @classmethod
    def __pydantic_init_subclass__(cls, **_options: Any) -> None:
        for field in cls.model_fields.values():
            field.description = " ".join((field.description or "").split())


def _pointer(text: str) -> str:
    try:
        JsonPointer(text)
    except JsonPointerException as error:
        raise ValueError(str(error)) from error
    return text


def _local(given: object) -> object:
    if given == "":
        raise ValueError("an empty path would be the current folder")
    if isinstance(given, str) and _URL.match(given):
        raise ValueError("a URL names no file or folder on this machine: only inputs may be URLs")
    return given


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def _name_of(letters_max: int) -> Any:
    title = f"a name of at most {letters_max} letters, digits, dots, underscores, hyphens"
    return Field(pattern=rf"^[A-Za-z0-9._-]{{1,{letters_max}}}$", title=title)


# A title describes the accepted values in words if type and bounds do not.
Port = Annotated[int, Field(ge=0, le=65535)]
Milliseconds = Annotated[int, Field(ge=1)]
File = Annotated[Path, Field(strict=False), BeforeValidator(_local)]
Name = Annotated[str, _name_of(200)]
Topic = Annotated[str, _name_of(249)]
Server = Annotated[str, Field(pattern=r"^(\[[0-9A-Fa-f:.]+\]|[^\s:/,]+):[0-9]{1,5}$", title="host:port")]
Pointer = Annotated[str, AfterValidator(_pointer), Field(title="a JSON pointer such as /text or /meta/title")]
Markup = Literal["auto", "none", "html", "html-main"]
TagFactors = Annotated[
    str,
    Field(
        pattern=r"^[a-z]{1,4}=[0-9]{1,2}(\.[0-9]{1,3})?(,[a-z]{1,4}=[0-9]{1,2}(\.[0-9]{1,3})?)*$",
        title="tag=factor pairs below 100, parted by commas, such as n=2,v=1.5",
    ),
]


class PlainText(str):
    """A text that is known to hold no mark-up, whatever `fingerprint.markup` says."""

    __slots__ = ()


class CalledPlain(str):
    """A text that its record calls plain. `fingerprint.markup = "auto"` believes it, other values ask no record."""

    __slots__ = ()


class CalledHtml(str):
    """A text that its record calls HTML or XHTML. `fingerprint.markup = "auto"` believes it if there is a tag."""

    __slots__ = ()
