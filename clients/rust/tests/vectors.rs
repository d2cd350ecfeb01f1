//! The shared vectors that need no server.

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
    Documents, Error, Failure, Message, Tokens, full_name, mask,
    v1::{PolicyDocument, Scope, WatchPoliciesResponse},
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
fn paths_are_written_as_in_the_shared_vectors() {
    for (_, case) in cases(&vectors("masks.json")["paths"]) {
        assert_eq!(mask::join(texts(&case["segments"])), case["text"].as_str().unwrap());
    }
}

#[test]
fn topic_names_are_read_as_in_the_shared_vectors() {
    for (name, case) in cases(&vectors("names.json")) {
        assert_eq!(full_name(case["topic"].as_str().unwrap()), case["fullName"].as_str().unwrap(), "{name}");
    }
}

#[test]
fn a_status_is_the_error_that_the_shared_vectors_say() {
    for (name, case) in cases(&vectors("retries.json")) {
        let mut details = ErrorDetails::new();
        if let Some(reason) = case["reason"].as_str().filter(|reason| !reason.is_empty()) {
            let domain = case["domain"].as_str().unwrap_or("topicpolicies");
            details.set_error_info(reason, domain, HashMap::<String, String>::new());
        }
        let status = Status::with_error_details(code(case["code"].as_str().unwrap()), "...", details);
        let failure = Failure::from(&status);
        if case["call"] == json!("watch") {
            assert_eq!(!failure.ends_watch(case["began"] != json!(false)), case["resume"] == json!(true), "{name}");
            continue;
        }
        let config: Value = serde_json::from_str(include_str!("../../service_config.json")).unwrap();
        let codes = texts(&config["methodConfig"][0]["retryPolicy"]["retryableStatusCodes"]);
        assert_eq!(codes, ["UNAVAILABLE"], "the client repeats only these");
        assert_eq!(failure.code == Code::Unavailable, case["repeat"] == json!(true), "{name}");
        let error = Error::of(failure, if case["call"] == json!("change") { "1d" } else { "" });
        assert_eq!(matches!(error, Error::OutcomeUnknown { .. }), case["error"] == json!("outcome unknown"), "{name}");
    }
}

fn code(name: &str) -> Code {
    let camel: String = name.split('_').map(|word| format!("{}{}", &word[..1], word[1..].to_lowercase())).collect();
    (0..=16).map(Code::from_i32).find(|code| format!("{code:?}") == camel).unwrap_or_else(|| panic!("{name}"))
}

#[test]
fn a_watch_and_its_cache_behave_as_the_shared_vectors_say() {
    for (name, case) in cases(&vectors("watch.json")) {
        let mut watch = Watching::new(texts(&case["namespaces"]));
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
    begin: Instant,
    now: Instant,
}

impl Watching {
    fn new(namespaces: Vec<String>) -> Self {
        // A clock may not reach below its origin: it begins late enough for every age.
        let begin = Instant::now() + Duration::from_secs(1000);
        Self { tokens: Tokens::default(), documents: Documents::new(namespaces), calls: Vec::new(), begin, now: begin }
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
                self.tokens.pass(&event);
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
            "listener" => assert_eq!(Value::Array(std::mem::take(&mut self.calls)), *expected, "{name}"),
            "tokens" => assert_eq!(self.tokens.resume(), &tokens(expected), "{name}"),
            "synced" => assert_eq!(json!(self.documents.synced().collect::<Vec<_>>()), *expected, "{name}"),
            "age" => assert_eq!(self.documents.age(self.now).map(|age| age.as_secs_f64()), expected.as_f64(), "{name}"),
            other => panic!("{name}: {other}"),
        }
    }
}

fn tokens(json: &Value) -> BTreeMap<String, String> {
    json.as_object().unwrap().iter().map(|(namespace, token)| (namespace.clone(), token.as_str().unwrap().into())).collect()
}

fn scope(scope: Scope) -> &'static str {
    scope.as_str_name().trim_start_matches("SCOPE_")
}
