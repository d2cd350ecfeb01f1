"""A fake service that answers as a test says, for the tests of both clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.client.fake_service import FakeService


@pytest.fixture
def service() -> Iterator[FakeService]:
    with FakeService() as service:
        yield service
