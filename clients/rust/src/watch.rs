//! A watch that resumes by itself: `docs/watch.md`.

use std::collections::{BTreeMap, VecDeque};

use tonic::{Status, Streaming};

use crate::{
    Client, Error, Failure,
    client::Stub,
    retry::{Attempts, Call, Next, Pauses},
    v1::{self, BookmarkKind, WatchMode, WatchToken, watch_event::Content},
};

/// The maximum number of positions of a token.
const MOST_POSITIONS: usize = 1024;

/// The place of a watch, by namespace.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    places: BTreeMap<String, WatchToken>,
    /// Whether the mode is `ENTRIES`, in which there is no snapshot: every bookmark is a place to resume from.
    entries: bool,
}

impl Tokens {
    /// The places of a watch in this mode that resumes from these tokens.
    pub fn new(mode: WatchMode, resume: BTreeMap<String, WatchToken>) -> Self {
        Self { places: resume, entries: mode == WatchMode::Entries }
    }

    /// The tokens to resume from. A namespace without a token starts over.
    pub fn resume(&self) -> &BTreeMap<String, WatchToken> {
        &self.places
    }

    /// Advances the place of the watch past an event.
    pub fn fold(&mut self, event: &v1::WatchEvent) {
        let namespace = &event.namespace;
        match &event.content {
            Some(Content::Reset(_)) => drop(self.places.remove(namespace)),
            Some(Content::Bookmark(bookmark)) if bookmark.kind() == BookmarkKind::Synced || self.is_place(namespace) => {
                self.places.insert(namespace.clone(), bookmark.token.clone().unwrap_or_default());
            }
            Some(Content::Change(change)) => self.advance(namespace, change.partition, &change.position),
            Some(Content::Entry(entry)) => self.advance(namespace, entry.partition, &entry.position),
            _ => {}
        }
    }

    /// Whether a bookmark of a kind other than `SYNCED` is a place to resume from: not within a snapshot.
    fn is_place(&self, namespace: &str) -> bool {
        self.entries || self.places.contains_key(namespace)
    }

    fn advance(&mut self, namespace: &str, partition: i32, position: &str) {
        let Ok(partition) = usize::try_from(partition) else {
            return;
        };
        let Some(token) = self.places.get_mut(namespace) else { return };
        if position.is_empty() || partition >= MOST_POSITIONS {
            return;
        }
        if token.positions.len() <= partition {
            token.positions.resize(partition + 1, String::new());
        }
        if token.positions[partition].as_str() < position {
            token.positions[partition] = position.to_owned();
        }
    }
}

/// A message of a watch.
#[derive(Clone, Debug)]
pub enum Message {
    /// A stream was opened, the first or a later one, with these tokens. Namespaces without a token start over: the documents that they had
    /// before no longer count.
    Connected(BTreeMap<String, WatchToken>),
    /// An event.
    Event(Box<v1::WatchEvent>),
}

/// A watch. It opens its stream again from its tokens, as often as necessary.
#[derive(Debug)]
pub struct Watch {
    client: Client,
    request: v1::WatchPoliciesRequest,
    tokens: Tokens,
    stream: Option<Streaming<v1::WatchPoliciesResponse>>,
    waiting: VecDeque<v1::WatchEvent>,
    pauses: Pauses,
    leader: Option<String>,
    ended: bool,
}

impl Watch {
    pub(crate) fn new(client: Client, request: v1::WatchPoliciesRequest) -> Self {
        let tokens = Tokens::new(request.mode(), request.resume.clone().into_iter().collect());
        Self { client, request, tokens, stream: None, waiting: VecDeque::new(), pauses: Pauses::of_a_watch(), leader: None, ended: false }
    }

    /// The place of the watch, after the last message that was returned.
    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Returns the next message; `None` when every namespace is synced, if `end_when_synced` is set.
    pub async fn next(&mut self) -> Result<Option<Message>, Error> {
        while !self.ended {
            if let Some(event) = self.waiting.pop_front() {
                self.tokens.fold(&event);
                if is_synced(&event) {
                    self.pauses = Pauses::of_a_watch();
                }
                return Ok(Some(Message::Event(Box::new(event))));
            }
            let Some(stream) = &mut self.stream else {
                match self.open().await {
                    Ok(stream) => {
                        self.stream = Some(stream);
                        return Ok(Some(Message::Connected(self.tokens.resume().clone())));
                    }
                    Err(status) => self.lost(&status).await?,
                }
                continue;
            };
            match stream.message().await {
                Ok(Some(batch)) => self.waiting.extend(batch.events),
                Ok(None) if self.request.end_when_synced => self.ended = true,
                Ok(None) => self.lost(&Status::unavailable("the stream ended")).await?,
                Err(status) => self.lost(&status).await?,
            }
        }
        Ok(None)
    }

    async fn open(&mut self) -> Result<Streaming<v1::WatchPoliciesResponse>, Status> {
        let mut request = self.request.clone();
        request.resume = self.tokens.resume().clone().into_iter().collect();
        let mut stub: Stub = match self.leader.take() {
            Some(leader) => self.client.stub_at(&leader)?,
            None => self.client.stub(),
        };
        Ok(stub.watch_policies(request).await?.into_inner())
    }

    async fn lost(&mut self, status: &Status) -> Result<(), Error> {
        self.stream = None;
        let failure = Failure::from(status);
        match Attempts::new(Call::Watch).next(&failure) {
            Next::Repeat => tokio::time::sleep(self.pauses.after(&failure)).await,
            Next::RepeatAt(leader) => self.leader = Some(leader),
            Next::GiveUp | Next::OutcomeUnknown => {
                self.ended = true;
                return Err(Error::Failed(Box::new(failure)));
            }
        }
        Ok(())
    }
}

pub(crate) fn is_synced(event: &v1::WatchEvent) -> bool {
    matches!(&event.content, Some(Content::Bookmark(bookmark)) if bookmark.kind() == BookmarkKind::Synced)
}
