"""Why something failed: the reasons of errors, those of the violations of a request, and the states of a log that can't be used.

``topicpolicies.v1.ErrorReason`` explains each ``Reason``, docs/api.md each ``ViolationReason``. The values are the names.
"""

from __future__ import annotations

import enum


class _Name(enum.StrEnum):
    """An enum whose values are its names."""

    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[str]) -> str:  # noqa: ARG004 (enum's own signature)
        return name


class Reason(_Name):
    """Why a request was refused or failed."""

    INVALID_REQUEST = enum.auto()
    RULE_VIOLATED = enum.auto()
    REQUEST_ID_REUSED = enum.auto()
    MESSAGE_TOO_LARGE = enum.auto()
    PRECONDITION_FAILED = enum.auto()
    CONTENTION = enum.auto()
    NAMESPACE_NOT_FOUND = enum.auto()
    TOPIC_NOT_FOUND = enum.auto()
    TOPIC_POLICIES_DISABLED = enum.auto()
    TOPIC_POLICIES_ELSEWHERE = enum.auto()
    NOT_EXPRESSIBLE = enum.auto()
    READ_ONLY = enum.auto()
    LEVELS_UNKNOWN = enum.auto()
    OUTCOME_UNKNOWN = enum.auto()
    NOT_APPENDED = enum.auto()
    NOT_LEADER = enum.auto()
    TIMEOUT = enum.auto()
    VERSION_NOT_REACHED = enum.auto()
    INTERNAL = enum.auto()
    SHUTTING_DOWN = enum.auto()
    LIMIT_REACHED = enum.auto()
    LOG_UNAVAILABLE = enum.auto()
    LOG_FILE_UNUSABLE = enum.auto()
    CLUSTER_UNAVAILABLE = enum.auto()
    HISTORY_OFF = enum.auto()
    HISTORY_UNAVAILABLE = enum.auto()
    NOT_IN_HISTORY = enum.auto()
    CREDENTIALS_MISSING = enum.auto()
    CREDENTIALS_INVALID = enum.auto()
    CREDENTIALS_EXPIRED = enum.auto()
    PERMISSION_DENIED = enum.auto()
    PROXY_REFUSED = enum.auto()
    AUTHORIZATION_UNKNOWN = enum.auto()
    NAMESPACE_LOADING = enum.auto()
    TOKEN_OUT_OF_RANGE = enum.auto()
    TOPIC_POLICIES_SWITCHED = enum.auto()
    EVENTS_GONE = enum.auto()
    LOG_REPLACED = enum.auto()


class ViolationReason(_Name):
    """What is wrong with one field of a request."""

    MORE_VIOLATIONS = enum.auto()
    MALFORMED_MESSAGE = enum.auto()
    TOO_LONG = enum.auto()
    TOO_MANY_ELEMENTS = enum.auto()
    DOCUMENT_TOO_LARGE = enum.auto()
    OUT_OF_BOUNDS = enum.auto()
    CONTRADICTION = enum.auto()
    NOTHING_SELECTED = enum.auto()
    NOT_SELECTED = enum.auto()
    TOO_MANY_SELECTORS = enum.auto()
    REPEATED_SCOPE = enum.auto()
    MALFORMED_NAME = enum.auto()
    SYSTEM_TOPIC = enum.auto()
    MALFORMED_REQUEST_ID = enum.auto()
    MALFORMED_TOKEN = enum.auto()
    MALFORMED_VERSION = enum.auto()
    UNKNOWN_SCOPE = enum.auto()
    UNKNOWN_MODE = enum.auto()
    UNKNOWN_LIST_OPERATION = enum.auto()
    IN_THE_FUTURE = enum.auto()
    EMPTY_MASK = enum.auto()
    TOO_MANY_PATHS = enum.auto()
    MASK_TOO_LONG = enum.auto()
    PATH_TOO_LONG = enum.auto()
    MALFORMED_PATH = enum.auto()
    EMPTY_SEGMENT = enum.auto()
    UNKNOWN_PATH = enum.auto()
    INDEX_INTO_LIST = enum.auto()
    THROUGH_SCALAR = enum.auto()
    INVALID_MAP_KEY = enum.auto()
    OVERLAPPING_PATHS = enum.auto()
    WILDCARD_NOT_ALONE = enum.auto()
    NOT_IN_MASK = enum.auto()
    NOT_A_LIST = enum.auto()
    NO_ELEMENTS = enum.auto()
    HALF_OBJECT = enum.auto()
    UNKNOWN_FIELD = enum.auto()
    UNKNOWN_ENUM_VALUE = enum.auto()
    UNSPECIFIED_ELEMENT = enum.auto()
    REDACTED_SECRET = enum.auto()
    NEGATIVE = enum.auto()
    BELOW_MINUS_ONE = enum.auto()
    HALF_ZERO = enum.auto()
    NOT_POSITIVE = enum.auto()
    QUORUM_ORDER = enum.auto()
    LOCAL_SCOPE_ONLY = enum.auto()
    NOT_PERSISTENT = enum.auto()
    SHADOW_NOT_PERSISTENT = enum.auto()
    BLANK = enum.auto()
    UNKNOWN_DRIVER = enum.auto()
    NO_BUCKET = enum.auto()
    NO_LIMIT = enum.auto()
    ABOVE_BROKER_MAXIMUM = enum.auto()
    CONSTRAINT = enum.auto()
    RETENTION_BELOW_QUOTA = enum.auto()
    QUOTA_ABOVE_RETENTION = enum.auto()
    LOCAL_CLUSTER_UNKNOWN = enum.auto()
    LOCAL_CLUSTER_MISSING = enum.auto()
    NAMESPACE_NOT_REPLICATED = enum.auto()
    CLUSTER_NOT_IN_NAMESPACE = enum.auto()
    UNKNOWN_CLUSTER = enum.auto()
    PEER_CLUSTERS = enum.auto()
    CLUSTER_NOT_ALLOWED = enum.auto()
    SHADOW_NOT_FOUND = enum.auto()
    UNKNOWN_ENTRY_FILTER = enum.auto()


class LogState(enum.Enum):
    """How a log, or the admin API beside it, failed: what the server acts on. Callers get the ``reason``."""

    UNREACHABLE = enum.auto()
    ACCESS_DENIED = enum.auto()
    REFUSED = enum.auto()
    FENCED = enum.auto()
    """Another process is the log's only writer."""
    NOT_SERVED = enum.auto()
    STUCK = enum.auto()
    LOST = enum.auto()
    """The log has to be opened again."""
    APPEND_FAILED = enum.auto()
    """Nothing can be appended, although the log is still followed."""
    LOAD_TIMEOUT = enum.auto()
    ADMIN_UNREACHABLE = enum.auto()
    ADMIN_REFUSED = enum.auto()

    @property
    def reason(self) -> Reason:
        """The reason that callers get."""
        if self in (LogState.ADMIN_UNREACHABLE, LogState.ADMIN_REFUSED):
            return Reason.CLUSTER_UNAVAILABLE
        return Reason.LOG_UNAVAILABLE
