"""The Python client of the topic policies sidecar for Apache Pulsar.

``Client`` is for threads, ``AsyncClient`` for asyncio; both have the same methods::

    from topicpolicies import Client

    with Client("localhost:6680", actor="retention-bot") as client:
        client.update("persistent://public/default/orders", max_producer_per_topic=5)
        for event in client.watch(namespaces=["public/default"]):
            print(event)

Policies and answers are the generated messages of ``topicpolicies.v1``, which this package has too.
"""

from .addresses import DEFAULT_TARGET as DEFAULT_TARGET
from .aio import AsyncClient as AsyncClient
from .cache import AsyncPolicyCache as AsyncPolicyCache
from .cache import PolicyCache as PolicyCache
from .channels import Tls as Tls
from .channels import TokenFile as TokenFile
from .client import Client as Client
from .errors import *  # noqa: F403
from .requests import *  # noqa: F403
from .secrets import REDACTED as REDACTED
from .v1.errors_pb2 import *  # noqa: F403
from .v1.events_pb2 import *  # noqa: F403
from .v1.history_pb2 import *  # noqa: F403
from .v1.policies_pb2 import *  # noqa: F403
from .v1.service_pb2 import *  # noqa: F403
from .watches import AsyncWatch as AsyncWatch
from .watches import Watch as Watch
