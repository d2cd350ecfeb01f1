//! The twenty tasks that every client does alike: `tests/clients/twenty.md`. `cargo run --example twenty ADDRESS NAMESPACE`.

use std::{env, error::Error, process::ExitCode, sync::mpsc, time::Duration};

use tokio::time::timeout;
use topicpolicies_client_example::{
    Client, Failure, mask,
    v1::{
        ChangeResult, DeletePolicyRequest, GetEffectivePolicyRequest, GetPolicyAsOfRequest, HistoryEntry, ListOperation, PolicyDocument,
        Precondition, RetentionPolicies, Scope, SubscriptionType, TopicPolicies, UpdatePolicyRequest, WatchHistoryRequest,
        get_policy_as_of_request::AsOf, policy_change_request::Change, policy_history_service_client::PolicyHistoryServiceClient,
        precondition::Condition, watch_history_event::Content,
    },
};

type Anything<T> = Result<T, Box<dyn Error>>;
type Refusal = topicpolicies_client_example::Error;

/// The path of "the field".
const FIELD: &str = "max_producer_per_topic";
/// The time limit of a call, and of a wait.
const LIMIT: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [address, namespace] = arguments.as_slice() else {
        eprintln!("usage: twenty ADDRESS NAMESPACE");
        return ExitCode::FAILURE;
    };
    match run(address, namespace).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(address: &str, namespace: &str) -> Anything<()> {
    let client = Client::new(address)?.with_timeout(LIMIT);
    let first = one_document(&client, &format!("{namespace}/a")).await?;
    refusals(&client, namespace).await?;
    more_documents(&client, namespace, first).await?;
    following(&client, namespace).await
}

/// Lines 01 to 08. Returns the version of line 01.
async fn one_document(client: &Client, a: &str) -> Anything<String> {
    let mut request = set(a, 5);
    request.request_id = "0123456789abcdef0123456789abcdef".into();
    (request.actor, request.reason) = ("tour".into(), "first".into());
    let first = client.update(request.clone()).await?;
    println!("01 update: {}, {}", outcome(&first), replayed(&first));
    let again = client.update(request).await?;
    let same = if version(&again) == version(&first) { "same version" } else { "other version" };
    println!("02 repeat: {}, {}, {same}", outcome(&again), replayed(&again));
    println!("03 unchanged: {}", outcome(&client.update(set(a, 5)).await?));
    let would = client.update(UpdatePolicyRequest { validate_only: true, ..set(a, 6) }).await?;
    println!("04 dry run: {}, {}, {}", outcome(&would), field(would.document.as_ref()), field(Some(&client.get(a, Scope::Local).await?)));

    let retention = RetentionPolicies { retention_time_in_minutes: Some(10), retention_size_in_mb: Some(100) };
    let policies = Some(TopicPolicies { retention_policies: Some(retention), ..Default::default() });
    client.update(UpdatePolicyRequest { topic: a.into(), policies, ..Default::default() }).await?;
    client.update(UpdatePolicyRequest { update_mask: None, ..set(a, 7) }).await?;
    let document = client.get(a, Scope::Local).await?;
    let time = document.policies.as_ref().and_then(|policies| policies.retention_policies?.retention_time_in_minutes);
    println!("05 no mask: {}, {}", field(Some(&document)), number(time));
    let paths = ["retention_policies.retention_time_in_minutes", "retention_policies.retention_size_in_mb"];
    client.update(UpdatePolicyRequest { topic: a.into(), update_mask: mask::of(paths), ..Default::default() }).await?;
    let retention = client.get(a, Scope::Local).await?.policies.and_then(|policies| policies.retention_policies);
    println!("06 clear: {}", if retention.is_some() { "set" } else { "unset" });

    client.update(types(a, &[SubscriptionType::Shared], ListOperation::Replace)).await?;
    let union = client.update(types(a, &[SubscriptionType::Failover, SubscriptionType::Shared], ListOperation::Union)).await?;
    let last = client.update(types(a, &[SubscriptionType::Shared], ListOperation::Subtract)).await?;
    println!("07 list: {}, {}", elements(union.document.as_ref()), elements(Some(&client.get(a, Scope::Local).await?)));

    let precondition = only_if(Condition::Version(last.previous_version));
    let failure = refused(client.update(UpdatePolicyRequest { precondition, ..set(a, 8) }).await)?;
    println!("08 version: {}, {}", failure.reason, code(&failure));
    Ok(version(&first))
}

