"""The user's folder for data, by the convention of each operating system."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path, PurePath, PureWindowsPath

from .errors import ConfigError

_NAME = "topicpolicies"


def data_folder(environment: Mapping[str, str], system: str = sys.platform) -> PurePath:
    """Returns the folder of the embedded log, where no path is set.

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
