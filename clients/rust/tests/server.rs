//! Tests that need a server: `apply.json`, and calls and watches whose connections break.

mod common;

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use common::{cases, message, number, texts, vectors};
use serde_json::Value;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    runtime::Handle,
    sync::broadcast,
    task::block_in_place,
    time::timeout,
};
use topicpolicies_client_example::{
    Client, Error, Message, mask,
    v1::{
        ChangeOutcome, PolicyDocument, Scope, TopicPolicies, UpdatePolicyRequest, WatchMode, WatchPoliciesRequest,
        policy_change_request::Change, watch_event::Content,
    },
};
use uuid::Uuid;

/// The longest time that any test waits.
const PATIENCE: Duration = Duration::from_secs(30);

fn client() -> Client {
    Client::new(&common::address()).expect("the address is host:port")
}

/// A namespace that only this test uses.
fn namespace() -> String {
    format!("rust/{}", Uuid::new_v4().simple())
}

fn producers(count: i32) -> Option<TopicPolicies> {
    Some(TopicPolicies { max_producer_per_topic: Some(count), ..Default::default() })
}

fn update(topic: &str, count: i32) -> UpdatePolicyRequest {
    let update_mask = mask::of(["max_producer_per_topic"]);
    UpdatePolicyRequest { topic: topic.into(), policies: producers(count), update_mask, ..Default::default() }
}

#[tokio::test]
async fn updates_do_what_the_shared_vectors_say() {
    let (client, namespace) = (client(), namespace());
    for (index, (name, case)) in cases(&vectors("apply.json")).enumerate() {
        let topic = format!("{namespace}/{index}");
        // A server that does not know the name of its cluster accepts no clusters in the LOCAL scope.
        let scope = if case.to_string().contains("replicationClusters") { Scope::Global } else { Scope::Local };
        if !case["document"].is_null() {
            let policies = Some(message("TopicPolicies", &case["document"]));
            let request = UpdatePolicyRequest {
                topic: topic.clone(),
                scope: scope.into(),
                policies,
                update_mask: mask::of(["*"]),
                ..Default::default()
            };
            assert_eq!(client.update(request).await.expect(name).outcome(), ChangeOutcome::Applied, "{name}");
        }
        let before = client.get(&topic, scope).await.expect(name);
        let operations = case["listOperations"].as_object().into_iter().flatten();
        let request = UpdatePolicyRequest {
            topic: topic.clone(),
            scope: scope.into(),
            policies: Some(message("TopicPolicies", &case["policies"])),
            update_mask: case.get("mask").and_then(|paths| mask::of(texts(paths))),
            list_operations: operations.map(|(path, one)| (path.clone(), operation(one))).collect(),
            ..Default::default()
        };
        let done = client.update(request).await;
        let after = client.get(&topic, scope).await.expect(name);
        if let Some(reason) = case["reason"].as_str() {
            let error = done.expect_err(name);
            assert!(error.failure().violations.iter().any(|one| one.reason == reason), "{name}: {error}");
            assert_eq!(after, before, "{name}");
        } else {
            done.expect(name);
            let expected: Option<TopicPolicies> =
                Some(&case["after"]).filter(|json| !json.is_null()).map(|json| message("TopicPolicies", json));
            assert_eq!(after.policies, expected, "{name}");
        }
    }
}

fn operation(json: &Value) -> i32 {
    number("ListOperation", json.as_str().expect("it is a name"))
}

