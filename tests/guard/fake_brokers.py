"""A fake of the admin API of a cluster, as far as a guard uses it. It records the requests and their times."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter

from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import LogError

BROKER = "broker:8080"
UNREACHABLE = LogError(LogState.ADMIN_UNREACHABLE, "No answer.")
REFUSED = LogError(LogState.ADMIN_REFUSED, "Not for you.")


class FakeBrokers:
    """A cluster of one broker or several."""

    def __init__(self, *namespaces: str, superuser: bool = True, answer_seconds: float = 0.003) -> None:
        """``namespaces``: as ``tenant/namespace``; no broker has loaded any of them."""
        self.namespaces = set(namespaces)
        self.logs: set[str] = set()
        """Namespaces with a change log."""
        self.loaded: dict[str, set[str]] = {BROKER: set()}
        self.superuser = superuser
        self.answer_seconds = answer_seconds
        self.errors: dict[tuple[str, ...], BaseException] = {}
        """The errors of requests, by path or by the beginning of one."""
        self.answers: dict[tuple[str, ...], object] = {}
        """Answers other than the right ones, by path."""
        self.asked: list[tuple[float, tuple[str, ...]]] = []
        self.at_once = self.most_at_once = 0

    def load(self, *namespaces: str, broker: str = BROKER) -> None:
        """Has a broker load namespaces, new ones or others; so they have a change log."""
        self.namespaces |= set(namespaces)
        self.logs |= set(namespaces)
        self.loaded[broker] |= set(namespaces)

    def delete(self, namespace: str) -> None:
        """Deletes a namespace."""
        self.namespaces.discard(namespace)
        self.logs.discard(namespace)
        for loaded in self.loaded.values():
            loaded.discard(namespace)

    def questions(self, since: float = 0.0) -> Counter[str]:
        """Returns how often each kind of request was made since a time."""
        return Counter(_about(path) for at, path in self.asked if at >= since)

    def busiest_second(self) -> int:
        """Returns the greatest number of requests within a second."""
        times = [at for at, _ in self.asked]
        return max((bisect_left(times, at + 0.999_999) - first for first, at in enumerate(times)), default=0)

    async def get(self, *path: str, seconds: float) -> object:
        """Answers a request."""
        assert seconds <= 5.0
        self.asked.append((asyncio.get_running_loop().time(), path))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.answer_seconds)
        finally:
            self.at_once -= 1
        for length in range(len(path) + 1):
            if path[:length] in self.errors:
                raise self.errors[path[:length]]
        return self.answers[path] if path in self.answers else self._answer(path)

    def _answer(self, path: tuple[str, ...]) -> object:
        match path:
            case ("namespaces", tenant):
                return sorted(name for name in self.namespaces if name.startswith(f"{tenant}/")) or None
            case ("persistent", tenant, namespace, "__change_events", "partitions"):
                return {"partitions": 0} if f"{tenant}/{namespace}" in self.logs else None
        if not self.superuser:
            raise REFUSED
        match path:
            case ("tenants",):
                return sorted({name.partition("/")[0] for name in self.namespaces})
            case ("brokers", "configuration", "runtime"):
                return {"clusterName": "east"}
            case ("brokers", "east"):
                return list(self.loaded)
            case ("brokers", "east", broker, "ownedNamespaces"):
                names = {f"pulsar/{broker}", f"pulsar/east/{broker}", *self.loaded[broker]}
                return {
                    f"{name}/0x{half}": {"is_active": True} for name in names for half in ("00000000_0x80000000", "80000000_0xffffffff")
                }
        raise AssertionError(path)


def _about(path: tuple[str, ...]) -> str:
    if path[0] == "persistent":
        return "log"
    if path[-1] == "ownedNamespaces":
        return "loaded"
    return {"runtime": "cluster"}.get(path[-1], path[0])
