"""Makes the configuration from the values in force. All problems are reported at once: values that can't be read, and contradictions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from .authentication import ALGORITHMS, PROVIDERS, AuthenticationConfig, OidcConfig, TokenConfig
from .authorization import AuthorizationConfig
from .call_record import CallRecordConfig, Recorded
from .checkpoints import CheckpointsConfig
from .deriving import PULSAR_ACCESS, derive
from .errors import ConfigError
from .history import HistoryConfig
from .limits import Limits
from .logs import EmbeddedLogConfig, LogConfig, PulsarLogConfig, Writer
from .oauth2 import OAuth2Config
from .option import Value
from .server import GuardConfig, LogFormat, LogLevel, ServerConfig, TlsConfig
from .sources import OptionValues
from .telemetry import TelemetryConfig

_Config = TypeVar("_Config")


def server_config(in_force: OptionValues, environment: Mapping[str, str]) -> ServerConfig:
    """Returns the configuration of a server. Completes ``in_force`` with the values that follow from others (``deriving``).

    Raises:
        ConfigError: the configuration is wrong; the error has all problems.
    """
    derive(in_force, environment)
    values = _values(in_force)
    log, wrong_log = _log(in_force, values)
    tls, wrong_tls = _tls(values)
    authentication, wrong_ways = _authentication(in_force, values)
    return _made(
        [*in_force.problems, *wrong_log, *wrong_tls, *wrong_ways],
        lambda: ServerConfig(
            log=log,
            listen=values["listen"],
            tls=tls,
            insecure_listen=values["insecure_listen"] or bool(wrong_tls or wrong_ways),  # else a wrong option of theirs looks like none
            authentication=authentication,
            advertise=values["advertise"],
            peer_token_file=values["peer_token_file"],
            peer_trust_certs_file=values["peer_trust_certs"],
            limits=_limits(values),
            history=_history(in_force, values),
            checkpoints=_checkpoints(in_force, values),
            authorization=_authorization(values),
            show_secrets=values["show_secrets"],
            log_level=LogLevel(values["log_level"]),
            log_format=LogFormat(values["log_format"]),
            call_record=_call_record(values),
            missing_topics=values["allow_missing_topics"],
            read_only=values["read_only"],
            pause_repairs=values["pause_repairs"],
            guard=() if wrong_log else values["guard"],
            metrics_listen=values["metrics_listen"],
            telemetry=_telemetry(values),
            reflection=values["reflection"],
        ),
    )


def guard_config(in_force: OptionValues) -> GuardConfig:
    """Returns the configuration of a guard without a server.

    Raises:
        ConfigError: the configuration is wrong; the error has all problems.
    """
    values = _values(in_force)
    return _made(
        in_force.problems,
        lambda: GuardConfig(
            log=_pulsar(values, Writer.SHARED),
            patterns=values["guard"],
            report_only=values["report_only"],
            pause_repairs=values["pause_repairs"],
            limits=_limits(values),
            log_level=LogLevel(values["log_level"]),
            log_format=LogFormat(values["log_format"]),
            metrics_listen=values["metrics_listen"],
        ),
    )


def _made(problems: list[str], make: Callable[[], _Config]) -> _Config:
    try:
        made = make()
    except ConfigError as error:
        raise ConfigError((*problems, *error.problems)) from None
    if problems:
        raise ConfigError(tuple(problems))
    return made


def _values(in_force: OptionValues) -> dict[str, Any]:
    """Returns the values by name, without their types, which the table of options guarantees."""
    values: dict[str, Value] = {name: setting.value for name, setting in in_force.settings.items()}
    return values


def _limits(values: Mapping[str, Any]) -> Limits:
    return Limits(**{each.name: values[each.name] for each in dataclasses.fields(Limits)})


def _log(in_force: OptionValues, values: Mapping[str, Any]) -> tuple[LogConfig, list[str]]:
    """Returns the configuration of the log, and the problems of options that contradict it."""
    embedded = EmbeddedLogConfig(
        path=values["data"], cluster_file=values["cluster_file"], create_parent=not in_force.settings["data"].given
    )
    if values["pulsar"] and values["data"] is not None:
        return EmbeddedLogConfig(path=None), [
            "Give either --data FILE.db or --pulsar pulsar://HOST:PORT, not both: there is one change log."
        ]
    if values["pulsar"]:
        wrong = (
            []
            if values["cluster_file"] is None
            else ["--cluster-file goes with --data: with --pulsar the facts about the cluster come from the brokers."]
        )
        return _pulsar(values, Writer(values["writer"])), wrong
    if any(values[name] for name in PULSAR_ACCESS):
        return embedded, ["--admin-url and the options that begin with --pulsar- go with --pulsar."]
    return embedded, []


def _pulsar(values: Mapping[str, Any], writer: Writer) -> PulsarLogConfig:
    return PulsarLogConfig(
        service_url=values["pulsar"],
        admin_url=values["admin_url"],
        token_file=values["pulsar_token_file"],
        tls_trust_certs_file=values["pulsar_tls_trust_certs"],
        tls_certificate_file=values["pulsar_tls_certificate"],
        tls_key_file=values["pulsar_tls_key"],
        tls_validate_hostname=values["pulsar_tls_validate_hostname"],
        oauth2=_oauth2(values),
        writer=writer,
        recalled_entries=values["recalled_entries"],
    )


def _oauth2(values: Mapping[str, Any]) -> OAuth2Config | None:
    """Returns the source of tokens for Pulsar; None: no option of it is set. ``OAuth2Config`` reports what is missing."""
    issuer, credentials = values["pulsar_oauth2_issuer"], values["pulsar_oauth2_credentials"]
    audience, scope = values["pulsar_oauth2_audience"], values["pulsar_oauth2_scope"]
    if not (issuer or credentials or audience or scope):
        return None
    return OAuth2Config(issuer=issuer, credentials_file=credentials, audience=audience, scope=scope)


def _tls(values: Mapping[str, Any]) -> tuple[TlsConfig | None, list[str]]:
    """Returns the configuration of the server's TLS, and the problem of what is missing for it."""
    certificate, key, authority = values["tls_certificate"], values["tls_key"], values["tls_client_ca"]
    if certificate is not None and key is not None:
        return TlsConfig(certificate_file=certificate, key_file=key, client_ca_file=authority), []
    if certificate is not None or key is not None:
        return None, ["--tls-certificate and --tls-key belong together."]
    if authority is not None:
        return None, ["A server with TLS needs its --tls-certificate and --tls-key."]
    return None, []


