//! The errors of calls.

use std::{collections::HashMap, error::Error as _, fmt};

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

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

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Failed(Box::new(failure))
    }
}

impl Error {
    /// The error of a change; the request id is empty for a dry run.
    pub fn of(failure: Failure, request_id: &str) -> Self {
        if request_id.is_empty() || !failure.may_have_happened() {
            return failure.into();
        }
        Self::OutcomeUnknown { request_id: request_id.into(), last: Box::new(failure) }
    }

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
    /// The service's reason, such as `PRECONDITION_FAILED`; empty if the error is not the service's own.
    pub reason: String,
    /// Further facts for programs, by key; `ErrorReason` says which keys each reason has.
    pub metadata: HashMap<String, String>,
    /// Everything that is wrong with the request.
    pub violations: Vec<Violation>,
}

/// One thing that is wrong with a request.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The path of the field in the request.
    pub field: String,
    /// What is wrong, such as `UNKNOWN_PATH`.
    pub reason: String,
    /// A human-readable description.
    pub description: String,
}

impl Failure {
    /// Whether another writer was faster: the document is not as the change requires.
    pub fn is_conflict(&self) -> bool {
        ["PRECONDITION_FAILED", "CONTENTION"].contains(&self.reason.as_str())
    }

    /// Whether a change that failed like this may have been made.
    pub fn may_have_happened(&self) -> bool {
        let open = [Code::Unavailable, Code::DeadlineExceeded, Code::Cancelled, Code::Internal, Code::Unknown, Code::DataLoss];
        if self.reason.is_empty() { open.contains(&self.code) } else { ["OUTCOME_UNKNOWN", "INTERNAL"].contains(&self.reason.as_str()) }
    }

    /// Whether a watch that ended like this would end so again; `began` says whether its stream had sent a message.
    pub fn ends_watch(&self, began: bool) -> bool {
        let renewable = began && self.reason == "CREDENTIALS_EXPIRED"; // the caller may have renewed its token
        let forbidding =
            [Code::InvalidArgument, Code::Unauthenticated, Code::PermissionDenied, Code::Unimplemented, Code::FailedPrecondition];
        forbidding.contains(&self.code) && !renewable
    }
}

impl From<&Status> for Failure {
    fn from(status: &Status) -> Self {
        let details = status.get_error_details();
        let info = details.error_info().filter(|info| info.domain == DOMAIN);
        let violations = details.bad_request().map(|wrong| wrong.field_violations.as_slice()).unwrap_or_default();
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
