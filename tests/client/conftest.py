"""A service in miniature that breaks on request, for the tests that talk to one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.client.fault_service import FaultService, serving


@pytest.fixture
def service() -> FaultService:
    return FaultService("public/default")


@pytest.fixture
async def address(service: FaultService) -> AsyncIterator[str]:
    """Where it is served."""
    async with serving(service) as address:
        yield address
