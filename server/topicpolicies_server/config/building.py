"""Builds the configuration from the values in force, and completes these with what follows from others: which log is used, and where."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

from .address import ConfigError
from .callers import PROVIDERS, AuthenticationConfig, OidcConfig, TokenConfig
from .logs import EmbeddedLogConfig, OAuth2Config, PulsarLogConfig
from .option import ReadBy, options_in, options_of
from .server import GuardConfig, ServerConfig, TlsConfig
from .sources import OptionValues

_Section = TypeVar("_Section")
_NAME = "topicpolicies"


def server_config(in_force: OptionValues, environment: Mapping[str, str]) -> ServerConfig:
    """Returns the configuration of a server. Completes ``in_force`` with the values that follow from others.

    Raises:
        ConfigError: the configuration is wrong; the error has all problems.
    """
    data_folder = _complete(in_force, environment)
    wrong = _contradicts(in_force)
    values: dict[str, Any] = {name: setting.value for name, setting in in_force.settings.items()}
    if wrong:
        values["insecure_listen"] = True  # a wrong option of callers looks like none
    if values["access_log_file"] is not None and values["access_log_file"].name == "-":
        values["access_log_file"] = None
    ways = values["authentication_providers"]
    callers = _section(
        AuthenticationConfig,
        values,
        token=_section(TokenConfig, values) if "token" in ways else None,
        oidc=_section(OidcConfig, values) if "oidc" in ways else None,
        certificate="certificate" in ways,
    )
    log = _section(PulsarLogConfig if values["pulsar"] else EmbeddedLogConfig, values)
    with _added_to(in_force.problems):
        return _section(ServerConfig, values, log=log, data_folder=data_folder, authentication=callers)


def guard_config(in_force: OptionValues) -> GuardConfig:
    """Returns the configuration of a guard without a server, as ``server_config``. What only a server reads has its default."""
    settings = in_force.settings.values()
    values = {each.option.name: each.value if each.option.read_by & ReadBy.GUARD else each.option.default for each in settings}
    set_to = _set_to(in_force)
    if lacking := _lacking(PulsarLogConfig, set_to):
        in_force.problems.append(f"A guard goes {lacking}.")
    in_force.contradicted(_names(OAuth2Config), _lacking(OAuth2Config, set_to))
    with _added_to(in_force.problems):
        return _section(GuardConfig, values, log=_section(PulsarLogConfig, values))


def data_folder_of(environment: Mapping[str, str], system: str = sys.platform) -> Path:
    """Returns the user's folder for data.

    It is ``XDG_DATA_HOME`` or ``~/.local/share`` (XDG Base Directory Specification), on macOS ``~/Library/Application Support``. A relative
    ``XDG_DATA_HOME`` is ignored, as the specification demands.

    Raises:
        ConfigError: there is no such folder, as for a user without a home directory.
    """
    named = environment.get("XDG_DATA_HOME", "")
    if named.startswith("/"):
        return Path(named) / _NAME
    try:
        home = Path(environment["HOME"]) if environment.get("HOME", "").startswith("/") else Path.home()
    except RuntimeError:
        raise ConfigError(("There is no home directory to keep data in: give --data FILE.db.",)) from None
    return home / ("Library/Application Support" if system == "darwin" else ".local/share") / _NAME


def history_beside(log: Path) -> Path:
    """Returns the default path of the history: beside the embedded log's file."""
    return log.with_name(f"{log.stem}.history{log.suffix}")


def _section(section: type[_Section], values: Mapping[str, Any], **parts: Any) -> _Section:
    """Makes a section of the values of its options, and of ``parts``: what is no option. Other sections in it are made of values too.

    One that need not be there is None unless all options without which it can't be have values.
    """
    kind: type = section
    types = get_type_hints(kind)
    for field in dataclasses.fields(kind):
        if field.name not in parts and (own := options_of(kind).get(field.name)) is not None:
            parts[field.name] = values[own.name]
        elif field.name not in parts:
            (inner,) = set(get_args(types[field.name]) or [types[field.name]]) - {NoneType}
            needed = [values[each.name] for each in options_of(inner).values() if each.required]
            parts[field.name] = None if needed and not all(needed) else _section(inner, values)
    return section(**parts)


@contextmanager
def _added_to(problems: list[str]) -> Iterator[None]:
    """Raises these problems, with those of a configuration that is made meanwhile."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError((*problems, *error.problems)) from None
    if problems:
        raise ConfigError(tuple(problems))


def _contradicts(in_force: OptionValues) -> bool:
    """Adds to the problems that options are set which go only with others that are not.

    Returns whether options that protect the server may be among what is wrong.
    """
    set_to, settings = _set_to(in_force), in_force.settings
    for name in ("history", "checkpoints"):
        if set_to[f"no_{name}"]:
            in_force.contradicted([name], f"without {settings[f'no_{name}'].named}")
    if set_to["pulsar"]:
        apart = f"with the embedded log, not with {settings['pulsar'].named}: there is one change log"
        in_force.contradicted(_names(EmbeddedLogConfig), apart)
        in_force.contradicted(_names(PulsarLogConfig), _lacking(PulsarLogConfig, set_to))
    else:
        in_force.contradicted(_names(PulsarLogConfig), "with --pulsar")
    in_force.contradicted(_names(OAuth2Config), _lacking(OAuth2Config, set_to))
    wrong = [in_force.contradicted(_names(TlsConfig), _lacking(TlsConfig, set_to))]
    ways = PROVIDERS if "authentication_providers" in in_force.invalid else set_to["authentication_providers"]
    for way, kind in (("token", TokenConfig), ("oidc", OidcConfig)):
        if way in ways:
            wrong.append(in_force.contradicted(["authentication_providers"], _lacking(kind, set_to)))
        else:
            wrong.append(in_force.contradicted(_names(kind), f"with --authentication-providers {way}"))
    return bool(in_force.invalid) or any(wrong)


def _set_to(in_force: OptionValues) -> dict[str, Any]:
    """Returns the values by name; an option with an invalid one counts as set."""
    return {name: name in in_force.invalid or setting.value for name, setting in in_force.settings.items()}


def _lacking(section: type, set_to: Mapping[str, Any]) -> str:
    """Returns what the options of a section go with, for ``contradicted``; empty: nothing is missing."""
    missing = [each.flag for each in options_of(section).values() if each.required and not set_to[each.name]]
    return f"with {' and '.join(missing)}" if missing else ""


def _complete(in_force: OptionValues, environment: Mapping[str, str]) -> Path | None:
    """Completes where the log, the history and the checkpoints are. Returns the user's data folder, if no option says where the log is."""
    data, folder = in_force.settings["data"], None
    if not data.given and not in_force.settings["pulsar"].value:
        try:
            folder = data_folder_of(environment)
            in_force.settings["data"] = data = data._replace(value=folder / "policies.db")
        except ConfigError as error:
            in_force.problems += error.problems
    if isinstance(data.value, Path) and data.value.name:
        beside = {"history": history_beside(data.value), "checkpoints": data.value.with_name(f"{data.value.stem}.checkpoints")}
        for name, path in beside.items():
            kept = in_force.settings[name]
            if not kept.given and not in_force.settings[f"no_{name}"].value:
                in_force.settings[name] = kept._replace(value=path)
    return folder


def _names(section: type) -> list[str]:
    return [each.name for each in options_in(section)]