_OF_WAYS = {
    "token": (
        "token_secret_key", "token_public_key", "token_public_alg", "token_auth_claim", "token_audience_claim", "token_audience",
    ),
    "oidc": (
        "oidc_issuers", "oidc_audiences", "oidc_role_claim", "oidc_jwks_file", "oidc_jwks_url", "oidc_trust_certs", "oidc_refresh_seconds",
    ),
    "certificate": ("certificate_role",),
}  # fmt: skip
"""The options that go with each provider of ``authentication_providers``."""


def _authentication(in_force: OptionValues, values: Mapping[str, Any]) -> tuple[AuthenticationConfig, list[str]]:
    """Returns the configuration of authentication, and the problems of options that contradict it."""
    ways = values["authentication_providers"]
    wrong = [
        f'"{each}" is not a way to authenticate callers: --authentication-providers is {", ".join(PROVIDERS)}.'
        for each in ways
        if each not in PROVIDERS
    ]
    for way, names in _OF_WAYS.items():
        given = [in_force.settings[name].option.flag for name in names if in_force.settings[name].given]
        if given and way not in ways:
            wrong.append(f"{', '.join(given)} {'has' if len(given) == 1 else 'have'} no effect without --authentication-providers {way}.")
    token = TokenConfig(
        secret_key_file=values["token_secret_key"],
        public_key_file=values["token_public_key"],
        public_algorithm=next(each for each in ALGORITHMS if each.lower() == values["token_public_alg"]),
        role_claim=values["token_auth_claim"],
        audience_claim=values["token_audience_claim"],
        audience=values["token_audience"],
    )
    oidc = OidcConfig(
        issuers=values["oidc_issuers"],
        audiences=values["oidc_audiences"],
        role_claim=values["oidc_role_claim"],
        jwks_file=values["oidc_jwks_file"],
        jwks_url=values["oidc_jwks_url"],
        trust_certs_file=values["oidc_trust_certs"],
        refresh_seconds=values["oidc_refresh_seconds"],
    )
    made = AuthenticationConfig(
        token=token if "token" in ways else None,
        oidc=oidc if "oidc" in ways else None,
        certificate=values["certificate_role"] if "certificate" in ways else "",
        proxy_roles=values["proxy_roles"],
        leeway_seconds=values["token_allowed_clock_skew_seconds"],
    )
    return made, wrong


def _authorization(values: Mapping[str, Any]) -> AuthorizationConfig:
    return AuthorizationConfig(
        file=values["authorization"],
        brokers=values["authorization_by_brokers"],
        superuser_roles=values["superuser_roles"],
        namespace_roles_may_read=values["namespace_roles_may_read"],
        cache_seconds=values["authorization_cache_seconds"],
        allow_authenticated=values["allow_authenticated"],
    )


def _history(in_force: OptionValues, values: Mapping[str, Any]) -> HistoryConfig | None:
    if values["history"] is None or values["no_history"]:
        return None
    return HistoryConfig(
        path=values["history"],
        max_age_seconds=values["history_days"] * 86_400.0,
        max_bytes=values["history_megabytes"] << 20,
        create_parent=not (in_force.settings["history"].given or in_force.settings["data"].given),
    )


def _checkpoints(in_force: OptionValues, values: Mapping[str, Any]) -> CheckpointsConfig | None:
    if values["checkpoints"] is None or values["no_checkpoints"]:
        return None
    given = in_force.settings["checkpoints"].given or in_force.settings["data"].given
    return CheckpointsConfig(path=values["checkpoints"], create_parent=not given)


def _call_record(values: Mapping[str, Any]) -> CallRecordConfig:
    path = values["call_record_file"]
    return CallRecordConfig(which=Recorded(values["call_record"]), path=None if path is None or path.name == "-" else path)


def _telemetry(values: Mapping[str, Any]) -> TelemetryConfig | None:
    if not (endpoint := values["otlp_endpoint"]):
        return None
    return TelemetryConfig(endpoint=endpoint, trace_ratio=values["otlp_trace_ratio"])
