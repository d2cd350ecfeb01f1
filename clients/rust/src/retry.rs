//! Which calls are repeated: `clients/vectors/retries.json`.

use std::time::Duration;

use tonic::Code;

use crate::{Failure, v1::ErrorReason};

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The call changes nothing.
    Read,
    /// The call changes a document, and has a request id.
    Change,
    /// The call is a stream that is resumed from its tokens.
    Watch,
}

impl Call {
    /// The kind of a change; a dry run changes nothing.
    pub fn change(validate_only: bool) -> Self {
        if validate_only { Self::Read } else { Self::Change }
    }
}

/// What follows the failure of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The call is repeated after a pause; a change with the same request id.
    Repeat,
    /// The call is repeated at once, at this address.
    RepeatAt(String),
    /// The caller gets the error of the attempt: nothing was changed.
    GiveUp,
    /// The caller gets an error that says that the change may have been made.
    OutcomeUnknown,
}

/// The attempts of one call so far.
#[derive(Clone, Copy, Debug)]
pub struct Attempts {
    call: Call,
    /// Whether an attempt ended in a way that leaves open if the change was made.
    open: bool,
}

impl Attempts {
    /// No attempts yet.
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

    /// What the caller gets, if this failure is the last.
    pub fn last(&mut self, failure: &Failure) -> Next {
        if self.call != Call::Change {
            return Next::GiveUp;
        }
        self.open |= leaves_open(failure);
        if self.open && !settles(failure) { Next::OutcomeUnknown } else { Next::GiveUp }
    }

    /// What the caller gets for one of many changes, which failed by itself after these attempts of the stream.
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

/// Whether a change that failed like this may have been made.
fn leaves_open(failure: &Failure) -> bool {
    if failure.never_sent || failure.passing_limit() {
        return false;
    }
    match failure.known_reason() {
        // Only these two reasons ask for a repeat with the same request id.
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

/// Whether this failure says that none of the earlier attempts made the change either. The service looks up the request id before it
/// compares the document, so a refusal because of the document means that there was no earlier request.
fn settles(failure: &Failure) -> bool {
    let settling = matches!(failure.code, Code::InvalidArgument | Code::Aborted | Code::AlreadyExists);
    settling && !failure.reason.is_empty()
}

/// Whether a watch ends after this status.
fn forbids_watch(code: Code) -> bool {
    matches!(code, Code::InvalidArgument | Code::Unauthenticated | Code::PermissionDenied | Code::Unimplemented | Code::FailedPrecondition)
}

/// Growing pauses: each is twice the one before, up to the longest one, and multiplied by a random factor from 0.5 to 1.
#[derive(Debug)]
pub struct Pauses {
    next: Duration,
    most: Duration,
}

impl Pauses {
    /// The pauses between the attempts of a call: 0.1 s to 5 s.
    pub fn of_a_call() -> Self {
        Self { next: Duration::from_millis(100), most: Duration::from_secs(5) }
    }

    /// The pauses between the streams of a watch: 0.1 s to 10 s.
    pub fn of_a_watch() -> Self {
        Self { most: Duration::from_secs(10), ..Self::of_a_call() }
    }

    /// The pauses between the runs of an edit: 0.01 s to 0.5 s, because the writer that was faster has already finished.
    pub fn of_an_edit() -> Self {
        Self { next: Duration::from_millis(10), most: Duration::from_millis(500) }
    }

    /// The next pause. After a limit was reached it is a long one, unless the service says when to retry: then it is the usual one, added
    /// to that time.
    pub fn after(&mut self, failure: &Failure) -> Duration {
        if failure.code == Code::ResourceExhausted && !failure.passing_limit() {
            self.next = self.most;
        }
        let pause = self.next.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.next = (self.next * 2).min(self.most);
        pause + failure.retry_after.unwrap_or_default()
    }
}
