//! The client and its calls.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::{Instant, sleep, timeout_at};
use tonic::{
    Code, Response, Status,
    transport::{Channel, Endpoint},
};
use uuid::Uuid;

use crate::{
    Cache, Error, Failure, Watch, mask,
    retry::{Attempts, Call, Next, Pauses},
    v1::{
        self, DeletePolicyRequest, DeletePolicyResponse, ErrorReason, PolicyChangeRequest, PolicyDocument, Scope, TopicPolicies,
        UpdatePolicyRequest, UpdatePolicyResponse, get_policy_request::ReadAt, policy_change_request::Change, policy_change_result,
        topic_policies_service_client::TopicPoliciesServiceClient,
    },
};

/// The generated stub.
pub(crate) type Stub = TopicPoliciesServiceClient<Channel>;

/// The number of changes in one batch of [`Client::update_many`].
const BATCH: usize = 100;
/// How many times the function of [`Client::edit`] runs if other writers are faster each time.
const MOST_RUNS: usize = 16;
/// The maximum size of an answer, in bytes.
const MOST_BYTES: usize = 1 << 30;

/// A client of one server. Clones share its connection. A call fails if the service refuses it, if there is no answer in time, or, for a
/// change, if its outcome is unknown.
#[derive(Clone, Debug)]
pub struct Client {
    channel: Channel,
    timeout: Duration,
}

/// The result of one change of [`Client::update_many`].
#[derive(Clone, Debug)]
pub enum Changed {
    /// The update succeeded.
    Updated(Box<UpdatePolicyResponse>),
    /// The deletion succeeded.
    Deleted(Box<DeletePolicyResponse>),
}

impl Client {
    /// Creates a client of the server at `host:port`. The first call connects, without TLS.
    pub fn new(address: &str) -> Result<Self, tonic::transport::Error> {
        Ok(Self { channel: endpoint(address)?.connect_lazy(), timeout: Duration::from_secs(30) })
    }

    /// Sets the time limit of each call, which all its attempts share; 30 seconds by default.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Changes the fields that the mask names. A request without an id gets one, so that every repeat is safe.
    pub async fn update(&self, mut request: UpdatePolicyRequest) -> Result<UpdatePolicyResponse, Error> {
        let id = identify(&mut request.request_id);
        self.call(Call::change(request.validate_only), &id, |mut stub| {
            let request = request.clone();
            async move { stub.update_policy(request).await }
        })
        .await
    }

    /// Deletes one document.
    pub async fn delete(&self, mut request: DeletePolicyRequest) -> Result<DeletePolicyResponse, Error> {
        let id = identify(&mut request.request_id);
        self.call(Call::change(request.validate_only), &id, |mut stub| {
            let request = request.clone();
            async move { stub.delete_policy(request).await }
        })
        .await
    }

    /// Runs a function on a copy of a document, or on an empty one if there is none, and sends the difference. If another writer has
    /// changed the document meanwhile, the function runs again on the new one, up to 16 times in all; after that the error is
    /// `ETAG_MISMATCH`. If there is no difference, nothing is sent. All of it takes no longer than one call may.
    pub async fn edit(&self, topic: &str, scope: Scope, edit: impl Fn(&mut TopicPolicies)) -> Result<UpdatePolicyResponse, Error> {
        let deadline = Instant::now() + self.timeout;
        let in_time = || self.clone().with_timeout(deadline.saturating_duration_since(Instant::now()));
        let (mut runs, mut pauses, mut read_at) = (0, Pauses::of_an_edit(), None);
        loop {
            let document = in_time().get_at(topic, scope, read_at).await?;
            let before = document.policies.clone().unwrap_or_default();
            let mut after = before.clone();
            edit(&mut after);
            let paths = mask::difference(&before, &after);
            if paths.is_empty() {
                let (version, previous_version) = (document.version.clone(), document.version.clone());
                let outcome = v1::UpdateOutcome::Unchanged.into();
                return Ok(UpdatePolicyResponse { document: Some(document), version, previous_version, outcome, ..Default::default() });
            }
            let request = UpdatePolicyRequest {
                topic: topic.into(),
                scope: scope.into(),
                policies: Some(after),
                update_mask: mask::of(paths),
                etag: document.version,
                ..Default::default()
            };
            let failure = match in_time().update(request).await {
                Err(Error::Failed(failure)) if failure.known_reason() == Some(ErrorReason::EtagMismatch) => failure,
                done => return done,
            };
            runs += 1;
            let pause = pauses.after(&failure);
            if runs == MOST_RUNS || Instant::now() + pause >= deadline {
                return Err(Error::Failed(failure));
            }
            // The server that answers reads may not have this version yet.
            read_at = failure.metadata.get("version").cloned().map(ReadAt::AtLeastVersion);
            sleep(pause).await;
        }
    }

