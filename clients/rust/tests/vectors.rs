//! The shared vectors that need no server, and retries and pauses.

mod common;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::{Duration, Instant},
};

use common::{cases, message, texts, vectors};
use serde_json::{Value, json};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};
use topicpolicies_client_example::{
    Documents, Failure, Message, Tokens, full_name, mask,
    retry::{Attempts, Call, Next, Pauses},
    v1::{PolicyDocument, Scope, WatchMode, WatchPoliciesResponse, WatchToken, watch_event::Content},
};

#[test]
fn the_mask_between_two_documents_is_that_of_the_shared_vectors() {
    for (name, case) in cases(&vectors("masks.json")["differences"]) {
        let (before, after) = (message("TopicPolicies", &case["before"]), message("TopicPolicies", &case["after"]));
        let paths: BTreeSet<String> = mask::difference(&before, &after).into_iter().collect();
        assert_eq!(paths, texts(&case["mask"]).into_iter().collect(), "{name}");
    }
}

#[test]
fn paths_are_written_and_parsed_as_in_the_shared_vectors() {
    for (_, case) in cases(&vectors("masks.json")["paths"]) {
        let (segments, text) = (texts(&case["segments"]), case["text"].as_str().unwrap());
        assert_eq!(mask::join(&segments), text);
        assert_eq!(mask::split(text), Some(segments), "{text}");
    }
    for wrong in ["", ".", "a.", ".a", "a..b", "`a", "`a`b", "a`b`", "a-b", "ü"] {
        assert_eq!(mask::split(wrong), None, "{wrong}");
    }
}

#[test]
fn topic_names_are_read_as_in_the_shared_vectors() {
    for (name, case) in cases(&vectors("names.json")) {
        assert_eq!(full_name(case["topic"].as_str().unwrap()), case["fullName"].as_str().unwrap(), "{name}");
    }
}

#[test]
fn calls_are_repeated_as_the_shared_vectors_say() {
    for (name, case) in cases(&vectors("retries.json")) {
        let call = match case["call"].as_str().unwrap() {
            "read" => Call::Read,
            "change" => Call::Change,
            "watch" => Call::Watch,
            other => panic!("{name}: {other}"),
        };
        let failures: Vec<Failure> = case["failures"].as_array().unwrap().iter().map(failure).collect();
        let mut attempts = Attempts::new(call);
        let (last, before) = failures.split_last().unwrap();
        for failure in before {
            assert_eq!(attempts.next(failure), Next::Repeat, "{name}");
        }
        let expected = match case["then"].as_str().unwrap() {
            "repeat" => Next::Repeat,
            "repeat at once" => Next::RepeatAt(case["at"].as_str().unwrap().into()),
            "give up" => Next::GiveUp,
            "outcome unknown" => Next::OutcomeUnknown,
            other => panic!("{name}: {other}"),
        };
        assert_eq!(attempts.next(last), expected, "{name}");
        if let Some(expected) = case.get("code") {
            assert_eq!(last.code, code(expected.as_str().unwrap()), "{name}");
        }
    }
}

fn failure(case: &Value) -> Failure {
    let mut failure = Failure::new(code(case["code"].as_str().unwrap()), "...");
    failure.never_sent = case["neverSent"] == json!(true);
    if case["service"] == json!(true) {
        failure.reason = case["reason"].as_str().unwrap().into();
        let metadata = case["metadata"].as_object().into_iter().flatten();
        failure.metadata = metadata.map(|(key, value)| (key.clone(), value.as_str().unwrap().into())).collect();
    }
    failure
}

fn code(name: &str) -> Code {
    let camel: String = name.split('_').map(|word| format!("{}{}", &word[..1], word[1..].to_lowercase())).collect();
    (0..=16).map(Code::from_i32).find(|code| format!("{code:?}") == camel).unwrap_or_else(|| panic!("{name}"))
}

#[test]
fn a_refused_change_that_a_broken_stream_may_have_made_has_an_unknown_outcome() {
    let full = Failure::new(Code::ResourceExhausted, "full");
    let mut attempts = Attempts::new(Call::Change);
    let refused = Failure { reason: "TOO_MANY_UPDATES".into(), ..full };
    assert_eq!(attempts.of_one(Call::Change, &refused), Next::GiveUp);
    assert_eq!(attempts.next(&Failure::new(Code::Unavailable, "broken")), Next::Repeat);
    assert_eq!(attempts.of_one(Call::Change, &refused), Next::OutcomeUnknown);
    assert_eq!(attempts.of_one(Call::change(true), &refused), Next::GiveUp, "a dry run makes nothing");
}

#[test]
fn the_pause_after_a_limit_is_the_delay_of_the_service_plus_the_usual_pause() {
    let room = Duration::from_millis(1500);
    let refusal = |details: ErrorDetails| Failure::from(&Status::with_error_details(Code::ResourceExhausted, "too many calls", details));
    let mut details = ErrorDetails::with_retry_info(Some(room));
    details.set_error_info("PRINCIPAL_LIMIT", "topicpolicies", HashMap::<String, String>::new());
    let passing = refusal(details);
    assert_eq!((passing.retry_after, passing.reason.as_str()), (Some(room), "PRINCIPAL_LIMIT"));
    let mut pauses = Pauses::of_a_call();
    for usual in [100, 200, 400].map(Duration::from_millis) {
        let pause = pauses.after(&passing);
        assert!(pause >= room + usual / 2 && pause <= room + usual, "{pause:?}");
    }
    let lasting = refusal(ErrorDetails::with_error_info("TOO_MANY_UPDATES", "topicpolicies", HashMap::<String, String>::new()));
    assert_eq!(lasting.retry_after, None);
    assert!(Pauses::of_a_watch().after(&lasting) >= Duration::from_secs(5));
    for call in [Call::Read, Call::Change] {
        assert_eq!(Attempts::new(call).next(&passing), Next::Repeat);
        assert_eq!(Attempts::new(call).last(&passing), Next::GiveUp, "nothing was done, so the outcome is known");
        assert_eq!(Attempts::new(call).next(&lasting), Next::GiveUp);
    }
}

