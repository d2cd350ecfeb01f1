"""Builds the configuration from the values in force, and completes these with what follows from others: which log is used, and where.

All problems are reported at once: values that can't be read, and contradictions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePath, PureWindowsPath
from typing import Any, TypeVar

from .authentication import PROVIDERS, AuthenticationConfig, OidcConfig, Providers, TokenConfig
from .authorization import AuthorizationConfig
from .errors import ConfigError
from .limits import Limits
from .logs import EmbeddedLogConfig, LogConfig, OAuth2Config, PulsarLogConfig
from .option import ReadBy, options_of
from .server import (
    AccessLogConfig,
    CheckpointsConfig,
    GuardConfig,
    HistoryConfig,
    Omitted,
    ServerConfig,
    TelemetryConfig,
    TlsConfig,
)
from .sources import OptionValues

_Section = TypeVar("_Section")
_EMBEDDED = [each.name for each in options_of(EmbeddedLogConfig).values()]
_PULSAR = [each.name for section in (PulsarLogConfig, OAuth2Config) for each in options_of(section).values()]
_BY_BROKERS = ["authorization_by_brokers", "superuser_roles", "namespace_roles_may_read"]
_WAYS = {"token": TokenConfig, "oidc": OidcConfig}
_NAME = "topicpolicies"


def server_config(in_force: OptionValues, environment: Mapping[str, str]) -> ServerConfig:
    """Returns the configuration of a server. Completes ``in_force`` with the values that follow from others.

    Raises:
        ConfigError: the configuration is wrong; the error has all problems.
    """
    data_folder = _choose_log(in_force, environment)
    _derive_path(in_force, "history")
    _derive_path(in_force, "checkpoints")
    values: dict[str, Any] = {name: setting.value for name, setting in in_force.settings.items()}
    log, wrong_log = _log(in_force, values)
    tls, wrong_tls = _tls(values)
    authentication, wrong_ways = _authentication(in_force, values)
    if wrong_log:
        values["guard"] = ()
    if wrong_tls or wrong_ways:
        values["insecure_listen"] = True  # else a wrong option of theirs looks like none
    if values["access_log_file"] is not None and values["access_log_file"].name == "-":
        values["access_log_file"] = None
    omitted = _section(Omitted, values)
    with _added_to(in_force.problems + wrong_log + wrong_tls + wrong_ways):
        return _section(
            ServerConfig,
            values,
            log=log,
            data_folder=data_folder,
            tls=tls,
            authentication=authentication,
            authorization=_section(AuthorizationConfig, values),
            limits=_section(Limits, values),
            history=_section(HistoryConfig, values) if values["history"] is not None and not omitted.no_history else None,
            checkpoints=_section(CheckpointsConfig, values) if values["checkpoints"] is not None and not omitted.no_checkpoints else None,
            access_log=_section(AccessLogConfig, values),
            telemetry=_section(TelemetryConfig, values) if values["otlp_endpoint"] else None,
        )


def guard_config(in_force: OptionValues) -> GuardConfig:
    """Returns the configuration of a guard without a server. What only a server reads has its default.

    Raises:
        ConfigError: the configuration is wrong; the error has all problems.
    """
    settings = in_force.settings.values()
    values = {each.option.name: each.value if each.option.read_by & ReadBy.GUARD else each.option.default for each in settings}
    with _added_to(in_force.problems):
        return _section(GuardConfig, values, log=_pulsar(values), limits=_section(Limits, values))


def data_folder_of(environment: Mapping[str, str], system: str = sys.platform) -> PurePath:
    """Returns the user's folder for data, by the convention of each operating system.

    ``XDG_DATA_HOME`` or ``~/.local/share`` (XDG Base Directory Specification), ``~/Library/Application Support`` on macOS, ``LOCALAPPDATA``
    on Windows. A relative ``XDG_DATA_HOME`` is ignored, as the specification demands.

    Raises:
        ConfigError: there is no such folder, as for a user without a home directory.
    """
    if system == "win32":
        local = environment.get("LOCALAPPDATA", "")
        if PureWindowsPath(local).is_absolute():
            return PureWindowsPath(local) / _NAME
        raise ConfigError(("There is no LOCALAPPDATA to keep data in: give --data FILE.db.",))
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


def _choose_log(in_force: OptionValues, environment: Mapping[str, str]) -> Path | None:
    """Resets the options of one log if a source of higher precedence chose the other one: so a flag can choose another log than the file.

    Returns:
        the user's data folder, if the embedded log is there because no option says where it is.
    """
    data, pulsar = in_force.settings["data"], in_force.settings["pulsar"]
    chosen = max(pulsar, data, key=lambda each: each.source)
    embedded = chosen is data or not pulsar.value
    for name in (*_PULSAR, *_BY_BROKERS, "guard") if embedded else _EMBEDDED:
        in_force.override(name, chosen)
    if not embedded or in_force.settings["data"].given:
        return None
    try:
        folder = Path(data_folder_of(environment))
    except ConfigError as error:
        in_force.problems += error.problems
        return None
    in_force.settings["data"] = data._replace(value=folder / "policies.db")
    return folder


def _derive_path(in_force: OptionValues, name: str) -> None:
    """Completes where the history or the checkpoints are kept: at the path that is set, else beside the embedded log, or not at all."""
    kept, off, data = (in_force.settings[each] for each in (name, f"no_{name}", "data"))
    if kept.given and off.value and kept.source is off.source:
        in_force.problems.append(f"{kept.option.flag} and {off.option.flag} contradict each other ({kept.where}, {off.where}).")
    elif kept.given and kept.source > off.source:
        in_force.override(off.option.name, kept)
    elif off.value:
        in_force.override(name, off)
    elif not kept.given and isinstance(data.value, Path) and data.value.name:
        beside = history_beside(data.value) if name == "history" else data.value.with_name(f"{data.value.stem}.checkpoints")
        in_force.settings[name] = kept._replace(value=beside)


def _without_effect(in_force: OptionValues, names: Iterable[str], needed: str) -> list[str]:
    """Returns the problem of options that are set, and go with another one that is not."""
    settings = [in_force.settings[name] for name in names]
    flags = [each.option.flag for each in settings if each.given and each.value != each.option.default]
    return [f"{', '.join(flags)} {'goes' if len(flags) == 1 else 'go'} with {needed}."] if flags else []


def _log(in_force: OptionValues, values: Mapping[str, Any]) -> tuple[LogConfig, list[str]]:
    """Returns the configuration of the log, and the problems of options that contradict it."""
    if not values["pulsar"]:
        return _section(EmbeddedLogConfig, values), _without_effect(in_force, _PULSAR, "--pulsar")
    if values["data"] is not None:
        return EmbeddedLogConfig(path=None), [
            "Give either --data FILE.db or --pulsar pulsar://HOST:PORT, not both: there is one change log."
        ]
    return _pulsar(values), _without_effect(
        in_force, ["cluster_file"], "--data: with --pulsar the facts about the cluster come from the brokers"
    )


def _pulsar(values: Mapping[str, Any]) -> PulsarLogConfig:
    wanted = any(values[each.name] for each in options_of(OAuth2Config).values())
    return _section(PulsarLogConfig, values, oauth2=_section(OAuth2Config, values) if wanted else None)


def _tls(values: Mapping[str, Any]) -> tuple[TlsConfig | None, list[str]]:
    """Returns the configuration of the server's TLS, and the problem of what is missing for it."""
    certificate, key = values["tls_certificate"], values["tls_key"]
    if certificate is not None and key is not None:
        return _section(TlsConfig, values), []
    if certificate is not None or key is not None:
        return None, ["--tls-certificate and --tls-key belong together."]
    return None, ["A server with TLS needs its --tls-certificate and --tls-key."] if values["tls_client_ca"] is not None else []


def _authentication(in_force: OptionValues, values: Mapping[str, Any]) -> tuple[AuthenticationConfig, list[str]]:
    """Returns the configuration of authentication, and the problems of options that contradict it."""
    providers = _section(Providers, values)
    ways = providers.authentication_providers
    wrong = [
        f'"{each}" is not a way to authenticate callers: --authentication-providers is {", ".join(PROVIDERS)}.'
        for each in ways
        if each not in PROVIDERS
    ]
    names = {way: [each.name for each in options_of(section).values()] for way, section in _WAYS.items()}
    for way, belonging in {**names, "certificate": ["certificate_role"]}.items():
        if way not in ways:
            wrong += _without_effect(in_force, belonging, f"--authentication-providers {way}")
    return _section(
        AuthenticationConfig,
        values,
        token=_section(TokenConfig, values) if "token" in ways else None,
        oidc=_section(OidcConfig, values) if "oidc" in ways else None,
        certificate=providers.certificate_role if "certificate" in ways else "",
    ), wrong
