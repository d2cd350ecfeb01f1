//! A live copy of the documents of some namespaces: `docs/watch.md`.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::{sync::watch, task::JoinHandle};

use crate::{
    Client, Error, Message, full_name,
    v1::{self, BookmarkKind, ErrorReason, NamespaceState, PolicyDocument, Scope, watch_event::Content},
};

/// The full name of a topic, and a scope.
pub type Key = (String, Scope);

/// A change of a document, as listeners get it. At least one of `before` and `after` is set.
#[derive(Clone, Debug)]
pub struct CacheChange {
    /// The topic and the scope of the document.
    pub key: Key,
    /// The document before the change, if there was one.
    pub before: Option<PolicyDocument>,
    /// The document after the change, if there is one.
    pub after: Option<PolicyDocument>,
}

/// The copy of one namespace.
#[derive(Debug, Default)]
struct Part {
    /// The documents, absent ones included, so that an older change of a deleted document is ignored.
    documents: BTreeMap<Key, PolicyDocument>,
    /// The keys that the current snapshot has sent so far; `None` outside a snapshot.
    fresh: Option<HashSet<Key>>,
    synced: bool,
    state: Option<(NamespaceState, String)>,
    /// When the last bookmark arrived, and how far its confirmed time lay behind the newest one.
    confirmed: Option<(Instant, Duration)>,
}

/// The documents that result from the messages of a watch. It reads no clock: its caller passes the time.
#[derive(Debug)]
pub struct Documents {
    parts: BTreeMap<String, Part>,
    /// The newest confirmed time of the present stream, in any namespace, by the server's clock.
    newest: Option<Duration>,
}

impl Documents {
    /// An empty copy of these namespaces.
    pub fn new<N: Into<String>>(namespaces: impl IntoIterator<Item = N>) -> Self {
        Self { parts: namespaces.into_iter().map(|name| (name.into(), Part::default())).collect(), newest: None }
    }

    /// Applies a message that arrived at this time. Returns the changes to report to listeners.
    pub fn apply(&mut self, message: &Message, now: Instant) -> Vec<CacheChange> {
        match message {
            Message::Connected(resume) => {
                self.newest = None;
                for (namespace, part) in &mut self.parts {
                    part.fresh = if resume.contains_key(namespace) { None } else { Some(HashSet::new()) };
                    // A stream reports no state for a namespace that is ready from its start.
                    part.state = None;
                }
                Vec::new()
            }
            Message::Event(event) => self.take(event, now),
        }
    }

