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
    v1::{self, PolicyDocument, Scope, watch_event::Content},
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
    /// The documents that exist.
    documents: BTreeMap<Key, PolicyDocument>,
    /// The keys that the current snapshot has sent so far; `None` outside a snapshot.
    fresh: Option<HashSet<Key>>,
    was_synced: bool,
    /// Since when the copy is known to be complete.
    complete: Option<Instant>,
}

/// The documents that result from the messages of a watch. It reads no clock: its caller passes the time.
#[derive(Debug)]
pub struct Documents {
    parts: BTreeMap<String, Part>,
}

impl Documents {
    /// An empty copy of these namespaces.
    pub fn new<N: Into<String>>(namespaces: impl IntoIterator<Item = N>) -> Self {
        Self { parts: namespaces.into_iter().map(|name| (name.into(), Part::default())).collect() }
    }

    /// Applies a message that arrived at this time. Returns the changes to report to listeners.
    pub fn apply(&mut self, message: &Message, now: Instant) -> Vec<CacheChange> {
        match message {
            Message::Connected(resume) => {
                for (namespace, part) in &mut self.parts {
                    part.fresh = if resume.contains_key(namespace) { None } else { Some(HashSet::new()) };
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
                if let Some(age) = bookmark.age.as_ref().and_then(|age| Duration::try_from(*age).ok()) {
                    part.complete = now.checked_sub(age);
                }
                if bookmark.synced { part.synced() } else { Vec::new() }
            }
            Some(Content::Reset(_)) => {
                part.fresh = Some(HashSet::new());
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// All documents, by topic and scope.
    pub fn all(&self) -> impl Iterator<Item = &PolicyDocument> {
        self.parts.values().flat_map(|part| part.documents.values())
    }

    /// One document, if it exists. The topic may be written without its domain.
    pub fn get(&self, topic: &str, scope: Scope) -> Option<&PolicyDocument> {
        let topic = full_name(topic);
        self.parts.get(namespace_of(&topic)?)?.documents.get(&(topic.clone(), scope))
    }

    /// The namespaces whose first snapshot is complete.
    pub fn synced(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter(|(_, part)| part.was_synced).map(|(namespace, _)| namespace.as_str())
    }

    /// How old the copy is, that of its oldest namespace. `None` if that is not known, as before the first snapshot.
    pub fn age(&self, now: Instant) -> Option<Duration> {
        let ages = self.parts.values().map(|part| part.complete.map(|complete| now.saturating_duration_since(complete)));
        ages.collect::<Option<Vec<_>>>()?.into_iter().max()
    }
}

impl Part {
    fn change(&mut self, document: &PolicyDocument) -> Option<CacheChange> {
        let scope = Scope::try_from(document.scope).ok().filter(|scope| *scope != Scope::Unspecified)?;
        let key = (document.topic.clone(), scope);
        if let Some(fresh) = &mut self.fresh {
            fresh.insert(key.clone());
        }
        let before = match document.policies {
            Some(_) => self.documents.insert(key.clone(), document.clone()),
            None => self.documents.remove(&key),
        };
        let after = Some(document.clone()).filter(|after| after.policies.is_some());
        let version = |document: &Option<PolicyDocument>| document.as_ref().map(|document| document.version.clone());
        (version(&before) != version(&after)).then_some(CacheChange { key, before, after })
    }

    fn synced(&mut self) -> Vec<CacheChange> {
        self.was_synced = true;
        let Some(fresh) = self.fresh.take() else {
            return Vec::new();
        };
        let removed: Vec<Key> = self.documents.keys().filter(|key| !fresh.contains(key)).cloned().collect();
        removed.into_iter().map(|key| CacheChange { before: self.documents.remove(&key), key, after: None }).collect()
    }
}

/// The namespace of a full name: its first two parts.
fn namespace_of(topic: &str) -> Option<&str> {
    let (_, local) = topic.split_once("://")?;
    let (end, _) = local.match_indices('/').nth(1)?;
    Some(&local[..end])
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

    /// How old the copy is, that of its oldest namespace. `None` if that is not known, as before the first snapshot.
    pub fn age(&self) -> Option<Duration> {
        self.read(|documents| documents.age(Instant::now()))
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
                Ok(message) => {
                    let all = self.documents.lock().unwrap_or_else(PoisonError::into_inner).apply(&message, Instant::now());
                    self.notify(&all);
                    None
                }
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
