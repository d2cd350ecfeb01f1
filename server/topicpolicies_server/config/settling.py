"""Values that follow from others: which log is meant, where it is, and where the history is.

| said | the log | what becomes of the other's options |
|---|---|---|
| neither ``data`` nor ``pulsar`` | the embedded one, in the user's data folder | |
| one of them | that one | |
| both, by different sources | that of the source that goes before | what its own source, or one behind it, says is set aside |
| both, by one source | neither | a contradiction, which ``making`` tells |

So a flag can choose another log than the file or the environment has, without taking back the rest of what they say.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from .errors import ConfigError
from .history import history_beside
from .places import data_folder
from .sources import Gathered, Setting, Source

_EMBEDDED = ("data", "cluster_file")
_PULSAR = ("pulsar", "admin_url", "pulsar_token_file", "pulsar_tls_trust_certs", "guard")
"""What goes with one log only."""


def settle(found: Gathered, environment: Mapping[str, str]) -> None:
    """Completes what is in force, and adds what contradicts itself to the problems."""
    data, pulsar = found.settings["data"], found.settings["pulsar"]
    if pulsar.value and pulsar.source > data.source:
        _set_aside(found, _EMBEDDED, pulsar)
    elif data.given and data.source > pulsar.source:
        _set_aside(found, _PULSAR, data)
    elif not pulsar.value:
        _default_data(found, environment)
    _settle_history(found)


def _set_aside(found: Gathered, names: tuple[str, ...], by: Setting) -> None:
    """Forgets what a source behind the one that chose the log says of the other log."""
    for name in names:
        setting = found.settings[name]
        if setting.given and setting.source < by.source:
            found.settings[name] = Setting(
                setting.option, setting.option.default, Source.DEFAULT, f"{setting.where} is set aside by {by.where}"
            )


def _default_data(found: Gathered, environment: Mapping[str, str]) -> None:
    try:
        path = Path(data_folder(environment)) / "policies.db"
    except ConfigError as error:
        found.problems += error.problems
    else:
        found.settings["data"] = found.settings["data"]._replace(value=path)


def _settle_history(found: Gathered) -> None:
    history, off, data = (found.settings[name] for name in ("history", "no_history", "data"))
    if history.given and off.value and history.source is off.source:
        found.problems.append(f"--history and --no-history contradict each other ({history.where}, {off.where}).")
    elif off.value and off.source > history.source:
        aside = f"{history.where} is set aside by {off.where}" if history.given else ""
        found.settings["history"] = Setting(history.option, None, Source.DEFAULT, aside)
    elif history.given:
        found.settings["no_history"] = off._replace(value=False)
    elif isinstance(data.value, Path) and data.value.name:
        found.settings["history"] = history._replace(value=history_beside(data.value))
