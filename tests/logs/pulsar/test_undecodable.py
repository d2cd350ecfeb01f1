"""An entry that the client library can't decrypt or decode does not lose the log: it is counted, and reading continues after it.

Chunked messages are not tested here: the tests' broker did not acknowledge one of 6 MiB within the 30 s after which pulsar-client's
producer (``chunking_enabled``) gives up, and the smallest chunk size is the broker's maximum message size. How a reader treats a message
that is not handed over is tested with a fake reader (``test_reader``).
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pulsar
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.broker.admin import CHANGE_EVENTS
from tests.logs.pulsar.conftest import Following
from tests.logs.pulsar.foreign import VerbatimSchema
from tests.logs.samples import a_key, an_update
from topicpolicies_server.logs.avro import Codec

pytestmark = pytest.mark.broker


def write_encrypted(service_url: str, namespace: str, keys: Path) -> None:
    """Writes an event that can't be read without the key."""
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PrivateFormat.TraditionalOpenSSL
    (keys / "private.pem").write_bytes(private.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    public = private.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (keys / "public.pem").write_bytes(public)
    client = pulsar.Client(service_url)
    try:
        producer = client.create_producer(
            f"persistent://{namespace}/{CHANGE_EVENTS}",
            schema=VerbatimSchema(),
            encryption_key="key",
            crypto_key_reader=pulsar.CryptoKeyReader(str(keys / "public.pem"), str(keys / "private.pem")),
        )
        encoded = Codec().encode(an_update(a_key(namespace, 1), 2))
        producer.send(encoded.payload, partition_key=encoded.key)
    finally:
        client.close()


async def test_an_encrypted_entry_is_counted_and_reading_continues_after_it(following: Following, namespace: str, tmp_path: Path) -> None:
    log, recorder = await following.open(namespace)
    recorder.append(log, an_update(a_key(namespace), 1, event_id="before"))
    await recorder.until_settled(1)
    await asyncio.to_thread(write_encrypted, following.broker.service_url, namespace, tmp_path)
    recorder.append(log, an_update(a_key(namespace), 3, event_id="behind"))
    await recorder.until_settled(2)
    await recorder.until(lambda: len(recorder.entries) == 3)
    _, reading = await following.open(namespace)
    for entries in (recorder.entries, reading.entries):
        assert [bool(placed.problem) for placed in entries] == [False, True, False]