#[tokio::test]
async fn concurrent_edits_are_repeated_on_conflict_and_lose_no_change() {
    let (client, topic) = (client(), format!("{}/a", namespace()));
    client.update(update(&topic, 1)).await.unwrap();
    let add = async || client.edit(&topic, Scope::Local, |policies| *policies.max_producer_per_topic.get_or_insert(0) += 1).await.unwrap();
    tokio::join!(add(), add(), add(), add());
    assert_eq!(client.get(&topic, Scope::Local).await.unwrap().policies, producers(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_fails_with_a_conflict_after_16_runs_if_another_writer_is_faster_every_time() {
    let (client, topic, runs, begun) = (client(), format!("{}/a", namespace()), AtomicUsize::new(0), Instant::now());
    let late = |policies: &mut TopicPolicies| {
        policies.max_consumer_per_topic = Some(1);
        let faster = update(&topic, runs.fetch_add(1, Ordering::Relaxed) as i32);
        block_in_place(|| Handle::current().block_on(client.update(faster))).unwrap();
    };
    let error = client.edit(&topic, Scope::Local, late).await.unwrap_err();
    assert_eq!((error.failure().reason.as_str(), runs.into_inner()), ("PRECONDITION_FAILED", 16), "{error}");
    assert!(begun.elapsed() > Duration::from_secs(2), "there were no pauses between the runs");
}

#[tokio::test]
async fn an_edit_that_changes_nothing_has_the_version_of_the_document() {
    let (client, topic) = (client(), format!("{}/a", namespace()));
    let made = client.update(update(&topic, 1)).await.unwrap();
    let unchanged = client.edit(&topic, Scope::Local, |_| {}).await.unwrap();
    assert_eq!((unchanged.outcome(), &unchanged.version), (ChangeOutcome::Unchanged, &made.version));
    assert_eq!(unchanged.previous_version, made.version);
}

#[tokio::test]
async fn batches_keep_the_order_of_changes_and_a_list_has_all_pages() {
    let (client, namespace) = (client(), namespace());
    let changes = (0..1150).map(|index| Change::Update(update(&format!("{namespace}/t{:03}", index % 150), index)));
    assert!(client.batch(changes).await.iter().all(Result::is_ok));
    assert_eq!(client.list(&namespace).await.unwrap().len(), 150);
    assert_eq!(client.get(&format!("{namespace}/t099"), Scope::Local).await.unwrap().policies, producers(1149));
}

#[tokio::test]
async fn a_change_without_a_connection_has_an_unknown_outcome() {
    let client = Client::new("127.0.0.1:1").unwrap().with_timeout(Duration::from_secs(1));
    let error = client.update(update("t/n/a", 1)).await.unwrap_err();
    assert!(matches!(&error, Error::OutcomeUnknown { request_id, .. } if request_id.len() == 32), "{error:?}");
}

#[tokio::test]
async fn calls_and_watches_survive_broken_connections() {
    let (server, proxy, namespace) = (client(), Proxy::start().await, namespace());
    let topic = format!("{namespace}/a");
    let client = Client::new(&proxy.address).unwrap();
    server.update(update(&topic, 1)).await.unwrap();
    let request = WatchPoliciesRequest { namespaces: vec![namespace.clone()], mode: WatchMode::Every.into(), ..Default::default() };
    let mut watch = client.watch(request);
    let cache = client.cache([&namespace]);
    timeout(PATIENCE, cache.synced()).await.unwrap().unwrap();
    let (mut seen, mut streams) = (Vec::new(), 0);
    for count in 2..6 {
        while seen.last() != Some(&Some(count - 1)) {
            match timeout(PATIENCE, watch.next()).await.unwrap().unwrap() {
                Message::Connected(resume) => {
                    assert_eq!(resume.contains_key(&namespace), streams > 0);
                    streams += 1;
                }
                Message::Event(event) => seen.extend(event.content.and_then(field)),
            }
            if watch.tokens().resume().is_empty() {
                seen.retain(Option::is_some);
            }
        }
        while watch.tokens().resume().is_empty() {
            timeout(PATIENCE, watch.next()).await.unwrap().unwrap();
        }
        proxy.cut();
        client.update(update(&topic, count)).await.unwrap();
    }
    assert_eq!((seen, streams), (vec![Some(1), Some(2), Some(3), Some(4)], 4));
    let is_there = |document: Option<&PolicyDocument>| document.is_some_and(|document| document.policies == producers(5));
    timeout(PATIENCE, cache.until(|documents| is_there(documents.get(&topic, Scope::Local)))).await.unwrap().unwrap();
}

fn field(content: Content) -> Option<Option<i32>> {
    match content {
        Content::Change(change) => {
            Some(change.document.and_then(|document| document.policies).and_then(|policies| policies.max_producer_per_topic))
        }
        _ => None,
    }
}

/// A proxy between a client and the server that can break their connections.
struct Proxy {
    address: String,
    cut: broadcast::Sender<()>,
}

impl Proxy {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (cut, _) = broadcast::channel(1);
        let cuts = cut.clone();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut cuts = cuts.subscribe();
                tokio::spawn(async move {
                    let mut far = TcpStream::connect(common::address()).await.unwrap();
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                        _ = cuts.recv() => {}
                    }
                });
            }
        });
        Self { address, cut }
    }

    fn cut(&self) {
        drop(self.cut.send(()));
    }
}
