"""A fake service that fails on request, for the tests that call one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.client.fault_service import FaultService, serving


@pytest.fixture
def service() -> FaultService:
    return FaultService("public/default")


@pytest.fixture
async def address(service: FaultService) -> AsyncIterator[str]:
    """The address of ``service``."""
    async with serving(service) as address:
        yield address
