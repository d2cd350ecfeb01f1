"""The ``repr`` of values: protobuf messages in one line, in protobuf's text format."""

from __future__ import annotations

from typing import cast

from google.protobuf import text_format
from google.protobuf.message import Message

from .secrets import FIELD, redacted
from .v1.policies_pb2 import TopicPolicies


def repr_of(value: object) -> str:
    """Returns the ``repr`` of a value; of a message, its type's name and its text format in one line, without the secrets of policies."""
    if isinstance(value, Message):
        shown = cast("Message", redacted(value)) if isinstance(value, TopicPolicies) and value.HasField(FIELD) else value
        return f"<{value.DESCRIPTOR.name} {text_format.MessageToString(shown, as_one_line=True)}>".replace(" >", ">")
    return repr(value)


def repr_with_fields(value: object, names: tuple[str, ...]) -> str:
    """Returns the ``repr`` of an object with these attributes, in the form of a dataclass's."""
    return f"{type(value).__name__}({', '.join(f'{name}={repr_of(getattr(value, name))}' for name in names)})"
