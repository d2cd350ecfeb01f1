"""Lists the namespaces of tenants by the brokers' admin API. No call to the server lists namespaces."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import grpc

from topicpolicies import TopicPoliciesError

if TYPE_CHECKING:
    from ...logs.pulsar.admin import Admin

_SECONDS = 5.0
_AT_ONCE = 8


def namespaces_of(tenants: Sequence[str], admin_url: str, token_file: Path | None, trust_certs: Path | None) -> list[str]:
    """Returns the namespaces of tenants, sorted; without tenants those of all tenants.

    Raises:
        TopicPoliciesError: the options are wrong, the admin API does not answer or refuses, or there is no such tenant or no namespace.
        OSError: a file can't be used.
    """
    from ...config import PulsarLogConfig  # noqa: PLC0415 - what most commands have no use for is not imported
    from ...core.errors import PolicyError  # noqa: PLC0415
    from ...logs.pulsar.admin import admin_api  # noqa: PLC0415

    places = PulsarLogConfig(
        service_url="pulsar://localhost:6650", admin_url=admin_url, token_file=token_file, tls_trust_certs_file=trust_certs
    )
    if problems := places.problems():
        raise TopicPoliciesError(" ".join(problems), code=grpc.StatusCode.INVALID_ARGUMENT)

    async def ask() -> list[str]:
        admin = admin_api(places)
        try:
            return await _found(admin, tenants)
        finally:
            await admin.close()

    try:
        found = asyncio.run(ask())
    except PolicyError as error:
        raise TopicPoliciesError(error.message, code=grpc.StatusCode[error.kind.value], reason=error.reason) from None
    if not found:
        raise TopicPoliciesError(f"{' and '.join(tenants) or 'The cluster'} has no namespaces.", code=grpc.StatusCode.NOT_FOUND)
    return found


async def _found(admin: Admin, tenants: Sequence[str]) -> list[str]:
    asked = asyncio.Semaphore(_AT_ONCE)

    async def of(*path: str) -> list[str]:
        async with asked:
            answer = await admin.get(*path, seconds=_SECONDS)
        if answer is None and len(path) > 1:
            raise TopicPoliciesError(f"There is no tenant {path[-1]}.", code=grpc.StatusCode.NOT_FOUND)
        return [each for each in answer or () if isinstance(each, str)]

    names = tenants or await of("tenants")
    return sorted({name for each in await asyncio.gather(*(of("namespaces", tenant) for tenant in names)) for name in each})
