"""Values that follow from others: which log is used, where it is, and where the history and the checkpoints are.

| set | the log | the options of the other log |
|---|---|---|
| neither ``data`` nor ``pulsar`` | the embedded one, in the user's data folder | |
| one of them | that one | set aside, where a source of lower precedence sets them |
| both, by different sources | the one that the source of higher precedence sets | likewise |
| both, by one source | neither | a contradiction, which ``making`` reports |
| ``pulsar``, as empty | the embedded one: ``data``, or in the user's data folder | likewise |

So a flag can choose another log than the file or the environment does, without unsetting their other options one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from .checkpoints import checkpoints_beside
from .errors import ConfigError
from .history import history_beside
from .places import data_folder
from .sources import OptionValues, Setting, Source

_EMBEDDED = ("data", "cluster_file")
_BY_BROKERS = ("authorization_by_brokers", "superuser_roles", "namespace_roles_may_read")
PULSAR_ACCESS = (
    "admin_url",
    "pulsar_token_file",
    "pulsar_tls_trust_certs",
    "pulsar_tls_certificate",
    "pulsar_tls_key",
    "pulsar_oauth2_issuer",
    "pulsar_oauth2_credentials",
    "pulsar_oauth2_audience",
    "pulsar_oauth2_scope",
)
"""The options of the access to Pulsar, which make no sense without ``pulsar``."""
_PULSAR = ("pulsar", *PULSAR_ACCESS, "pulsar_tls_validate_hostname", "guard", *_BY_BROKERS)
"""The options that go with Pulsar's log only."""


def derive(in_force: OptionValues, environment: Mapping[str, str]) -> None:
    """Completes the values in force with those that follow from others, and adds contradictions to the problems."""
    data, pulsar = in_force.settings["data"], in_force.settings["pulsar"]
    if pulsar.value and pulsar.source > data.source:
        _set_aside(in_force, _EMBEDDED, pulsar)
    elif data.given and data.source > pulsar.source:
        _set_aside(in_force, _PULSAR, data)
    elif not pulsar.value:
        if pulsar.given:  # as empty: not Pulsar, whatever sources behind it say
            _set_aside(in_force, _PULSAR, pulsar)
        if not data.given:
            _default_data(in_force, environment)
    _derive_path(in_force, "history", history_beside)
    _derive_path(in_force, "checkpoints", checkpoints_beside)


def _set_aside(in_force: OptionValues, names: tuple[str, ...], by: Setting) -> None:
    """Resets options of the other log that a source of lower precedence than that of ``by``, which chose the log, has set."""
    for name in names:
        setting = in_force.settings[name]
        if setting.given and setting.source < by.source:
            in_force.settings[name] = Setting(
                setting.option, setting.option.default, Source.DEFAULT, f"{setting.where} is overridden by {by.where}"
            )


def _default_data(in_force: OptionValues, environment: Mapping[str, str]) -> None:
    try:
        path = Path(data_folder(environment)) / "policies.db"
    except ConfigError as error:
        in_force.problems += error.problems
    else:
        in_force.settings["data"] = in_force.settings["data"]._replace(value=path)


def _derive_path(in_force: OptionValues, name: str, beside: Callable[[Path], Path]) -> None:
    """Derives where the history or the checkpoints are kept: at the path that is set, else beside the embedded log, or not at all."""
    kept, off, data = (in_force.settings[each] for each in (name, f"no_{name}", "data"))
    if kept.given and off.value and kept.source is off.source:
        in_force.problems.append(f"{kept.option.flag} and {off.option.flag} contradict each other ({kept.where}, {off.where}).")
    elif off.value and off.source > kept.source:
        aside = f"{kept.where} is overridden by {off.where}" if kept.given else ""
        in_force.settings[name] = Setting(kept.option, None, Source.DEFAULT, aside)
    elif kept.given:
        in_force.settings[f"no_{name}"] = off._replace(value=False)
    elif isinstance(data.value, Path) and data.value.name:
        in_force.settings[name] = kept._replace(value=beside(data.value))
