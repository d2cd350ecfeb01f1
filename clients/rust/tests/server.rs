//! Tests that need a server: `apply.json`, and calls and watches whose connections break.

mod common;

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use common::{cases, message, number, texts, vectors};
use serde_json::Value;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    runtime::Handle,
    sync::{broadcast, mpsc},
    task::block_in_place,
    time::{sleep, timeout},
};
use topicpolicies_client_example::{
    Client, Error, Message,
    client::Changed,
    mask,
    v1::{
        DeletePolicyRequest, GetPolicyRequest, PolicyDocument, Scope, TopicPolicies, UpdateOutcome, UpdatePolicyRequest, WatchMode,
        WatchPoliciesRequest, get_policy_request::ReadAt, policy_change_request::Change, watch_event::Content,
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
            assert_eq!(client.update(request).await.expect(name).outcome(), UpdateOutcome::Applied, "{name}");
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
    assert_eq!((error.failure().reason.as_str(), runs.into_inner()), ("ETAG_MISMATCH", 16), "{error}");
    assert!(begun.elapsed() > Duration::from_secs(2), "there were no pauses between the runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_takes_no_longer_than_a_call_may() {
    let (proxy, topic, begun) = (Proxy::start().await, format!("{}/a", namespace()), Instant::now());
    let client = Client::new(&proxy.address).unwrap().with_timeout(Duration::from_secs(3));
    let slow = |policies: &mut TopicPolicies| {
        policies.max_producer_per_topic = Some(1);
        proxy.stall();
        block_in_place(|| thread::sleep(Duration::from_secs(2)));
    };
    let error = client.edit(&topic, Scope::Local, slow).await.unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown { .. }), "{error}");
    assert!(begun.elapsed() < Duration::from_millis(4500), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn an_edit_that_changes_nothing_has_the_version_of_the_document() {
    let (client, topic) = (client(), format!("{}/a", namespace()));
    let made = client.update(update(&topic, 1)).await.unwrap();
    let unchanged = client.edit(&topic, Scope::Local, |_| {}).await.unwrap();
    assert_eq!((unchanged.outcome(), &unchanged.version), (UpdateOutcome::Unchanged, &made.version));
    assert_eq!(unchanged.previous_version, made.version);
}

#[tokio::test]
async fn a_deleted_document_can_be_read_as_of_its_version() {
    let (client, topic) = (client(), format!("{}/a", namespace()));
    let first = client.update(update(&topic, 1)).await.unwrap().document.unwrap().version;
    client.delete(DeletePolicyRequest { topic: topic.clone(), ..Default::default() }).await.unwrap();
    assert_eq!(client.get(&topic, Scope::Local).await.unwrap().policies, None);
    let scopes = vec![Scope::Local.into()];
    let then = client.get_policy(GetPolicyRequest { topic, scopes, read_at: Some(ReadAt::AsOfVersion(first)) }).await.unwrap();
    assert_eq!(then[0].policies, producers(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_may_add_another_one_which_receives_the_changes_from_then_on() {
    let (client, topic) = (client(), format!("{}/a", namespace()));
    let cache = Arc::new(client.cache([topic.rsplit_once('/').unwrap().0]));
    timeout(PATIENCE, cache.synced()).await.unwrap().unwrap();
    let (sender, mut received) = mpsc::unbounded_channel();
    let weak = Arc::downgrade(&cache);
    let first = AtomicBool::new(true);
    cache.listen(move |change| {
        drop(sender.send(("first", change.after.clone().unwrap().policies)));
        if first.swap(false, Ordering::Relaxed) {
            let sender = sender.clone();
            weak.upgrade().unwrap().listen(move |change| drop(sender.send(("second", change.after.clone().unwrap().policies))));
        }
    });
    for (count, listeners) in [(1, vec!["first"]), (2, vec!["first", "second"])] {
        client.update(update(&topic, count)).await.unwrap();
        for listener in listeners {
            assert_eq!(timeout(PATIENCE, received.recv()).await.unwrap().unwrap(), (listener, producers(count)));
        }
    }
}

#[tokio::test]
async fn a_list_has_all_pages() {
    let (client, namespace) = (client(), namespace());
    let changes = (0..150).map(|index| Change::Update(update(&format!("{namespace}/t{index:03}"), index)));
    assert!(client.update_many(changes).await.iter().all(Result::is_ok));
    assert_eq!(client.list(&namespace).await.unwrap().len(), 150);
}

#[tokio::test]
async fn a_change_without_a_connection_is_reported_as_not_made() {
    let client = Client::new("127.0.0.1:1").unwrap().with_timeout(Duration::from_secs(1));
    let error = client.update(update("t/n/a", 1)).await.unwrap_err();
    assert!(matches!(&error, Error::Failed(failure) if failure.never_sent), "{error:?}");
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
            match timeout(PATIENCE, watch.next()).await.unwrap().unwrap().unwrap() {
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

#[tokio::test]
async fn many_changes_survive_a_broken_stream_and_are_made_once() {
    let (server, proxy, namespace) = (client(), Proxy::start().await, namespace());
    let client = Client::new(&proxy.address).unwrap();
    client.server_info().await.unwrap();
    let topic = |index: i32| format!("{namespace}/{}", index % 10);
    let cuts = async {
        for _ in 0..5 {
            sleep(Duration::from_millis(50)).await;
            proxy.cut();
        }
    };
    let changes = (0..2000).map(|index| Change::Update(update(&topic(index), index)));
    let (results, ()) = tokio::join!(client.update_many(changes), cuts);
    for result in results {
        assert!(matches!(&result, Ok(Changed::Updated(done)) if done.outcome() == UpdateOutcome::Applied), "{result:?}");
    }
    let mut watch = server.watch(WatchPoliciesRequest {
        namespaces: vec![namespace.clone()],
        mode: WatchMode::Every.into(),
        from_beginning: true,
        end_when_synced: true,
        ..Default::default()
    });
    let mut made = 0;
    while let Some(message) = timeout(PATIENCE, watch.next()).await.unwrap().unwrap() {
        made += i32::from(matches!(message, Message::Event(event) if matches!(event.content, Some(Content::Change(_)))));
    }
    assert_eq!(made, 2000);
    for index in 0..10 {
        assert_eq!(server.get(&topic(index), Scope::Local).await.unwrap().policies, producers(1990 + index));
    }
}

fn field(content: Content) -> Option<Option<i32>> {
    match content {
        Content::Change(change) => {
            Some(change.document.and_then(|document| document.policies).and_then(|policies| policies.max_producer_per_topic))
        }
        _ => None,
    }
}

/// A proxy between a client and the server that can break their connections, or hold back everything that comes over them.
struct Proxy {
    address: String,
    cut: broadcast::Sender<()>,
    stall: broadcast::Sender<()>,
}

impl Proxy {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (cut, _) = broadcast::channel(1);
        let (stall, _) = broadcast::channel(1);
        let (cuts, stalls) = (cut.clone(), stall.clone());
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (mut cuts, mut stalls) = (cuts.subscribe(), stalls.subscribe());
                tokio::spawn(async move {
                    let mut far = TcpStream::connect(common::address()).await.unwrap();
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                        _ = cuts.recv() => {}
                        _ = stalls.recv() => pending().await,
                    }
                });
            }
        });
        Self { address, cut, stall }
    }

    fn cut(&self) {
        drop(self.cut.send(()));
    }

    fn stall(&self) {
        drop(self.stall.send(()));
    }
}
