"""Builds the configuration from the values in force, and completes these with what follows from others: which log is used, and where."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from .address import ConfigError
from .callers import PROVIDERS, AuthenticationConfig, AuthorizationConfig, OidcConfig, TokenConfig
from .limits import Limits
from .logs import EmbeddedLogConfig, LogConfig, OAuth2Config, PulsarLogConfig
from .option import ReadBy, options_in, options_of
from .server import AccessLogConfig, CheckpointsConfig, GuardConfig, HistoryConfig, ServerConfig, TelemetryConfig, TlsConfig
from .sources import OptionValues

_Section = TypeVar("_Section")
_NAME = "topicpolicies"


def server_config(in_force: OptionValues, environment: Mapping[str, str]) -> ServerConfig:
    """Returns the configuration of a server. Completes ``in_force`` with the values that follow from others.

    Raises:
        ConfigError: the configuration is wrong; the error has all problems.
    """
    wrong = _contradicts(in_force)
    data_folder = _complete(in_force, environment)
    values: dict[str, Any] = {name: setting.value for name, setting in in_force.settings.items()}
    tls = values["tls_certificate"] is not None and values["tls_key"] is not None
    if not tls and any(values[name] is not None for name in _names(TlsConfig)):
        in_force.problems.append("A server with TLS needs its --tls-certificate and --tls-key.")
        wrong = True
    if wrong:
        values["insecure_listen"] = True  # else a wrong option of theirs looks like none
    if values["access_log_file"] is not None and values["access_log_file"].name == "-":
        values["access_log_file"] = None
    ways = values["authentication_providers"]
    log: LogConfig = _pulsar(values) if values["pulsar"] else _section(EmbeddedLogConfig, values)
    with _added_to(in_force.problems):
        return _section(
            ServerConfig,
            values,
            log=log,
            data_folder=data_folder,
            tls=_section(TlsConfig, values) if tls else None,
            authentication=_section(
                AuthenticationConfig,
                values,
                token=_section(TokenConfig, values) if "token" in ways else None,
                oidc=_section(OidcConfig, values) if "oidc" in ways else None,
                certificate=values["certificate_role"] if "certificate" in ways else "",
            ),
            authorization=_section(AuthorizationConfig, values),
            limits=_section(Limits, values),
            history=_section(HistoryConfig, values) if values["history"] is not None else None,
            checkpoints=_section(CheckpointsConfig, values) if values["checkpoints"] is not None else None,
            access_log=_section(AccessLogConfig, values),
            telemetry=_section(TelemetryConfig, values) if values["otlp_endpoint"] else None,
        )


def guard_config(in_force: OptionValues) -> GuardConfig:
    """Returns the configuration of a guard without a server, as ``server_config``. What only a server reads has its default."""
    settings = in_force.settings.values()
    values = {each.option.name: each.value if each.option.read_by & ReadBy.GUARD else each.option.default for each in settings}
    with _added_to(in_force.problems):
        return _section(GuardConfig, values, log=_pulsar(values), limits=_section(Limits, values))


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
    """Makes a section of the values of its options, and of ``parts``, which are no options."""
    kind: type = section
    return section(**{field: values[each.name] for field, each in options_of(kind).items()}, **parts)


@contextmanager
def _added_to(problems: list[str]) -> Iterator[None]:
    """Raises these problems, with those of a configuration that is made meanwhile."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError((*problems, *error.problems)) from None
    if problems:
        raise ConfigError(tuple(problems))


def _pulsar(values: Mapping[str, Any]) -> PulsarLogConfig:
    wanted = any(values[each.name] for each in options_of(OAuth2Config).values())
    return _section(PulsarLogConfig, values, oauth2=_section(OAuth2Config, values) if wanted else None)


def _contradicts(in_force: OptionValues) -> bool:
    """Finds options that go with others which are not set. Returns whether options of callers are among them."""
    values = {name: setting.value for name, setting in in_force.settings.items()}
    if values["pulsar"]:
        pulsar = in_force.settings["pulsar"].named
        in_force.contradicted(_names(EmbeddedLogConfig), f"with the embedded log, not with {pulsar}: there is one change log")
    else:
        in_force.contradicted(_names(PulsarLogConfig), "with --pulsar")
    for name in ("history", "checkpoints"):
        if values[f"no_{name}"]:
            in_force.contradicted([name], f"without {in_force.settings[f'no_{name}'].named}")
    ways = values["authentication_providers"]
    assert isinstance(ways, tuple), "an option that is a list"
    unknown = [each for each in ways if each not in PROVIDERS]
    in_force.problems += [
        f'"{each}" is not a way to authenticate callers: --authentication-providers is {", ".join(PROVIDERS)}.' for each in unknown
    ]
    belonging = {"token": _names(TokenConfig), "oidc": _names(OidcConfig), "certificate": ["certificate_role"]}
    unused = {way: names for way, names in belonging.items() if way not in ways}
    wrong = [in_force.contradicted(names, f"with --authentication-providers {way}") for way, names in unused.items()]
    return bool(unknown) or any(wrong)


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