/// Lines 09 to 12.
async fn refusals(client: &Client, namespace: &str) -> Anything<()> {
    let (a, b) = (&format!("{namespace}/a"), &format!("{namespace}/b"));
    let precondition = only_if(Condition::Exists(false));
    let failure = refused(client.update(UpdatePolicyRequest { precondition, ..set(a, 8) }).await)?;
    println!("09 absent: {}, {}", failure.reason, code(&failure));
    println!("10 skip: {}", outcome(&client.update(UpdatePolicyRequest { skip_if_absent: true, ..set(b, 1) }).await?));
    let wrong = UpdatePolicyRequest { topic: a.clone(), update_mask: mask::of(["nope", "also.nope"]), ..Default::default() };
    let failure = refused(client.update(wrong).await)?;
    let fields: Vec<&str> = failure.violations.iter().map(|one| one.field.as_str()).collect();
    let reasons: Vec<&str> = failure.violations.iter().map(|one| one.reason.as_str()).collect();
    println!("11 violations: {}, {}, {}", code(&failure), fields.join(","), reasons.join(","));
    let add = |policies: &mut TopicPolicies| *policies.max_producer_per_topic.get_or_insert(0) += 1;
    let (added, nothing) = (client.edit(a, Scope::Local, add).await?, client.edit(a, Scope::Local, |_| {}).await?);
    println!("12 edit: {}, {}, {}", outcome(&added), field(added.document.as_ref()), outcome(&nothing));
    Ok(())
}

/// Lines 13 to 18.
async fn more_documents(client: &Client, namespace: &str, first: String) -> Anything<()> {
    let topic = |name: &str| format!("{namespace}/{name}");
    let (a, c) = (topic("a"), topic("c"));
    let mut changes: Vec<_> = (0..200).map(|i| Change::Update(set(&topic(&format!("m{}", i % 10)), i))).collect();
    let wrong = UpdatePolicyRequest { topic: topic("m0"), update_mask: mask::of(["nope"]), ..Default::default() };
    changes.push(Change::Update(wrong));
    let results = client.batch(changes).await;
    let applied = results.iter().filter(|one| one.as_ref().is_ok_and(|done| outcome(done) == "APPLIED")).count();
    let failures: Vec<&Refusal> = results.iter().filter_map(|one| one.as_ref().err()).collect();
    let reason = failures.first().map_or("", |error| error.failure().reason.as_str());
    let m0 = client.get(&topic("m0"), Scope::Local).await?;
    println!("13 batch: {applied}, {}, {reason}, {}", failures.len(), field(Some(&m0)));

    client.update(UpdatePolicyRequest { scope: Scope::Global.into(), ..set(&c, 3) }).await?;
    let both = [client.get(&c, Scope::Local).await?, client.get(&c, Scope::Global).await?];
    let shown: Vec<String> = both.iter().map(|one| format!("{} {}", scope(one), field(Some(one)))).collect();
    println!("14 scopes: {}", shown.join(", "));
    let mut history = PolicyHistoryServiceClient::new(client.channel());
    let request = GetPolicyAsOfRequest { topic: a, as_of: Some(AsOf::Version(first)), ..Default::default() };
    println!("15 as of: {}", field(Some(&history.get_policy_as_of(request).await?.into_inner())));
    let effective = client.effective(GetEffectivePolicyRequest { topic: c.clone(), ..Default::default() }).await?;
    let source = effective.sources.iter().find(|source| source.path == FIELD).ok_or("the field has no source")?;
    let value = effective.policies.as_ref().and_then(|policies| policies.max_producer_per_topic);
    println!("16 effective: {}, {}", number(value), short(source.source().as_str_name(), "POLICY_SOURCE_"));
    let all = client.list(namespace).await?;
    let all: Vec<String> = all.iter().map(|one| format!("{} {}", one.topic.rsplit('/').next().unwrap_or_default(), scope(one))).collect();
    println!("17 list documents: {}", all.join(","));

    let delete = |version: Option<&String>| {
        let precondition = version.and_then(|version| only_if(Condition::Version(version.clone())));
        client.delete(DeletePolicyRequest { topic: c.clone(), scope: Scope::Global.into(), precondition, ..Default::default() })
    };
    let failure = refused(delete(Some(&m0.version)).await)?;
    let (deleted, again) = (delete(Some(&both[1].version)).await?, delete(None).await?);
    println!("18 delete: {}, {}, {}", failure.reason, outcome(&deleted), outcome(&again));
    Ok(())
}

