//! A watch that resumes by itself: `docs/watch.md`.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use tokio::time::sleep;
use tonic::{Status, Streaming};

use crate::{
    Client, Error, Failure,
    client::pause,
    v1::{self, watch_event::Content},
};

/// The first and the longest pause between two streams.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Where a watch stands: the last token of each namespace. A namespace without one begins with a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Tokens(BTreeMap<String, String>);

impl Tokens {
    /// The tokens to resume from.
    pub fn resume(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// Advances the place of the watch past an event.
    pub fn pass(&mut self, event: &v1::WatchEvent) {
        if matches!(event.content, Some(Content::Reset(_))) {
            self.0.remove(&event.namespace);
        } else if !event.resume_token.is_empty() {
            self.0.insert(event.namespace.clone(), event.resume_token.clone());
        }
    }
}

/// A message of a watch.
#[derive(Clone, Debug)]
pub enum Message {
    /// A stream was opened, the first or a later one, with these tokens. Namespaces without a token start over: the documents that they had
    /// before no longer count.
    Connected(BTreeMap<String, String>),
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
    /// Whether the stream has sent a message, and how many streams in a row sent none.
    began: bool,
    failures: u32,
}

impl Watch {
    pub(crate) fn new(client: Client, request: v1::WatchPoliciesRequest) -> Self {
        let tokens = Tokens(request.resume_tokens.clone().into_iter().collect());
        Self { client, request, tokens, stream: None, waiting: VecDeque::new(), began: false, failures: 0 }
    }

    /// The place of the watch, after the last message that was returned.
    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Returns the next message. After an error that another stream would meet too, the watch has ended.
    pub async fn next(&mut self) -> Result<Message, Error> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                self.tokens.pass(&event);
                return Ok(Message::Event(Box::new(event)));
            }
            let Some(stream) = &mut self.stream else {
                match self.open().await {
                    Ok(stream) => {
                        self.stream = Some(stream);
                        return Ok(Message::Connected(self.tokens.resume().clone()));
                    }
                    Err(status) => self.lost(&status).await?,
                }
                continue;
            };
            match stream.message().await {
                Ok(Some(batch)) => {
                    (self.began, self.failures) = (true, 0);
                    self.waiting.extend(batch.events);
                }
                Ok(None) => self.lost(&Status::unavailable("the stream ended")).await?,
                Err(status) => self.lost(&status).await?,
            }
        }
    }

    async fn open(&mut self) -> Result<Streaming<v1::WatchPoliciesResponse>, Status> {
        let mut request = self.request.clone();
        request.resume_tokens = self.tokens.resume().clone().into_iter().collect();
        Ok(self.client.stub().watch_policies(request).await?.into_inner())
    }

    async fn lost(&mut self, status: &Status) -> Result<(), Error> {
        let failure = Failure::from(status);
        if failure.ends_watch(self.began) {
            return Err(failure.into());
        }
        self.stream = None;
        self.began = false;
        self.failures += 1;
        sleep(pause(self.failures, FIRST_PAUSE, LONGEST_PAUSE)).await;
        Ok(())
    }
}