    fn take(&mut self, event: &v1::WatchEvent, now: Instant) -> Vec<CacheChange> {
        let Some(part) = self.parts.get_mut(&event.namespace) else {
            return Vec::new();
        };
        match &event.content {
            Some(Content::Change(change)) => change.document.as_ref().and_then(|document| part.change(document)).into_iter().collect(),
            Some(Content::Bookmark(bookmark)) => {
                if let Some(confirmed) = bookmark.confirmed_time.as_ref().and_then(since_epoch) {
                    let newest = self.newest.map_or(confirmed, |newest| newest.max(confirmed));
                    self.newest = Some(newest);
                    part.confirmed = Some((now, newest - confirmed));
                }
                if bookmark.kind() == BookmarkKind::Synced { part.complete() } else { Vec::new() }
            }
            Some(Content::Reset(_)) => {
                part.fresh = Some(HashSet::new());
                Vec::new()
            }
            Some(Content::Status(status)) => {
                part.state = Some((status.state(), name_of(status.reason)));
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// All existing documents, by topic and scope.
    pub fn all(&self) -> impl Iterator<Item = &PolicyDocument> {
        self.parts.values().flat_map(|part| part.documents.values()).filter(|document| document.policies.is_some())
    }

    /// One document, if it exists. The topic may be written without its domain.
    pub fn get(&self, topic: &str, scope: Scope) -> Option<&PolicyDocument> {
        let topic = full_name(topic);
        let document = self.parts.get(namespace_of(&topic)?)?.documents.get(&(topic.clone(), scope))?;
        document.policies.is_some().then_some(document)
    }

    /// The namespaces whose first snapshot is complete.
    pub fn synced(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter(|(_, part)| part.synced).map(|(namespace, _)| namespace.as_str())
    }

    /// The state that the service last reported for a namespace, and why: the name of a reason as errors have it, empty if there is none,
    /// the number of one that this client does not know. `None` if it reported no state, as for a namespace that is ready.
    pub fn state(&self, namespace: &str) -> Option<(NamespaceState, &str)> {
        self.parts.get(namespace)?.state.as_ref().map(|(state, reason)| (*state, reason.as_str()))
    }

    /// How long ago the copy of a namespace was confirmed to be complete. `None` if it never was, or the namespace is not watched.
    pub fn staleness(&self, namespace: &str, now: Instant) -> Option<Duration> {
        let part = self.parts.get(namespace).filter(|part| part.synced)?;
        part.confirmed.map(|(arrived, lag)| now.saturating_duration_since(arrived) + lag)
    }

    /// How long ago the copy of the stalest namespace was confirmed to be complete. `None` if one never was.
    pub fn stalest(&self, now: Instant) -> Option<Duration> {
        self.parts.keys().map(|namespace| self.staleness(namespace, now)).try_fold(Duration::ZERO, |most, one| one.map(|one| most.max(one)))
    }
}

impl Part {
    fn change(&mut self, document: &PolicyDocument) -> Option<CacheChange> {
        let scope = Scope::try_from(document.scope).ok().filter(|scope| *scope != Scope::Unspecified)?;
        let key = (document.topic.clone(), scope);
        let old = self.documents.get(&key);
        // The first event of a key in a snapshot may have a version of another log, which can't be compared.
        let first = self.fresh.as_mut().is_some_and(|fresh| fresh.insert(key.clone()));
        if !first && old.is_some_and(|old| old.version >= document.version) {
            return None;
        }
        let before = self.documents.insert(key.clone(), document.clone());
        change_of(key, before, Some(document.clone()))
    }

    fn complete(&mut self) -> Vec<CacheChange> {
        self.synced = true;
        let Some(fresh) = self.fresh.take() else {
            return Vec::new();
        };
        let removed: Vec<Key> = self.documents.keys().filter(|key| !fresh.contains(key)).cloned().collect();
        removed.into_iter().filter_map(|key| self.documents.remove(&key).and_then(|old| change_of(key, Some(old), None))).collect()
    }
}

/// The namespace of a full name: its first two parts.
fn namespace_of(topic: &str) -> Option<&str> {
    let (_, local) = topic.split_once("://")?;
    let (end, _) = local.match_indices('/').nth(1)?;
    Some(&local[..end])
}

fn name_of(reason: i32) -> String {
    match ErrorReason::try_from(reason) {
        Ok(ErrorReason::Unspecified) => String::new(),
        Ok(known) => known.as_str_name().trim_start_matches("ERROR_REASON_").into(),
        Err(_) => reason.to_string(),
    }
}

fn change_of(key: Key, before: Option<PolicyDocument>, after: Option<PolicyDocument>) -> Option<CacheChange> {
    let there = |document: &PolicyDocument| document.policies.is_some();
    let (before, after) = (before.filter(there), after.filter(there));
    (before != after).then_some(CacheChange { key, before, after })
}

fn since_epoch(time: &prost_types::Timestamp) -> Option<Duration> {
    Some(Duration::new(u64::try_from(time.seconds).ok()?, u32::try_from(time.nanos).ok()?))
}

type Listener = Box<dyn Fn(&CacheChange) + Send>;

/// A live copy in memory. Dropping it ends the watch.
pub struct Cache {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    documents: Mutex<Documents>,
    listeners: Mutex<Vec<Listener>>,
    /// The error that ended the watch; `None` while it runs. It is sent after each message, to wake the callers of `until`.
    ended: watch::Sender<Option<Error>>,
}

impl Cache {
    pub(crate) fn start(client: Client, namespaces: Vec<String>) -> Self {
        let shared = Arc::new(Shared {
            documents: Mutex::new(Documents::new(namespaces.clone())),
            listeners: Mutex::default(),
            ended: watch::Sender::new(None),
        });
        let request = v1::WatchPoliciesRequest { namespaces, ..Default::default() };
        let task = tokio::spawn(Arc::clone(&shared).follow(client, request));
        Self { shared, task }
    }

    /// Calls a function with the documents, which are locked meanwhile.
    pub fn read<T>(&self, look: impl FnOnce(&Documents) -> T) -> T {
        look(&self.shared.documents.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// One document, if it exists. The topic may be written without its domain.
    pub fn get(&self, topic: &str, scope: Scope) -> Option<PolicyDocument> {
        self.read(|documents| documents.get(topic, scope).cloned())
    }

    /// How long ago the copy of the stalest namespace was confirmed to be complete. `None` if one never was.
    pub fn staleness(&self) -> Option<Duration> {
        self.read(|documents| documents.stalest(Instant::now()))
    }

    /// Calls a function with each change from now on, in order. The watch continues when the function returns. A listener that is
    /// added by another one gets the changes of the next message.
    pub fn listen(&self, listener: impl Fn(&CacheChange) + Send + 'static) {
        self.shared.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(listener));
    }

    /// Waits until the first snapshot of every namespace is complete. Fails if the watch ends with an error.
    pub async fn synced(&self) -> Result<(), Error> {
        self.until(|documents| documents.synced().count() == documents.parts.len()).await
    }

    /// Waits until the documents fulfil a condition. Fails if the watch ends with an error.
    pub async fn until(&self, holds: impl Fn(&Documents) -> bool) -> Result<(), Error> {
        let mut ended = self.shared.ended.subscribe();
        loop {
            let error = ended.borrow_and_update().clone();
            if self.read(&holds) {
                return Ok(());
            }
            if let Some(error) = error {
                return Err(error);
            }
            ended.changed().await.expect("the sender lives as long as the cache");
        }
    }
}

impl Shared {
    /// Calls the listeners without a lock, so that they can read the cache and add further listeners.
    fn notify(&self, all: &[CacheChange]) {
        let lock = || self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let mut listeners = std::mem::take(&mut *lock());
        all.iter().for_each(|change| listeners.iter().for_each(|listener| listener(change)));
        let mut added = lock();
        listeners.append(&mut added);
        *added = listeners;
    }

    async fn follow(self: Arc<Self>, client: Client, request: v1::WatchPoliciesRequest) {
        let mut watch = client.watch(request);
        loop {
            let error = match watch.next().await {
                Ok(Some(message)) => {
                    let all = self.documents.lock().unwrap_or_else(PoisonError::into_inner).apply(&message, Instant::now());
                    self.notify(&all);
                    None
                }
                Ok(None) => return,
                Err(error) => Some(error),
            };
            let ended = error.is_some();
            self.ended.send_replace(error);
            if ended {
                return;
            }
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read(|documents| f.debug_tuple("Cache").field(documents).finish())
    }
}
