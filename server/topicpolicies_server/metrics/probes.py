"""``/livez`` and ``/readyz``, as Kubernetes' API server has them: 200 and ``ok``, or 503 and a line for each check.

With ``?verbose`` there is a line for each check even if all succeed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

from ..health import Check
from .web import App, text

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment


def probe(name: str, checks: Callable[[], Sequence[Check]]) -> App:
    """Returns the app that answers a probe.

    Args:
        name: the name of the probe, such as ``readyz``.
        checks: runs the checks; called in any thread.
    """

    def app(environment: WSGIEnvironment, respond: StartResponse) -> Iterable[bytes]:
        found = checks()
        well = not any(check.problem for check in found)
        if well and not _is_verbose(environment.get("QUERY_STRING", "")):
            return text(respond, HTTPStatus.OK, "ok")
        lines = [_line_of(check) for check in found]
        lines.append(f"{name} check {'passed' if well else 'failed'}")
        return text(respond, HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE, "\n".join(lines) + "\n")

    return app


def _is_verbose(query: str) -> bool:
    return any(field.partition("=")[0] == "verbose" for field in query.split("&"))


def _line_of(check: Check) -> str:
    said = " ".join((check.problem or check.remark).split())
    return f"[-]{check.name} failed: {said}" if check.problem else f"[+]{check.name} ok" + (f": {said}" if said else "")
