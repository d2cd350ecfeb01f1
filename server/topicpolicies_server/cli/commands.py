"""The commands. Each is imported when it is looked up, so that a server starts without what other commands need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import typer
from typer.models import CommandInfo

from .arguments import Command
from .exits import EXIT_CODES

WHERE = {
    "get": "calls.policies:get",
    "update": "calls.policies:update",
    "delete": "calls.policies:delete",
    "effective": "calls.effective:effective",
    "list": "calls.policies:list_",
    "watch": "calls.watch:watch",
    "history": "calls.history:history",
    "diff": "calls.history:diff",
    "plan": "declaring.apply:plan",
    "apply": "declaring.apply:apply",
    "export": "declaring.apply:export_",
    "info": "calls.info:info",
    "health": "calls.health:health",
    "doctor": "doctor.doctor:doctor",
    "serve": "serving.serve:serve",
    "config": "serving.config:config",
    "guard": "serving.guard:guard",
    "demo": "serving.demo:demo",
    "version": "version:version",
}
"""The module and function of each command, in the order in which help shows them."""


class Commands(Mapping[str, Any]):
    """The commands by name. A lookup imports the command's module."""

    def __init__(self) -> None:
        """Begins with no command imported."""
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            module, _, function = WHERE[name].partition(":")
            callback = getattr(import_module(f".{module}", __package__), function)
            info = CommandInfo(name, cls=Command, callback=callback, epilog=EXIT_CODES)
            self._made[name] = typer.main.get_command_from_info(info, pretty_exceptions_short=False, rich_markup_mode=None)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(WHERE)

    def __len__(self) -> int:
        return len(WHERE)
