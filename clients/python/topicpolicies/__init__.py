"""The Python client of the topic policies sidecar for Apache Pulsar.

``Client`` is for threads, ``AsyncClient`` for asyncio; both have the same methods::

    from topicpolicies import Client

    with Client("localhost:6680", actor="retention-bot") as client:
        client.update("persistent://public/default/orders", max_producer_per_topic=5)
        for event in client.watch(namespaces=["public/default"]):
            print(event)

The policies are messages of ``topicpolicies.v1.policies_pb2``; the ones that are used most can be imported from this package too.
"""

from .addresses import DEFAULT_TARGET
from .aio import AsyncClient, AsyncEdit
from .bearer import TokenFile
from .cache import AsyncPolicyCache, PolicyCache
from .channels import Tls
from .client import Client, Edit
from .documents import Document, Scope
from .effective import EffectivePolicies, EffectiveView, PolicySource
from .errors import (
    AlreadyExists,
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
    Entry,
    Gap,
    Interrupted,
    NamespaceState,
    Reset,
    Status,
    Synced,
    WatchEvent,
    WatchMode,
)
from .fields import PolicyFields
from .history import HistoryEntry, HistoryGap, HistoryGapReason, HistoryKind, HistoryOutcome, HistoryPage
from .listing import AsyncListing, Listing
from .mirror import Change, Mirror
from .options import ChangeOptions, CommonOptions, EditOptions, HistoryOptions, Selection, UpdateArguments, UpdateOptions, WatchOptions
from .origins import ActorStanding, Origin
from .requests import Deletion, Update
from .results import DeleteOutcome, DeleteResult, ListOperation, Settled, UpdateOutcome, UpdateResult
from .retries import NO_RETRIES, RetryPolicy
from .secrets import REDACTED
from .server_info import LogKind, ServerFeature, ServerInfo, ServerLimits, WriterMode
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
    SubscriptionType,
    TopicPolicies,
)
from .watches import AsyncWatch, Watch

__all__ = [
    "DEFAULT_TARGET",
    "NO_RETRIES",
    "REDACTED",
    "ActorStanding",
    "AlreadyExists",
    "AsyncClient",
    "AsyncEdit",
    "AsyncListing",
    "AsyncPolicyCache",
    "AsyncWatch",
    "AutoSubscriptionCreationOverride",
    "BacklogQuota",
    "Bookmark",
    "Change",
    "ChangeOptions",
    "Changed",
    "Client",
    "CommonOptions",
    "Conflict",
    "DeadlineExceeded",
    "DeleteOutcome",
    "DeleteResult",
    "Deletion",
    "DispatchRate",
    "Document",
    "Edit",
    "EditOptions",
    "EffectivePolicies",
    "EffectiveView",
    "Entry",
    "EntryFilters",
    "FailedPrecondition",
    "Gap",
    "HistoryEntry",
    "HistoryGap",
    "HistoryGapReason",
    "HistoryKind",
    "HistoryOptions",
    "HistoryOutcome",
    "HistoryPage",
    "InactiveTopicPolicies",
    "Interrupted",
    "InvalidArgument",
    "ListOperation",
    "Listing",
    "LogKind",
    "Mirror",
    "NamespaceState",
    "NotFound",
    "OffloadPolicies",
    "Origin",
    "OutOfRange",
    "OutcomeUnknown",
    "PermissionDenied",
    "PersistencePolicies",
    "PolicyCache",
    "PolicyFields",
    "PolicySource",
    "PublishRate",
    "Reset",
    "ResourceExhausted",
    "ResumeToken",
    "RetentionPolicies",
    "RetryPolicy",
    "Scope",
    "Selection",
    "ServerFeature",
    "ServerInfo",
    "ServerLimits",
    "Settled",
    "Status",
    "SubscribeRate",
    "SubscriptionPolicies",
    "SubscriptionType",
    "Synced",
    "Tls",
    "TokenFile",
    "TopicPolicies",
    "TopicPoliciesError",
    "Unavailable",
    "Update",
    "UpdateArguments",
    "UpdateOptions",
    "UpdateOutcome",
    "UpdateResult",
    "Violation",
    "Watch",
    "WatchEvent",
    "WatchMode",
    "WatchOptions",
    "WatchToken",
    "WriterMode",
]