    /// Makes many changes on one stream; those of one policy key are made in this order. If the stream breaks, it is opened again, and the
    /// changes without a result are sent again with the same request ids. A change that the service refused is not sent again, because
    /// later changes of its key may have been made. The results are in the order of the changes.
    pub async fn update_many(&self, changes: impl IntoIterator<Item = Change>) -> Vec<Result<Changed, Error>> {
        let (mut ids, mut calls) = (Vec::new(), Vec::new());
        let mut unsettled = BTreeMap::new();
        for (sequence, mut change) in (0..).zip(changes) {
            let (request_id, validate_only) = match &mut change {
                Change::Update(request) => (&mut request.request_id, request.validate_only),
                Change::Delete(request) => (&mut request.request_id, request.validate_only),
            };
            ids.push(identify(request_id));
            calls.push(Call::change(validate_only));
            unsettled.insert(sequence, change);
        }
        let mut results = BTreeMap::new();
        let deadline = Instant::now() + self.timeout;
        let (mut attempts, mut pauses) = (Attempts::new(Call::Change), Pauses::of_a_call());
        let failed = |attempts: Attempts, sequence: u64, failure: Failure| {
            let index = usize::try_from(sequence).unwrap_or(usize::MAX);
            let call = calls.get(index).copied().unwrap_or(Call::Change);
            verdict(&attempts.of_one(call, &failure), failure, ids.get(index).map_or("", String::as_str))
        };
        while !unsettled.is_empty() {
            let before = attempts;
            let round = self.round(&mut unsettled, |sequence, result| {
                results.insert(sequence, result.map_err(|status| failed(before, sequence, Failure::from(&status))));
            });
            let status = timeout_at(deadline, round).await.unwrap_or_else(|_| Err(late())).err();
            if unsettled.is_empty() {
                break;
            }
            let failure = Failure::from(&status.unwrap_or_else(|| Status::unavailable("the stream ended early")));
            let next = attempts.next(&failure);
            let pause = pauses.after(&failure);
            if matches!(next, Next::Repeat | Next::RepeatAt(_)) && Instant::now() + pause < deadline {
                sleep(pause).await;
                continue;
            }
            for sequence in std::mem::take(&mut unsettled).into_keys() {
                results.insert(sequence, Err(failed(attempts, sequence, failure.clone())));
            }
        }
        results.into_values().collect()
    }

    async fn round(
        &self,
        unsettled: &mut BTreeMap<u64, Change>,
        mut settle: impl FnMut(u64, Result<Changed, Status>),
    ) -> Result<(), Status> {
        let changes: Vec<PolicyChangeRequest> =
            unsettled.iter().map(|(sequence, change)| PolicyChangeRequest { sequence: *sequence, change: Some(change.clone()) }).collect();
        let batches: Vec<v1::UpdatePoliciesRequest> =
            changes.chunks(BATCH).map(|changes| v1::UpdatePoliciesRequest { changes: changes.to_vec() }).collect();
        let mut answers = self.stub().update_policies(tokio_stream::iter(batches)).await?.into_inner();
        while let Some(batch) = answers.message().await? {
            for one in batch.results {
                if let Some(change) = unsettled.remove(&one.sequence) {
                    settle(one.sequence, result_of(&change, one.result));
                }
            }
        }
        Ok(())
    }

    /// Reads one document. If there is none, `policies` is unset.
    pub async fn get(&self, topic: &str, scope: Scope) -> Result<PolicyDocument, Error> {
        self.get_at(topic, scope, None).await
    }

    async fn get_at(&self, topic: &str, scope: Scope, read_at: Option<ReadAt>) -> Result<PolicyDocument, Error> {
        let request = v1::GetPolicyRequest { topic: topic.into(), scopes: vec![scope.into()], read_at };
        let documents = self.get_policy(request).await?;
        let nothing = || Error::Failed(Box::new(Failure::new(Code::Internal, "the answer has no document")));
        documents.into_iter().next().ok_or_else(nothing)
    }

    /// Reads the documents of one topic, also as they were at a time or version in the past (`read_at`).
    pub async fn get_policy(&self, request: v1::GetPolicyRequest) -> Result<Vec<PolicyDocument>, Error> {
        self.read(request, |mut stub, request| async move { stub.get_policy(request).await }).await.map(|answer| answer.documents)
    }

    /// Reads the effective policies of one topic, and the level that sets each value.
    pub async fn effective(&self, request: v1::GetEffectivePolicyRequest) -> Result<v1::GetEffectivePolicyResponse, Error> {
        self.read(request, |mut stub, request| async move { stub.get_effective_policy(request).await }).await
    }

    /// Lists all documents of a namespace, page by page.
    pub async fn list(&self, namespace: &str) -> Result<Vec<PolicyDocument>, Error> {
        let mut request = v1::ListPoliciesRequest { namespace: namespace.into(), ..Default::default() };
        let mut documents = Vec::new();
        loop {
            let page = self.read(request.clone(), |mut stub, request| async move { stub.list_policies(request).await }).await?;
            documents.extend(page.documents);
            if page.next_page_token.is_empty() {
                return Ok(documents);
            }
            request.page_token = page.next_page_token;
        }
    }

    /// Reads the server's version, configuration and limits.
    pub async fn server_info(&self) -> Result<v1::GetServerInfoResponse, Error> {
        self.read(v1::GetServerInfoRequest {}, |mut stub, request| async move { stub.get_server_info(request).await }).await
    }