/// Lines 19 and 20.
async fn following(client: &Client, namespace: &str) -> Anything<()> {
    let a = format!("{namespace}/a");
    let cache = client.cache([namespace]);
    timeout(LIMIT, cache.synced()).await??;
    let (sender, received) = mpsc::channel();
    cache.listen(move |change| drop(sender.send(change.clone())));
    client.update(set(&a, 40)).await?;
    timeout(LIMIT, cache.until(|documents| field(documents.get(&a, Scope::Local)) == "40")).await??;
    let change = received.recv_timeout(LIMIT)?;
    let fresh = if cache.age().is_some_and(|age| age < Duration::from_secs(60)) { "fresh" } else { "stale" };
    let answer = cache.get(&a, Scope::Local);
    let (before, after) = (field(change.before.as_ref()), field(change.after.as_ref()));
    println!("19 watch and cache: {before}, {after}, {}, {fresh}", field(answer.as_ref()));

    let mut history = PolicyHistoryServiceClient::new(client.channel());
    let request = WatchHistoryRequest { namespaces: vec![namespace.into()], ..Default::default() };
    let mut stream = history.watch_history(request).await?.into_inner();
    let (mut entries, mut synced): (Vec<HistoryEntry>, bool) = (Vec::new(), false);
    while !synced {
        for event in timeout(LIMIT, stream.message()).await??.ok_or("the history ended")?.events {
            match event.content {
                Some(Content::Entry(entry)) => entries.push(entry),
                Some(Content::Bookmark(bookmark)) => synced |= bookmark.synced,
                _ => {}
            }
        }
    }
    let version = |document: &Option<PolicyDocument>| document.as_ref().map(|document| document.version.clone());
    entries.retain(|entry| entry.document.as_ref().is_some_and(|document| document.topic == format!("persistent://{a}")));
    let follows = entries.windows(2).all(|two| version(&two[0].document) == version(&two[1].previous));
    let origin = entries.first().and_then(|entry| entry.origin.clone()).unwrap_or_default();
    let (chained, log) = (if follows { "chained" } else { "broken" }, client.server_info().await?.log());
    let log = short(log.as_str_name(), "LOG_KIND_");
    println!("20 history: {}, {chained}, {}, {}, {log}", entries.len(), origin.actor, origin.reason);
    Ok(())
}

fn set(topic: &str, value: i32) -> UpdatePolicyRequest {
    let policies = Some(TopicPolicies { max_producer_per_topic: Some(value), ..Default::default() });
    UpdatePolicyRequest { topic: topic.into(), policies, update_mask: mask::of([FIELD]), ..Default::default() }
}

fn only_if(condition: Condition) -> Option<Precondition> {
    Some(Precondition { condition: Some(condition) })
}

fn types(topic: &str, elements: &[SubscriptionType], operation: ListOperation) -> UpdatePolicyRequest {
    const PATH: &str = "subscription_types_enabled";
    let elements = elements.iter().map(|one| i32::from(*one)).collect();
    let policies = Some(TopicPolicies { subscription_types_enabled: elements, ..Default::default() });
    let list_operations = [(PATH.to_owned(), operation.into())].into();
    UpdatePolicyRequest { topic: topic.into(), policies, update_mask: mask::of([PATH]), list_operations, ..Default::default() }
}

fn refused<T>(result: Result<T, Refusal>) -> Anything<Failure> {
    match result {
        Ok(_) => Err("the call was not refused".into()),
        Err(error) => Ok(error.failure().clone()),
    }
}

fn version(done: &ChangeResult) -> String {
    done.version.clone()
}

fn outcome(done: &ChangeResult) -> &'static str {
    short(done.outcome().as_str_name(), "CHANGE_OUTCOME_")
}

fn replayed(done: &ChangeResult) -> &'static str {
    if done.replayed { "replayed" } else { "new" }
}

fn scope(document: &PolicyDocument) -> &'static str {
    short(document.scope().as_str_name(), "SCOPE_")
}

fn field(document: Option<&PolicyDocument>) -> String {
    document.and_then(|document| document.policies.as_ref()).map_or("absent".into(), |policies| number(policies.max_producer_per_topic))
}

fn number(value: Option<i32>) -> String {
    value.map_or("unset".into(), |value| value.to_string())
}

fn elements(document: Option<&PolicyDocument>) -> String {
    let policies = document.and_then(|document| document.policies.as_ref());
    let names = policies.into_iter().flat_map(|policies| policies.subscription_types_enabled());
    names.map(|one| short(one.as_str_name(), "SUBSCRIPTION_TYPE_")).collect::<Vec<_>>().join(",")
}

/// The name of a value without the prefix of its enum.
fn short(name: &'static str, prefix: &str) -> &'static str {
    name.strip_prefix(prefix).unwrap_or(name)
}

/// The name of a status code in gRPC's specification, such as `NOT_FOUND`.
fn code(failure: &Failure) -> String {
    let mut name = String::new();
    for letter in format!("{:?}", failure.code).chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}
