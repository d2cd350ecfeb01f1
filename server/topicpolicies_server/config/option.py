"""One option: a field of a section, its possible values, and how a value is read from a flag, an environment variable or a file.

A section is a dataclass whose fields are made with ``option``. The field's type is the type of the option's values, its default is the
option's, and the docstring below it is the help.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args, get_origin, get_type_hints

from .address import Address, ConfigError, is_url, parse_address

PREFIX = "TOPICPOLICIES_"
"""The prefix of the environment variables of all options."""
_SWITCHES = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}

Value: TypeAlias = int | float | bool | str | Path | Address | tuple[str, ...] | None


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
    type: Any
    """The type of the values that are not None."""
    default: Value
    help: str
    """What the option does, in short sentences; a name between double backticks is another option's."""
    section: str = ""
    """The heading that the option is shown under."""
    default_text: str = ""
    """What is shown as the default, where that depends on something else; empty: ``default`` is shown."""
    example: str = ""
    """A value, as a file writes it, for an option without a default."""
    metavar: str = ""
    """The placeholder of a value in the help of commands."""
    least: float = 0
    most: float = 0
    """The bounds of a number, both included."""
    choices: tuple[str, ...] = ()
    read_by: ReadBy = ReadBy.BOTH
    url: bool = False
    """Whether values are meant as URLs, or as addresses that may be written like one: a wrong one may have a password, and is not shown."""
    check: Callable[[Any], bool] = lambda _: True
    """Whether a value, or one of a list, is a possible one; an empty one always is."""
    wanted: str = ""
    """What ``check`` wants, for the error."""
    required: bool = False
    """Whether the section exists only if the option is set."""
    readable: bool = True
    """Whether the file of a path has to be there when a process starts; otherwise what opens it reports what is wrong."""
    secret: bool = False
    """Whether whoever reads the file can impersonate others."""

    @property
    def numeric(self) -> bool:
        """Whether the values are numbers."""
        return self.type in (int, float)

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
        if self.numeric:
            return f"{written(self.least)} to {written(self.most)}"
        return " or ".join(self.choices) or _TYPES[self.type].wanted

    def read(self, raw: object) -> Value:
        """Returns the value that the text of a flag or a variable, or a value in a file, stands for.

        Raises:
            ConfigError: it is not a possible value of this option; the error says what is.
        """
        if raw == "" and self.type is Address and self.default is None:
            return None
        value: Any = _TYPES[self.type].read(raw)
        if self.choices:
            value = next((each for each in self.choices if str(value).strip().lower() == each.lower()), None)
        if self.numeric and (value is None or not self.least <= value <= self.most):  # also refuses NaN
            raise self.refused(f"{_TYPES[self.type].wanted} from {self.least:,} to {self.most:,}", raw)
        if value is None:
            raise self.refused(self.allowed, raw)
        for part in value if self.type is tuple else (value,):
            if part and not self.check(part):
                raise self.refused(self.wanted, part)
        return cast("Value", value)

    def refused(self, wanted: str, raw: object) -> ConfigError:
        """Returns the error for something that is not a possible value; ``wanted`` says what is."""
        return ConfigError((f"{self.name} must be {wanted}." if self.url else f"{self.name} must be {wanted}, not {raw!r}.",))


def option(default: Any = dataclasses.MISSING, **declared: Any) -> Any:
    """Returns a field of a section that is an option. ``declared``: the attributes of the ``Option`` that do not follow from the field."""
    return dataclasses.field(default=default, metadata={"option": declared})


def url_of(*schemes: str, hosts: bool = False) -> dict[str, Any]:
    """Returns the attributes of an option for URLs with one of these schemes. ``hosts``: they only name hosts, with their ports."""
    end = "host:port" if hosts else "host"
    wanted = " or ".join(f"{scheme}://{end}" for scheme in schemes) + ", without credentials"
    metavar = f"{schemes[0]}://{end.upper()}"
    return {"url": True, "check": partial(is_url, schemes=schemes, hosts=hosts), "wanted": wanted, "metavar": metavar}


def section(heading: str, default: Any = dataclasses.MISSING) -> Any:
    """Returns a field of a configuration that is a section; its options, and those of sections in it, are shown under the heading."""
    return dataclasses.field(default=default, metadata={"heading": heading})


