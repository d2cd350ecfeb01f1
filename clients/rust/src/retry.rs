//! Which calls are made again: `clients/vectors/retries.json`.

use std::time::Duration;

use tonic::Code;

use crate::{Failure, v1::ErrorReason};

/// What kind of call it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// It changes nothing.
    Read,
    /// It changes a document, and has a request id.
    Change,
    /// A stream that is resumed from its tokens.
    Watch,
}

impl Call {
    /// A change, or a dry run of one, which changes nothing.
    pub fn change(validate_only: bool) -> Self {
        if validate_only { Self::Read } else { Self::Change }
    }
}

/// What follows the failure of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The call is made again after a pause, a change with the same request id.
    Repeat,
    /// It is made again at once, at this address.
    RepeatAt(String),
    /// The caller is told how the attempt ended: nothing was changed.
    GiveUp,
    /// The caller is told that the change may have been made.
    OutcomeUnknown,
}

/// The attempts of one call so far.
#[derive(Clone, Copy, Debug)]
pub struct Attempts {
    call: Call,
    /// Whether an attempt ended in a way that leaves open whether the change was made.
    open: bool,
}

impl Attempts {
    /// None yet.
    pub fn new(call: Call) -> Self {
        Self { call, open: false }
    }

    /// What follows this failure, if there is time left.
    pub fn next(&mut self, failure: &Failure) -> Next {
        match (self.last(failure), failure.code) {
            (_, Code::Unavailable | Code::Cancelled) => self.again(failure),
            (_, Code::ResourceExhausted) if failure.passing_limit() => Next::Repeat,
            (_, Code::DeadlineExceeded) if self.call == Call::Change => Next::Repeat,
            (Next::GiveUp, code) if self.call == Call::Watch && !forbids_watch(code) => Next::Repeat,
            (last, _) => last,
        }
    }

    /// What the caller is told, if this failure is the last.
    pub fn last(&mut self, failure: &Failure) -> Next {
        if self.call != Call::Change {
            return Next::GiveUp;
        }
        self.open |= leaves_open(failure);
        if self.open && !settles(failure) { Next::OutcomeUnknown } else { Next::GiveUp }
    }

    /// What the caller is told of one of many changes, which failed by itself after these attempts of all of them.
    pub fn of_one(mut self, call: Call, failure: &Failure) -> Next {
        self.call = call;
        self.last(failure)
    }

    fn again(&self, failure: &Failure) -> Next {
        match failure.metadata.get("leader") {
            Some(leader) if failure.known_reason() == Some(ErrorReason::NotLeader) && !leader.is_empty() => Next::RepeatAt(leader.clone()),
            _ => Next::Repeat,
        }
    }
}

/// Whether a change may have been made although this came of it.
fn leaves_open(failure: &Failure) -> bool {
    if failure.never_sent || failure.passing_limit() {
        return false;
    }
    match failure.known_reason() {
        // Of all reasons only these two ask for a repeat with the same request id.
        Some(reason) => matches!(reason, ErrorReason::OutcomeUnknown | ErrorReason::Internal),
        None => !matches!(
            failure.code,
            Code::InvalidArgument
                | Code::Unauthenticated
                | Code::PermissionDenied
                | Code::Unimplemented
                | Code::FailedPrecondition
                | Code::NotFound
                | Code::AlreadyExists
                | Code::Aborted
                | Code::OutOfRange
        ),
    }
}

/// Whether this tells that none of the attempts before has made the change either. The service looks for an earlier request of the same
/// id before it compares the document, so a refusal for the document's sake means that there was none.
fn settles(failure: &Failure) -> bool {
    let settling = matches!(failure.code, Code::InvalidArgument | Code::Aborted | Code::AlreadyExists);
    settling && !failure.reason.is_empty()
}

/// Whether a watch is given up for this.
fn forbids_watch(code: Code) -> bool {
    matches!(code, Code::InvalidArgument | Code::Unauthenticated | Code::PermissionDenied | Code::Unimplemented | Code::FailedPrecondition)
}

/// Pauses that grow: from 0.1 s, doubled, at most 10 s, each shortened by chance to not less than its half.
#[derive(Debug)]
pub struct Pauses {
    next: Duration,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { next: Duration::from_millis(100) }
    }
}

impl Pauses {
    const MOST: Duration = Duration::from_secs(10);

    /// The next one. After a limit was met it is a long one, unless the service says when there is room again: the usual one begins then.
    pub fn after(&mut self, failure: &Failure) -> Duration {
        if failure.code == Code::ResourceExhausted && !failure.passing_limit() {
            self.next = Self::MOST;
        }
        let pause = self.next.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.next = (self.next * 2).min(Self::MOST);
        pause + failure.retry_after.unwrap_or_default()
    }
}
