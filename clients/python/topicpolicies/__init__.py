"""The Python client of the topic policies sidecar for Apache Pulsar.

``Client`` is for threads, ``AsyncClient`` for asyncio; both do the same::

    from topicpolicies import Client

    with Client("localhost:6680", actor="retention-bot") as client:
        client.update("persistent://public/default/orders", max_producer_per_topic=5)
        for event in client.watch(namespaces=["public/default"]):
            print(event)

The policies themselves are the messages of ``topicpolicies.v1.policies_pb2``; the most used are here as well.
"""

from .aio import AsyncClient, AsyncEdit
from .aio_streams import AsyncWatch
from .cache import Change, PolicyCache
from .caching import AsyncLiveCache, LiveCache
from .channels import DEFAULT_TARGET, Tls
from .client import Client, Edit
from .errors import (
    Conflict,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    OutcomeUnknown,
    OutOfRange,
    PermissionDenied,
    ResourceExhausted,
    TopicPoliciesError,
    Unavailable,
    Violation,
)
from .events import (
    Bookmark,
    Changed,
    Deleted,
    Interrupted,
    NamespaceLoading,
    NamespaceUnavailable,
    Origin,
    Restarted,
    Synced,
    WatchEvent,
)
from .history import ActorStanding, HistoryEntry, HistoryGap, HistoryGapReason, HistoryKind, HistoryOutcome, HistoryPage
from .requests import Options, Update
from .results import (
    DeleteOutcome,
    DeleteResult,
    Deletion,
    Document,
    EffectivePolicies,
    ListOperation,
    PolicySource,
    Scope,
    Settled,
    UpdateOutcome,
    UpdateResult,
    WatchMode,
)
from .retries import NO_RETRIES, RetryPolicy
from .secrets import REDACTED
from .streams import Watch
from .tokens import ResumeToken, WatchToken
from .v1.policies_pb2 import (
    AutoSubscriptionCreationOverride,
    BacklogQuota,
    DispatchRate,
    EntryFilters,
    InactiveTopicPolicies,
    OffloadPolicies,
    PersistencePolicies,
    PublishRate,
    RetentionPolicies,
    SubscribeRate,
    SubscriptionPolicies,
    TopicPolicies,
)

__all__ = [
    "DEFAULT_TARGET",
    "NO_RETRIES",
    "REDACTED",
    "ActorStanding",
    "AsyncClient",
    "AsyncEdit",
    "AsyncLiveCache",
    "AsyncWatch",
    "AutoSubscriptionCreationOverride",
    "BacklogQuota",
    "Bookmark",
    "Change",
    "Changed",
    "Client",
    "Conflict",
    "DeadlineExceeded",
    "DeleteOutcome",
    "DeleteResult",
    "Deleted",
    "Deletion",
    "DispatchRate",
    "Document",
    "Edit",
    "EffectivePolicies",
    "EntryFilters",
    "FailedPrecondition",
    "HistoryEntry",
    "HistoryGap",
    "HistoryGapReason",
    "HistoryKind",
    "HistoryOutcome",
    "HistoryPage",
    "InactiveTopicPolicies",
    "Interrupted",
    "InvalidArgument",
    "ListOperation",
    "LiveCache",
    "NamespaceLoading",
    "NamespaceUnavailable",
    "NotFound",
    "OffloadPolicies",
    "Options",
    "Origin",
    "OutOfRange",
    "OutcomeUnknown",
    "PermissionDenied",
    "PersistencePolicies",
    "PolicyCache",
    "PolicySource",
    "PublishRate",
    "ResourceExhausted",
    "Restarted",
    "ResumeToken",
    "RetentionPolicies",
    "RetryPolicy",
    "Scope",
    "Settled",
    "SubscribeRate",
    "SubscriptionPolicies",
    "Synced",
    "Tls",
    "TopicPolicies",
    "TopicPoliciesError",
    "Unavailable",
    "Update",
    "UpdateOutcome",
    "UpdateResult",
    "Violation",
    "Watch",
    "WatchEvent",
    "WatchMode",
    "WatchToken",
]
