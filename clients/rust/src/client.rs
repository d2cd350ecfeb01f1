//! The client and its calls.

use std::{mem, time::Duration};

use prost::Message as _;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::{
    Code, Request, Response, Status,
    metadata::MetadataValue,
    transport::{Channel, Endpoint},
};
use uuid::Uuid;

use crate::{
    Cache, Error, Failure, Watch, mask,
    v1::{
        self, ChangeOutcome, ChangeResult, DeletePolicyRequest, GetPolicyRequest, ListPoliciesRequest, PolicyChangeRequest, PolicyDocument,
        Precondition, Scope, TopicPolicies, UpdatePolicyRequest, policy_change_request::Change, policy_change_result,
        precondition::Condition, topic_policies_service_client::TopicPoliciesServiceClient,
    },
};

/// The generated stub.
pub(crate) type Stub = TopicPoliciesServiceClient<Channel>;

/// The attempts of a call, the first pause between two, and the longest, as `clients/service_config.json` has them: tonic does not read it.
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How many times the function of [`Client::edit`] runs if other writers are faster each time.
const MOST_RUNS: u32 = 16;
/// The most changes of one batch, and their size in bytes.
const MOST_CHANGES: usize = 1000;
const MOST_BATCH_BYTES: usize = 3 << 20;
/// The maximum size of an answer, in bytes.
const MOST_BYTES: usize = 64 << 20;

/// A client of one server. Clones share its connection. A call fails if the service refuses it, if there is no answer in time, or, for a
/// change, if its outcome is unknown.
#[derive(Clone, Debug)]
pub struct Client {
    channel: Channel,
    timeout: Duration,
}

