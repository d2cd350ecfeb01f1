//! The errors of calls.

use std::{collections::HashMap, error::Error as _, fmt, time::Duration};

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::v1;

/// The domain of the service's own errors.
const DOMAIN: &str = "topicpolicies";

/// Why a call did not succeed.
#[derive(Clone, Debug)]
pub enum Error {
    /// The call failed, and nothing was changed.
    Failed(Box<Failure>),
    /// The change may have been made, or may yet be made. A repeat with the same request id returns the outcome.
    OutcomeUnknown {
        /// The id with which to repeat the change.
        request_id: String,
        /// How the last attempt ended.
        last: Box<Failure>,
    },
}

impl Error {
    /// How the last attempt ended.
    pub fn failure(&self) -> &Failure {
        match self {
            Self::Failed(last) | Self::OutcomeUnknown { last, .. } => last,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(failure) => write!(f, "{failure}"),
            Self::OutcomeUnknown { request_id, last } => {
                write!(f, "it may have been done; repeat it with the request id {request_id}: {last}")
            }
        }
    }
}

impl std::error::Error for Error {}

/// How one attempt of a call ended.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The status code.
    pub code: Code,
    /// A human-readable description.
    pub message: String,
    /// The service's reason, such as `ETAG_MISMATCH`; empty if the error is not the service's own.
    pub reason: String,
    /// Further facts for programs, by key; `ErrorReason` says which keys each reason has.
    pub metadata: HashMap<String, String>,
    /// Everything that is wrong with the request.
    pub violations: Vec<Violation>,
    /// After which time a repeat may succeed, from `google.rpc.RetryInfo`; `None` if the error has none.
    pub retry_after: Option<Duration>,
    /// Whether there was no connection, so that the request was never sent.
    pub never_sent: bool,
}

/// One thing that is wrong with a request.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The path of the field in the request.
    pub field: String,
    /// What is wrong, as an `ErrorReason` without its prefix.
    pub reason: String,
    /// A human-readable description.
    pub description: String,
}

impl Failure {
    /// Creates a failure that this client detected itself.
    pub fn new(code: Code, message: &str) -> Self {
        Self::from(&Status::new(code, message))
    }

    /// Whether a limit was reached and the service says when to retry. Nothing was done.
    pub fn passing_limit(&self) -> bool {
        self.code == Code::ResourceExhausted && self.retry_after.is_some()
    }

    /// The reason, if this client knows it.
    pub fn known_reason(&self) -> Option<v1::ErrorReason> {
        v1::ErrorReason::from_str_name(&format!("ERROR_REASON_{}", self.reason))
    }
}

impl From<&Status> for Failure {
    fn from(status: &Status) -> Self {
        let details = status.get_error_details();
        let info = details.error_info().filter(|info| info.domain == DOMAIN);
        let violations = details.bad_request().map(|wrong| wrong.field_violations.as_slice()).unwrap_or_default();
        let mut causes = std::iter::successors(status.source(), |&cause| cause.source());
        // tonic reports a broken connection as UNKNOWN, with a cause, gRPC as UNAVAILABLE. A status that the server sent has no cause.
        let broken = status.code() == Code::Unknown && status.source().is_some();
        Self {
            code: if broken { Code::Unavailable } else { status.code() },
            message: status.message().into(),
            reason: info.map(|info| info.reason.clone()).unwrap_or_default(),
            metadata: info.map(|info| info.metadata.clone()).unwrap_or_default(),
            violations: violations
                .iter()
                .map(|one| Violation { field: one.field.clone(), reason: one.reason.clone(), description: one.description.clone() })
                .collect(),
            retry_after: details.retry_info().and_then(|again| again.retry_delay),
            never_sent: causes.any(|cause| cause.is::<tonic::ConnectError>()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.code)?;
        if !self.reason.is_empty() {
            write!(f, " ({})", self.reason)?;
        }
        write!(f, ": {}", self.message)?;
        self.violations.iter().try_for_each(|one| write!(f, "; {}: {} ({})", one.field, one.description, one.reason))
    }
}
