"""Every background task has an owner that handles its end: ``tasks.py``, or one of those listed here with a reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

_SERVER = Path(__file__).resolve().parents[2] / "server" / "topicpolicies_server"
_BEGINNINGS = frozenset({"create_task", "ensure_future"})

ALLOWED = {
    "tasks.py: RestartedTask.start": "the owner itself",
    "tasks.py: TaskSet.begin": "the owner itself",
    "cli/doctor/reaching.py: speech_at": "awaited there, or cancelled and gathered, before it returns",
    "cli/doctor/scratch.py: cleaned": "awaited there until it is done, even if the caller is cancelled",
    "cli/serving/demo_run.py: run": "awaited there; a demonstration that fails ends its process",
    "cluster/cache.py: Cache._begin": "its requesters await it; without one, its end reports the error; `close` gathers it",
    "cluster/listing.py: TopicLookups._begin": "it reports each error, even an unrequested CancelledError, raises none; `close` gathers it",
    "logs/leadership.py: Candidate._stand": "a term: awaited there, and its exception or unrequested cancellation is handled",
    "logs/pulsar/admin/api.py: Admin._sent": "awaited by the caller; `close` gathers it",
    "logs/pulsar/admin/api.py: Admin.close": "awaited there; it continues if the caller is cancelled, and the next `close` awaits it",
    "logs/pulsar/oauth2.py: Tokens.token": "awaited by the callers that need a token; the next one after its end starts another",
    "logs/pulsar/reading/following.py: Following.connect": "gathered there; if one fails, the others are cancelled or closed",
    "logs/pulsar/writing/partition.py: PartitionWriter._try_to_open": "an attempt: awaited there, and its producer is used or closed",
    "namespaces/loading.py: Loader._load": "a wait for an event: it can't fail, and is cancelled at the end of the load",
    "rpc/stopping.py: stop_calls": "awaited there before it returns",
    "rpc/streaming.py: UpdateStream._wait": "it fails its change with each error, even for a cancelled wait, raises only CancelledError",
    "rpc/streaming.py: UpdateStream.messages": "one keeps errors for the end of the stream, one waits for an event; both end with the call",
}
"""Functions that start a task without ``RestartedTask`` and ``TaskSet``, each with the reason why no failure is lost."""


def beginnings(root: Path) -> Iterator[str]:
    """Yields the places at which tasks are started: the module, and the function in it."""
    for path in sorted(root.rglob("*.py")):
        module = path.relative_to(root).as_posix()
        yield from (f"{module}: {name}" for name in _within(ast.parse(path.read_text(), str(path)), ()))


def _within(node: ast.AST, names: tuple[str, ...]) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        names = (*names, node.name)
    if isinstance(node, ast.Attribute | ast.Name) and (node.attr if isinstance(node, ast.Attribute) else node.id) in _BEGINNINGS:
        yield ".".join(names)
    for child in ast.iter_child_nodes(node):
        yield from _within(child, names)


def test_only_owners_start_tasks() -> None:
    assert set(beginnings(_SERVER)) == set(ALLOWED)


@pytest.mark.parametrize(
    "line",
    [
        "asyncio.create_task(self.run())",
        "self._task = asyncio.get_running_loop().create_task(self.run(), name='it')",
        "begin = asyncio.ensure_future; begin(self.run())",
        "async with asyncio.TaskGroup() as group: group.create_task(self.run())",
    ],
)
def test_a_planted_task_without_an_owner_is_reported(tmp_path: Path, line: str) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "work.py").write_text(f"class Work:\n    async def start(self):\n        {line}\n")
    assert list(beginnings(tmp_path)) == ["room/work.py: Work.start"]