impl Client {
    /// Creates a client of the server at `host:port`. The first call connects, without TLS.
    pub fn new(address: &str) -> Result<Self, tonic::transport::Error> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?.connect_timeout(Duration::from_secs(5));
        // Pings detect a connection that died silently.
        let endpoint = endpoint.http2_keep_alive_interval(Duration::from_secs(30)).keep_alive_timeout(Duration::from_secs(10));
        Ok(Self { channel: endpoint.connect_lazy(), timeout: Duration::from_secs(30) })
    }

    /// Sets the time limit of each call, which all its attempts share; 30 seconds by default.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// The connection, for the generated stubs: that of the history, for instance.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Updates one document. A request without an id gets one, so that every repeat is safe.
    pub async fn update(&self, mut request: UpdatePolicyRequest) -> Result<ChangeResult, Error> {
        let id = identify(&mut request.request_id, request.validate_only);
        let answer = self.call(request, |mut stub, request| async move { stub.update_policy(request).await }).await;
        answer.map_err(|failure| Error::of(failure, &id))
    }

    /// Deletes one document.
    pub async fn delete(&self, mut request: DeletePolicyRequest) -> Result<ChangeResult, Error> {
        let id = identify(&mut request.request_id, request.validate_only);
        let answer = self.call(request, |mut stub, request| async move { stub.delete_policy(request).await }).await;
        answer.map_err(|failure| Error::of(failure, &id))
    }

    /// Runs a function on a copy of a document, or on an empty one if there is none, and sends the difference with the version as the
    /// precondition. If another writer was faster, the function runs again on the new document, up to 16 times in all. If there is no
    /// difference, nothing is sent.
    pub async fn edit(&self, topic: &str, scope: Scope, edit: impl Fn(&mut TopicPolicies)) -> Result<ChangeResult, Error> {
        let mut read = GetPolicyRequest { topic: topic.into(), scope: scope.into(), ..Default::default() };
        let mut run = 1;
        loop {
            let document = self.get_policy(read.clone()).await?;
            let before = document.policies.clone().unwrap_or_default();
            let mut after = before.clone();
            edit(&mut after);
            let paths = mask::difference(&before, &after);
            if paths.is_empty() {
                let (version, previous_version) = (document.version.clone(), document.version.clone());
                let outcome = ChangeOutcome::Unchanged.into();
                return Ok(ChangeResult { document: Some(document), version, previous_version, outcome, ..Default::default() });
            }
            let update = UpdatePolicyRequest {
                topic: topic.into(),
                scope: scope.into(),
                policies: Some(after),
                update_mask: mask::of(paths),
                precondition: Some(Precondition { condition: Some(Condition::Version(document.version)) }),
                ..Default::default()
            };
            match self.update(update).await {
                Err(Error::Failed(failure)) if run < MOST_RUNS && failure.is_conflict() => {
                    // The server that answers reads may not have this version yet.
                    read.at_least_version = failure.metadata.get("version").cloned().unwrap_or_default();
                    sleep(pause(run, Duration::from_millis(10), Duration::from_millis(500))).await;
                    run += 1;
                }
                done => return done,
            }
        }
    }

    /// Makes any number of changes, in batches, one after the other. Those of one policy key are made in this order, and each succeeds or
    /// fails alone. The results are in the order of the changes.
    pub async fn batch(&self, changes: impl IntoIterator<Item = Change>) -> Vec<Result<ChangeResult, Error>> {
        let (mut results, mut batch, mut bytes) = (Vec::new(), Vec::new(), 0);
        for mut change in changes {
            let id = match &mut change {
                Change::Update(request) => identify(&mut request.request_id, request.validate_only),
                Change::Delete(request) => identify(&mut request.request_id, request.validate_only),
            };
            let change = PolicyChangeRequest { change: Some(change) };
            if batch.len() == MOST_CHANGES || (!batch.is_empty() && bytes + change.encoded_len() > MOST_BATCH_BYTES) {
                results.extend(self.send(mem::take(&mut batch)).await);
                bytes = 0;
            }
            bytes += change.encoded_len();
            batch.push((id, change));
        }
        results.extend(self.send(batch).await);
        results
    }

    async fn send(&self, batch: Vec<(String, PolicyChangeRequest)>) -> Vec<Result<ChangeResult, Error>> {
        use policy_change_result::Result::{Error as Failed, Success};
        let (ids, changes): (Vec<String>, Vec<PolicyChangeRequest>) = batch.into_iter().unzip();
        if changes.is_empty() {
            return Vec::new();
        }
        let request = v1::BatchUpdatePoliciesRequest { changes };
        match self.call(request, |mut stub, request| async move { stub.batch_update_policies(request).await }).await {
            Ok(answer) => {
                let one = |(one, id): (v1::PolicyChangeResult, &String)| match one.result {
                    Some(Success(done)) => Ok(done),
                    Some(Failed(error)) => Err(Error::of(Failure::from(&status_of(&error)), id)),
                    None => Err(Error::of(Failure::from(&Status::unknown("the result is of an unknown kind")), id)),
                };
                answer.results.into_iter().zip(&ids).map(one).collect()
            }
            Err(failure) => ids.iter().map(|id| Err(Error::of(failure.clone(), id))).collect(),
        }
    }

    /// Reads one document. If there is none, `policies` is unset.
    pub async fn get(&self, topic: &str, scope: Scope) -> Result<PolicyDocument, Error> {
        self.get_policy(GetPolicyRequest { topic: topic.into(), scope: scope.into(), ..Default::default() }).await
    }

    async fn get_policy(&self, request: GetPolicyRequest) -> Result<PolicyDocument, Error> {
        Ok(self.call(request, |mut stub, request| async move { stub.get_policy(request).await }).await?)
    }

    /// Reads the effective policies of one topic, and the level that sets each value.
    pub async fn effective(&self, request: v1::GetEffectivePolicyRequest) -> Result<v1::EffectivePolicy, Error> {
        Ok(self.call(request, |mut stub, request| async move { stub.get_effective_policy(request).await }).await?)
    }

    /// Lists all documents of a namespace, page by page.
    pub async fn list(&self, namespace: &str) -> Result<Vec<PolicyDocument>, Error> {
        let mut request = ListPoliciesRequest { namespace: namespace.into(), ..Default::default() };
        let mut documents = Vec::new();
        loop {
            let page = self.call(request.clone(), |mut stub, request| async move { stub.list_policies(request).await }).await?;
            documents.extend(page.documents);
            if page.next_page_token.is_empty() {
                return Ok(documents);
            }
            request.page_token = page.next_page_token;
        }
    }

    /// Reads facts about the server.
    pub async fn server_info(&self) -> Result<v1::ServerInfo, Error> {
        Ok(self.call(v1::GetServerInfoRequest {}, |mut stub, request| async move { stub.get_server_info(request).await }).await?)
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
        Stub::new(self.channel()).max_decoding_message_size(MOST_BYTES)
    }

    /// Makes attempts until one succeeds, fails otherwise than with UNAVAILABLE, is the last one, or the time is over.
    async fn call<Q: Clone, A, F>(&self, request: Q, send: impl Fn(Stub, Request<Q>) -> F) -> Result<A, Failure>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let deadline = Instant::now() + self.timeout;
        let mut attempt = 1;
        loop {
            let mut sent = Request::new(request.clone());
            sent.set_timeout(deadline.saturating_duration_since(Instant::now()));
            if attempt > 1 {
                sent.metadata_mut().insert("grpc-previous-rpc-attempts", MetadataValue::from(attempt - 1));
            }
            let late = |_| Err(Status::deadline_exceeded("there was no answer in time"));
            let failure = match timeout_at(deadline, send(self.stub(), sent)).await.unwrap_or_else(late) {
                Ok(answer) => return Ok(answer.into_inner()),
                Err(status) => Failure::from(&status),
            };
            let pause = pause(attempt, FIRST_PAUSE, LONGEST_PAUSE);
            if failure.code != Code::Unavailable || attempt == ATTEMPTS || Instant::now() + pause >= deadline {
                return Err(failure);
            }
            sleep(pause).await;
            attempt += 1;
        }
    }
}

/// The pause after some failures in a row: each is at most twice as long as the one before.
pub(crate) fn pause(failures: u32, first: Duration, longest: Duration) -> Duration {
    (first * 2_u32.pow(failures.clamp(1, 11) - 1)).min(longest).mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// Gives a request an id if it has none. Returns that of a request that may change something, and else an empty one.
fn identify(request_id: &mut String, validate_only: bool) -> String {
    if request_id.is_empty() {
        *request_id = Uuid::new_v4().simple().to_string();
    }
    if validate_only { String::new() } else { request_id.clone() }
}

/// Converts the error of one change of a batch to a status, with the details in the place where a call's status has them.
fn status_of(error: &tonic_types::pb::Status) -> Status {
    Status::with_details(error.code.into(), &error.message, error.encode_to_vec().into())
}
