"""Opens pulsar-client for a measurement. This module imports nothing else, so that a process that only reads starts as fast as possible."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pulsar


@contextmanager
def client(service_url: str) -> Iterator[Any]:
    """Opens a client that writes its log into a temporary file."""
    log = Path(tempfile.gettempdir()) / "pulsar-client.log"
    made = pulsar.Client(service_url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(log)))
    try:
        yield made
    finally:
        made.close()
