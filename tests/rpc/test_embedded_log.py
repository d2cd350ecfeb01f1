"""The options for what the embedded log of a server keeps."""

from __future__ import annotations

from pathlib import Path

from topicpolicies_server.config import EmbeddedLogConfig, Limits
from topicpolicies_server.logs.sqlite import Compaction, SqliteLog
from topicpolicies_server.rpc.server import open_log


async def test_the_options_set_which_superseded_events_the_log_keeps(tmp_path: Path) -> None:
    limits = Limits(retention_seconds=5.0, max_retained_bytes=3 << 20)
    log = await open_log(EmbeddedLogConfig(path=tmp_path / "policies.db"), limits, str)
    assert isinstance(log, SqliteLog)
    assert log._compaction == Compaction(retention_ms=5_000, retained_bytes=3 << 20)
    await log.close()
