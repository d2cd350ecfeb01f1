//! Helpers that several tests use.
#![allow(dead_code, missing_docs)]

use std::{env, fs, path::Path};

use prost::Message;
use prost_reflect::DynamicMessage;
use serde_json::Value;
use topicpolicies_client_example::DESCRIPTORS;

/// Reads a file of test vectors.
pub fn vectors(name: &str) -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors").join(name);
    serde_json::from_slice(&fs::read(file).expect("the vectors are beside this client")).expect("they are JSON")
}

/// The cases of a list, with their names.
pub fn cases(list: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let list = list.as_array().expect("it is a list");
    assert!(!list.is_empty());
    list.iter().map(|case| (case["name"].as_str().unwrap_or_default(), case))
}

/// Parses a message from Protobuf's JSON form.
pub fn message<M: Message + Default>(name: &str, json: &Value) -> M {
    let descriptor = DESCRIPTORS.get_message_by_name(&format!("topicpolicies.v1.{name}")).expect("it is defined");
    let dynamic = DynamicMessage::deserialize(descriptor, json.clone()).expect("it is of this message");
    dynamic.transcode_to().expect("it is of this message")
}

/// The number of an enum value.
pub fn number(of: &str, name: &str) -> i32 {
    let descriptor = DESCRIPTORS.get_enum_by_name(&format!("topicpolicies.v1.{of}")).expect("it is defined");
    descriptor.get_value_by_name(name).expect("it has this value").number()
}

/// A list of strings.
pub fn texts(list: &Value) -> Vec<String> {
    list.as_array().expect("it is a list").iter().map(|text| text.as_str().expect("it is a text").to_owned()).collect()
}

/// The address of the server that the tests use.
pub fn address() -> String {
    env::var("TOPICPOLICIES_ADDRESS").expect("set TOPICPOLICIES_ADDRESS to host:port of a server on an embedded log with a history")
}