def values_in(section: Any) -> Iterator[tuple[Option, Any]]:
    """Yields the options of a section that was made, and of the sections in it, each with its value."""
    kind: type = type(section)
    for field in dataclasses.fields(section):
        value = getattr(section, field.name)
        if field.name in options_of(kind):
            yield options_of(kind)[field.name], value
        elif dataclasses.is_dataclass(value):
            yield from values_in(value)


def options_in(section: type, heading: str = "") -> Iterator[Option]:
    """Yields the options of a section and of the sections in it, each with its heading; an option may come more than once."""
    own, types = options_of(section), get_type_hints(section)
    for field in dataclasses.fields(section):
        if field.name in own:
            yield dataclasses.replace(own[field.name], section=own[field.name].section or heading)
            continue
        for part in (types[field.name], *get_args(types[field.name])):
            if dataclasses.is_dataclass(part) and isinstance(part, type):
                yield from options_in(part, field.metadata.get("heading", heading))


@cache
def options_of(section: type) -> dict[str, Option]:
    """Returns the options of a section, by the names of their fields."""
    types, found = get_type_hints(section), {}
    for each in dataclasses.fields(section):
        declared = each.metadata.get("option")
        if declared is None:
            continue
        kind = get_origin(types[each.name]) or types[each.name]
        if kind is Literal:
            kind, declared = str, {"choices": get_args(types[each.name]), **declared}
        elif kind is not tuple:
            (kind,) = set(get_args(types[each.name]) or [kind]) - {NoneType}
        known = _TYPES[kind]
        required = each.default is dataclasses.MISSING
        default = known.unset if required else each.default
        metavar = "|".join(declared.get("choices", ())) or known.metavar
        text = next((text for base in section.__mro__ if (text := _docstrings(base.__module__).get((base.__name__, each.name)))), "")
        follows = {"name": each.name, "type": kind, "default": default, "help": text, "metavar": metavar, "required": required}
        found[each.name] = Option(**follows | declared)
    return found


@cache
def _docstrings(module: str) -> dict[tuple[str, str], str]:
    """Returns the docstrings below fields by class and field; empty where the source text is not available."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError):
        return {}
    return {
        (section.name, field.target.id): " ".join(str(text.value.value).split())
        for section in tree.body
        if isinstance(section, ast.ClassDef)
        for field, text in zip(section.body, section.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }


def _number(kind: type[int | float], raw: object) -> float | None:
    try:
        return kind(raw) if isinstance(raw, (int, kind, str)) and not isinstance(raw, bool) else None
    except (ValueError, OverflowError):
        return None


def _switch(raw: object) -> bool | None:
    return _SWITCHES.get(str(raw).strip().lower()) if isinstance(raw, (bool, str)) else None


def _text(raw: object) -> str | None:
    """Returns a text in one line. Bytes of the environment that are not UTF-8 can't be sent or shown."""
    return raw if isinstance(raw, str) and raw.isprintable() else None


def _path(raw: object) -> Path | None:
    return Path(raw) if isinstance(raw, (Path, str)) and str(raw) and "\0" not in str(raw) else None


def _list(raw: object) -> tuple[str, ...] | None:
    parts = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(parts, (list, tuple)) or any(_text(each) is None for each in parts):
        return None
    return tuple(each.strip() for each in parts if each.strip())


def _address(raw: object) -> Address | None:
    try:
        return parse_address(_text(raw) or "")
    except ConfigError:
        return None


class _Type(NamedTuple):
    wanted: str
    """What the values are, for people."""
    metavar: str
    read: Callable[[object], Value]
    """Returns a value; None: the argument stands for none."""
    unset: Value = None
    """The default of an option whose field has none."""


_TYPES: dict[type, _Type] = {
    int: _Type("a whole number", "N", partial(_number, int)),
    float: _Type("a number", "N", partial(_number, float)),
    bool: _Type("true or false", "", _switch),
    str: _Type("a text", "TEXT", _text, ""),
    Path: _Type("a path", "FILE", _path),
    Address: _Type("host:port, [IPv6 address]:port or unix:/path", "HOST:PORT", _address),
    tuple: _Type("a list", "TEXT", _list, ()),
}
"""The types of options."""


def written(number: float) -> str:
    """Returns a number with its thousands separated, in a form that a file, a variable and a flag may have."""
    return f"{number:_}" if isinstance(number, int) else f"{number:_.10g}"