    /// Follows topics and namespaces. The watch connects when its first message is requested.
    pub fn watch(&self, request: v1::WatchPoliciesRequest) -> Watch {
        Watch::new(self.clone(), request)
    }

    /// Keeps a live copy of some namespaces. Must be called within a Tokio runtime.
    pub fn cache<N: Into<String>>(&self, namespaces: impl IntoIterator<Item = N>) -> Cache {
        Cache::start(self.clone(), namespaces.into_iter().map(Into::into).collect())
    }

    pub(crate) fn stub(&self) -> Stub {
        sized(Stub::new(self.channel.clone()))
    }

    pub(crate) fn stub_at(&self, address: &str) -> Result<Stub, Status> {
        let endpoint = endpoint(address).map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(sized(Stub::new(endpoint.connect_lazy())))
    }

    async fn read<Q: Clone, A, F>(&self, request: Q, send: impl Fn(Stub, Q) -> F) -> Result<A, Error>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        self.call(Call::Read, "", |stub| send(stub, request.clone())).await
    }

    /// Makes attempts until one succeeds, the rules say to give up, or the time is over.
    async fn call<A, F>(&self, call: Call, request_id: &str, send: impl Fn(Stub) -> F) -> Result<A, Error>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let deadline = Instant::now() + self.timeout;
        let (mut attempts, mut pauses) = (Attempts::new(call), Pauses::of_a_call());
        let mut leader = None;
        loop {
            let redirected = leader.is_some();
            let stub = leader.take().map_or_else(|| Ok(self.stub()), |address: String| self.stub_at(&address));
            let answer = match stub {
                Ok(stub) => timeout_at(deadline, send(stub)).await.unwrap_or_else(|_| Err(late())),
                Err(status) => Err(status),
            };
            let failure = match answer {
                Ok(answer) => return Ok(answer.into_inner()),
                Err(status) => Failure::from(&status),
            };
            let next = attempts.next(&failure);
            let pause = match &next {
                Next::Repeat => pauses.after(&failure),
                // Two servers may each take the other one for the leader.
                Next::RepeatAt(_) if redirected => pauses.after(&failure),
                Next::RepeatAt(_) => Duration::ZERO,
                last => return Err(verdict(last, failure, request_id)),
            };
            if Instant::now() + pause >= deadline {
                return Err(verdict(&attempts.last(&failure), failure, request_id));
            }
            sleep(pause).await;
            if let Next::RepeatAt(address) = next {
                leader = Some(address);
            }
        }
    }
}

fn endpoint(address: &str) -> Result<Endpoint, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?.connect_timeout(Duration::from_secs(5));
    // Pings detect a connection that died silently.
    Ok(endpoint.http2_keep_alive_interval(Duration::from_secs(20)).keep_alive_timeout(Duration::from_secs(10)))
}

/// An answer may be larger than the limit that tonic sets by default.
fn sized(stub: Stub) -> Stub {
    stub.max_decoding_message_size(MOST_BYTES)
}

fn identify(request_id: &mut String) -> String {
    if request_id.is_empty() {
        *request_id = Uuid::new_v4().simple().to_string();
    }
    request_id.clone()
}

fn late() -> Status {
    Status::deadline_exceeded("there was no answer in time")
}

fn verdict(next: &Next, failure: Failure, request_id: &str) -> Error {
    let last = Box::new(failure);
    match next {
        Next::OutcomeUnknown => Error::OutcomeUnknown { request_id: request_id.into(), last },
        _ => Error::Failed(last),
    }
}

/// Converts the result of one change of a stream.
fn result_of(change: &Change, result: Option<policy_change_result::Result>) -> Result<Changed, Status> {
    use policy_change_result::Result::{Deleted, Error, Updated};
    match (result, change) {
        (Some(Updated(done)), Change::Update(_)) => Ok(Changed::Updated(Box::new(done))),
        (Some(Deleted(done)), Change::Delete(_)) => Ok(Changed::Deleted(Box::new(done))),
        (Some(Error(error)), _) => Err(status_of(&error)),
        (Some(Updated(_) | Deleted(_)), _) => Err(Status::internal("the result is that of another kind of change")),
        (None, _) => Err(Status::unknown("the result is of a kind that this client does not know")),
    }
}

/// Converts the error of one change of a stream to a status, with the details in the place where a call's status has them.
fn status_of(error: &tonic_types::pb::Status) -> Status {
    use prost::Message as _;
    Status::with_details(error.code.into(), &error.message, error.encode_to_vec().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_of_another_kind_than_its_change_leaves_the_outcome_unknown() {
        let update = Change::Update(UpdatePolicyRequest::default());
        let updated = || Some(policy_change_result::Result::Updated(UpdatePolicyResponse::default()));
        assert!(matches!(result_of(&update, updated()), Ok(Changed::Updated(_))));
        for (change, result) in [(&Change::Delete(DeletePolicyRequest::default()), updated()), (&update, None)] {
            let failure = Failure::from(&result_of(change, result).unwrap_err());
            assert_eq!(Attempts::new(Call::Change).last(&failure), Next::OutcomeUnknown, "{failure}");
        }
    }
}
