"""One option: its name, its possible values, and how a value is read from a flag, an environment variable or a file."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from .address import Address, parse_address
from .errors import ConfigError
from .urls import meant_as_url, without_credentials

PREFIX = "TOPICPOLICIES_"
"""The prefix of the environment variables of all options."""
_WHOLE = re.compile(r"[+-]?[0-9]+(_[0-9]+)*")
_YES = frozenset({"true", "yes", "on", "1"})
_NO = frozenset({"false", "no", "off", "0"})
_LONGEST_QUOTED = 60

Value: TypeAlias = int | float | bool | str | Path | Address | tuple[str, ...] | None


class Kind(enum.Enum):
    """The type of an option's values."""

    WHOLE = "whole number"
    NUMBER = "number"
    SWITCH = "true or false"
    TEXT = "text"
    FILE = "file"
    FOLDER = "directory"
    ADDRESS = "address"
    CHOICE = "choice"
    LIST = "list"


class ReadBy(enum.Flag):
    """Which commands read an option."""

    SERVE = enum.auto()
    GUARD = enum.auto()
    BOTH = SERVE | GUARD


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option. Its name is the same everywhere: ``max_watches``, ``TOPICPOLICIES_MAX_WATCHES``, ``--max-watches``."""

    name: str
    """The key in a file; it includes the unit."""
    kind: Kind
    help: str
    """What the option does, in short sentences; a name between double backticks is another option's."""
    section: str
    """The heading that the option is shown under."""
    default: Value = None
    default_text: str = ""
    """What is shown as the default, where that depends on something else; empty: ``default`` is shown."""
    example: str = ""
    """A value, as a file writes it, for an option without a default."""
    metavar: str = "TEXT"
    """The placeholder of a value in the help of commands."""
    least: float = 0
    most: float = 0
    """The bounds of a number, both included."""
    choices: tuple[str, ...] = ()
    read_by: ReadBy = ReadBy.BOTH
    url: bool = False
    """Whether values are meant as URLs, or as addresses that may be written like one. What they have before ``@`` is not shown."""
    given_globally: bool = False
    """Whether its flag is one of the global options of the command line."""
    argument: bool = False
    """Whether the command ``guard`` takes the values as arguments instead of as a flag."""

    @property
    def flag(self) -> str:
        """The option's flag on the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """The option's environment variable."""
        return PREFIX + self.name.upper()

    @property
    def allowed(self) -> str:
        """The possible values, for people."""
        if self.kind in (Kind.WHOLE, Kind.NUMBER):
            return f"{written(self.least)} to {written(self.most)}"
        return " or ".join(self.choices) if self.choices else self.kind.value

    def read(self, raw: object) -> Value:
        """Returns the value that a text or a value of a file stands for.

        Args:
            raw: the text of a flag or a variable, or the value in a file.

        Raises:
            ConfigError: it is not a possible value of this option; the error says what is.
        """
        value = _READERS[self.kind](self, raw)
        if isinstance(value, (int, float)) and self.kind in (Kind.WHOLE, Kind.NUMBER) and not self.least <= value <= self.most:
            raise self.refused(f"from {self.least:,} to {self.most:,}", raw)  # also refuses NaN
        return value

    def refused(self, wanted: str, raw: object) -> ConfigError:
        """Returns the error for something that is not a possible value; ``wanted`` says what is."""
        given = (meant_as_url if self.url else without_credentials)(_quoted(raw))
        told = given if len(given) <= _LONGEST_QUOTED else f"{given[:_LONGEST_QUOTED]}..."
        return ConfigError((f"{self.name} must be {wanted}, not {told}.",))


def _quoted(raw: object) -> str:
    """Returns a wrong value as it is shown."""
    try:
        return repr(raw)
    except ValueError:  # Python writes no number of that many digits
        return "a number of very many digits"


def _whole(option: Option, raw: object) -> Value:
    if isinstance(raw, str) and _WHOLE.fullmatch(raw.strip()) and len(raw) < _LONGEST_QUOTED:
        return int(raw)
    if isinstance(raw, int) and not isinstance(raw, bool):
        return raw
    raise option.refused("a whole number", raw)


def _number(option: Option, raw: object) -> Value:
    if isinstance(raw, (int, float, str)) and not isinstance(raw, bool):
        try:
            return float(raw)
        except (ValueError, OverflowError):
            pass
    raise option.refused("a number", raw)


def _switch(option: Option, raw: object) -> Value:
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and raw.strip().lower() in _YES | _NO:
        return raw.strip().lower() in _YES
    raise option.refused("true or false", raw)


def _text(option: Option, raw: object) -> Value:
    if isinstance(raw, str) and _is_text(raw):
        return raw
    raise option.refused("a text", raw)


def _path(option: Option, raw: object) -> Value:
    if isinstance(raw, Path):
        return raw
    if isinstance(raw, str) and raw and "\0" not in raw:
        return Path(raw)
    raise option.refused(f"the name of a {option.kind.value}", raw)


def _address(option: Option, raw: object) -> Value:
    if raw == "" and option.default is None:
        return None
    if not isinstance(raw, str) or not _is_text(raw):
        raise option.refused("an address", raw)
    try:
        return parse_address(raw)
    except ConfigError as error:
        raise ConfigError(tuple(f"{option.name}: {problem}" for problem in error.problems)) from None


def _choice(option: Option, raw: object) -> Value:
    if isinstance(raw, str) and raw.strip().lower() in option.choices:
        return raw.strip().lower()
    raise option.refused(" or ".join(option.choices), raw)


def _list(option: Option, raw: object) -> Value:
    parts = raw.split(",") if isinstance(raw, str) else raw
    if isinstance(parts, (list, tuple)) and all(isinstance(each, str) and _is_text(each) for each in parts):
        return tuple(each.strip() for each in parts if each.strip())
    raise option.refused("a list of texts", raw)


_READERS: dict[Kind, Callable[[Option, object], Value]] = {
    Kind.WHOLE: _whole,
    Kind.NUMBER: _number,
    Kind.SWITCH: _switch,
    Kind.TEXT: _text,
    Kind.FILE: _path,
    Kind.FOLDER: _path,
    Kind.ADDRESS: _address,
    Kind.CHOICE: _choice,
    Kind.LIST: _list,
}


def _is_text(raw: str) -> bool:
    """Whether a text is Unicode, in one line. Bytes of the environment that are not UTF-8 can't be sent or shown."""
    return not any("\ud800" <= character <= "\udfff" or character in "\0\r\n" for character in raw)


def written(number: float) -> str:
    """Returns a number with its thousands separated, in a form that a file, a variable and a flag may have."""
    return f"{number:_}" if isinstance(number, int) else f"{number:_.10g}"
