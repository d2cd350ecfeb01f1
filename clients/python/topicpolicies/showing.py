"""How values are shown to whoever looks at them: messages in one line, as their text form has them."""

from __future__ import annotations

from google.protobuf import text_format
from google.protobuf.message import Message


def shown(value: object) -> str:
    """A value as a ``repr`` has it; a message with its name, in one line."""
    if isinstance(value, Message):
        return f"<{value.DESCRIPTOR.name} {text_format.MessageToString(value, as_one_line=True)}>".replace(" >", ">")
    return repr(value)


def fields(value: object, names: tuple[str, ...]) -> str:
    """An object of these attributes, as a dataclass is shown."""
    return f"{type(value).__name__}({', '.join(f'{name}={shown(getattr(value, name))}' for name in names)})"