#[test]
fn pauses_of_calls_and_watches_have_the_bounds_that_the_documentation_names() {
    let broken = Failure::new(Code::Unavailable, "broken");
    for (mut pauses, most) in [(Pauses::of_a_call(), Duration::from_secs(5)), (Pauses::of_a_watch(), Duration::from_secs(10))] {
        let first = pauses.after(&broken);
        assert!(first >= Duration::from_millis(50) && first <= Duration::from_millis(100), "{first:?}");
        let last = (0..20).map(|_| pauses.after(&broken)).last().unwrap();
        assert!(last >= most / 2 && last <= most, "{last:?} of {most:?}");
    }
}

#[test]
fn a_watch_and_its_cache_behave_as_the_shared_vectors_say() {
    for (name, case) in cases(&vectors("watch.json")) {
        let mode = case.get("mode").map_or(WatchMode::Latest, |mode| WatchMode::from_str_name(mode.as_str().unwrap()).unwrap());
        let mut watch = Watching::new(texts(&case["namespaces"]), mode);
        for (number, step) in case["steps"].as_array().unwrap().iter().enumerate() {
            watch.step(step, &format!("{name}, step {number}"));
        }
    }
}

/// The client's side of a watch, without a stream.
struct Watching {
    tokens: Tokens,
    documents: Documents,
    calls: Vec<Value>,
    entries: Vec<String>,
    begin: Instant,
    now: Instant,
}

impl Watching {
    fn new(namespaces: Vec<String>, mode: WatchMode) -> Self {
        let begin = Instant::now();
        let (tokens, documents) = (Tokens::new(mode, BTreeMap::new()), Documents::new(namespaces));
        Self { tokens, documents, calls: Vec::new(), entries: Vec::new(), begin, now: begin }
    }

    fn step(&mut self, step: &Value, name: &str) {
        if let Some(at) = step.get("at") {
            self.now = self.begin + Duration::from_secs_f64(at.as_f64().unwrap());
        }
        if let Some(resume) = step.get("connect") {
            assert_eq!(self.tokens.resume(), &tokens(resume), "{name}");
            self.take(&Message::Connected(self.tokens.resume().clone()));
        }
        if let Some(events) = step.get("receive") {
            let batch: WatchPoliciesResponse = message("WatchPoliciesResponse", &json!({ "events": events }));
            for event in batch.events {
                self.tokens.fold(&event);
                if let Some(Content::Entry(entry)) = &event.content {
                    self.entries.push(entry.position.clone());
                }
                self.take(&Message::Event(Box::new(event)));
            }
        }
        for (what, expected) in step.get("expect").and_then(Value::as_object).into_iter().flatten() {
            self.expect(what, expected, &format!("{name}: {what}"));
        }
    }

    fn take(&mut self, message: &Message) {
        for change in self.documents.apply(message, self.now) {
            let version = |document: &Option<PolicyDocument>| document.as_ref().map(|document| document.version.clone());
            let key = format!("{} {}", change.key.0, scope(change.key.1));
            self.calls.push(json!([key, version(&change.before), version(&change.after)]));
        }
    }

    fn expect(&mut self, what: &str, expected: &Value, name: &str) {
        match what {
            "documents" => {
                let all = self.documents.all().map(|one| (format!("{} {}", one.topic, scope(one.scope())), one.version.clone()));
                assert_eq!(json!(all.collect::<BTreeMap<_, _>>()), *expected, "{name}");
            }
            "told" => assert_eq!(Value::Array(std::mem::take(&mut self.calls)), *expected, "{name}"),
            "entries" => assert_eq!(json!(std::mem::take(&mut self.entries)), *expected, "{name}"),
            "tokens" => assert_eq!(self.tokens.resume(), &tokens(expected), "{name}"),
            "synced" => assert_eq!(json!(self.documents.synced().collect::<Vec<_>>()), *expected, "{name}"),
            "states" => {
                for (namespace, expected) in expected.as_object().unwrap() {
                    let Some((state, reason)) = self.documents.state(namespace) else {
                        assert!(expected.is_null(), "{name}");
                        continue;
                    };
                    let state = state.as_str_name().trim_start_matches("NAMESPACE_STATE_");
                    let reason = Some(reason).filter(|reason| !reason.is_empty());
                    assert_eq!(json!([state, reason]), *expected, "{name}");
                }
            }
            "staleness" => {
                for (namespace, expected) in expected.as_object().unwrap() {
                    let staleness = match namespace.as_str() {
                        "" => self.documents.stalest(self.now),
                        one => self.documents.staleness(one, self.now),
                    };
                    assert_eq!(staleness.map(|age| age.as_secs_f64()), expected.as_f64(), "{name}");
                }
            }
            other => panic!("{name}: {other}"),
        }
    }
}

fn tokens(json: &Value) -> BTreeMap<String, WatchToken> {
    let all: HashMap<&String, &Value> = json.as_object().unwrap().iter().collect();
    all.into_iter().map(|(namespace, token)| (namespace.clone(), message("WatchToken", token))).collect()
}

fn scope(scope: Scope) -> &'static str {
    scope.as_str_name().trim_start_matches("SCOPE_")
}
