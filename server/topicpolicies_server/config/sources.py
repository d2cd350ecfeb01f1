"""The value in force of each option, and the source that set it: docs/configuration.md has the sources and their precedence.

The environment is shared with others (an orchestrator adds variables of its own), so an unknown variable is refused only if its name is
similar to an option's; the others are reported (``OptionValues.ignored``).
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from .. import files
from .address import ConfigError
from .option import PREFIX, Option, ReadBy, Value, options_in
from .server import HEADINGS, GuardConfig, ServerConfig

FILE_VARIABLE = f"{PREFIX}CONFIG"
"""The environment variable that names the file of options."""
CLIENT_VARIABLES = tuple(
    f"{PREFIX}{name}"
    for name in (
        *("SERVER", "OUTPUT", "TIMEOUT", "ACTOR", "REASON", "TOKEN_FILE"),
        *("CLIENT_TLS", "CLIENT_TLS_CA", "CLIENT_TLS_CERTIFICATE", "CLIENT_TLS_KEY", "CLIENT_TLS_SERVER_NAME"),
    )
)
"""The environment variables of the commands that call a server; they share the prefix, and are no options of a server. ``TLS_CERTIFICATE``
and ``TLS_KEY`` are: hence ``CLIENT_``."""
_ORCHESTRATORS = re.compile(r"_SERVICE_(HOST|PORT\w*)$|_PORT(_\w+)?$")
"""Variables that Kubernetes adds for each service; those of a service called ``topicpolicies`` begin with our prefix."""


Source: TypeAlias = Literal["default", "file", "environment", "flag"]
"""What set a value; of two, the later one here takes precedence."""


@cache
def options() -> dict[str, Option]:
    """Returns all options of a server and of a guard by name, in the order in which they are shown."""
    found: dict[str, Option] = {}
    for kind, command in ((ServerConfig, ReadBy.SERVE), (GuardConfig, ReadBy.GUARD)):
        for each in options_in(kind):
            before = found[each.name].read_by if each.name in found else ReadBy(0)
            found[each.name] = dataclasses.replace(each, read_by=before | each.read_by & command)
    return {each.name: each for each in sorted(found.values(), key=lambda each: HEADINGS.index(each.section))}


class Setting(NamedTuple):
    """The value in force of one option, and its source."""

    option: Option
    value: Value
    source: Source
    where: str
    """The file, the variable or the flag that set the value; of a default empty."""

    @property
    def given(self) -> bool:
        """Whether the value was set, and is not the default."""
        return self.source != "default"

    @property
    def named(self) -> str:
        """The option as its source names it: the flag, the variable, or the name in the file; of a default the flag."""
        if self.source == "file":
            return f"{self.option.name} ({self.where})"
        return self.where or self.option.flag


@dataclass(slots=True)
class OptionValues:
    """The values in force, and what is wrong with the sources."""

    settings: dict[str, Setting] = field(default_factory=dict)
    """The settings by the option's name, in the table's order; an invalid value leaves what sources of lower precedence set."""
    problems: list[str] = field(default_factory=list)
    """What is wrong, a sentence each."""
    invalid: set[str] = field(default_factory=set)
    """The options that a source sets to an invalid value, by their names."""
    ignored: list[str] = field(default_factory=list)
    """Environment variables with our prefix that belong to no option and to no command."""
    file: Path | None = None
    """The file of options; None: there is none."""

    def take(self, option: Option, raw: object, source: Source, where: str) -> None:
        """Puts a value in force, or adds to the problems that it is not a possible value of the option."""
        if option.type is Path and isinstance(raw, str) and raw:
            raw = _placed(raw, self.file.absolute().parent if self.file is not None and source == "file" else None)
        try:
            self.settings[option.name] = Setting(option, option.read(raw), source, where)
        except ConfigError as error:
            self.invalid.add(option.name)
            self.problems += [f"{problem.removesuffix('.')} ({where})." for problem in error.problems]

    def contradicted(self, names: Iterable[str], needed: str) -> bool:
        """Adds to the problems that options are set which go only with, or without, something else; returns whether there are any.

        ``needed``: what they go with, or without, for the sentence; empty: nothing.
        """
        settings = [self.settings[name] for name in names if needed]
        wrong = [each.named for each in settings if each.given and each.value != each.option.default]
        if wrong:
            self.problems.append(f"{', '.join(wrong)} {'goes' if len(wrong) == 1 else 'go'} {needed}.")
        return bool(wrong)


def nearest(text: str, names: Iterable[str]) -> str | None:
    """Returns the name that was probably meant; None: no name is similar enough."""
    found = difflib.get_close_matches(text.lower().replace("-", "_").lstrip("_"), list(names), 1, 0.75)
    return found[0] if found else None


def read_options(flags: Mapping[str, object], environment: Mapping[str, str], file: Path | None = None) -> OptionValues:
    """Returns the values in force.

    Args:
        flags: the values of flags, by the option's name; None and an empty list: the flag was not given.
        environment: the environment variables.
        file: the file of options that a flag names; None: the environment may name one.
    """
    table = options()
    in_force = OptionValues({option.name: Setting(option, option.default, "default", "") for option in table.values()})
    named = environment.get(FILE_VARIABLE, "")
    in_force.file = file or (Path(_placed(named)) if named else None)
    if in_force.file is not None:
        _read_file(in_force, in_force.file, table)
    _read_environment(in_force, environment, table)
    for name, raw in flags.items():
        if raw is not None and raw not in ([], ()):
            in_force.take(table[name], raw, "flag", "NAMESPACE..." if isinstance(raw, tuple) else table[name].flag)
    return in_force


def _read_file(in_force: OptionValues, path: Path, table: Mapping[str, Option]) -> None:
    try:
        content = files.toml(path.read_bytes().decode())
    except OSError as error:
        in_force.problems.append(f'The configuration file "{path}" can\'t be read: {error.strerror or error}.')
        return
    except UnicodeDecodeError:
        in_force.problems.append(f'The configuration file "{path}" is not UTF-8.')
        return
    except ValueError as error:  # also numbers of thousands of digits
        in_force.problems.append(f'The configuration file "{path}" is not TOML: {str(error).removesuffix(".")}.')
        return
    for key, raw in content.items():
        if key in table:
            in_force.take(table[key], raw, "file", str(path))
        elif isinstance(raw, dict):
            in_force.problems.append(f"{key!r} in {path} is a table: options are at the top level of the file.")
        else:
            near = nearest(key, table)
            hint = f"did you mean {near}?" if near else "topicpolicies config shows all options."
            in_force.problems.append(f"{key!r} in {path} is not an option: {hint}")


def _read_environment(in_force: OptionValues, environment: Mapping[str, str], table: Mapping[str, Option]) -> None:
    ours = {option.variable: option for option in table.values()}
    for variable, raw in environment.items():
        if not variable.startswith(PREFIX) or not raw or variable in (FILE_VARIABLE, *CLIENT_VARIABLES):
            continue
        if variable in ours:
            in_force.take(ours[variable], raw, "environment", variable)
        elif not _ORCHESTRATORS.search(variable) and (near := nearest(variable.removeprefix(PREFIX), table)):
            in_force.problems.append(f"{variable} is not an option: did you mean {PREFIX}{near.upper()}?")
        else:
            in_force.ignored.append(variable)


def _placed(text: str, folder: Path | None = None) -> str:
    """Returns the name of a file with ``~`` expanded, as a shell would have done, and relative to ``folder``: that of a file of options."""
    expanded = os.path.expanduser(text)  # noqa: PTH111 - that of Path raises where there is no home
    return str(folder / expanded) if folder is not None else expanded
