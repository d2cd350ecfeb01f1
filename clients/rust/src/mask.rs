//! Paths and masks: `docs/masks.md`.

use prost::Message as _;
use prost_reflect::{DynamicMessage, MapKey, ReflectMessage as _, Value};

use crate::{DESCRIPTORS, v1};

/// A mask of these paths, as a request takes it.
pub fn of<P: Into<String>>(paths: impl IntoIterator<Item = P>) -> Option<prost_types::FieldMask> {
    Some(prost_types::FieldMask { paths: paths.into_iter().map(Into::into).collect() })
}

/// The path of these segments. No segments give `*`, the whole document.
pub fn join<S: AsRef<str>>(segments: impl IntoIterator<Item = S>) -> String {
    let parts: Vec<String> = segments.into_iter().map(|segment| quoted(segment.as_ref())).collect();
    if parts.is_empty() { "*".into() } else { parts.join(".") }
}

fn quoted(segment: &str) -> String {
    if !segment.is_empty() && segment.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        segment.into()
    } else {
        format!("`{}`", segment.replace('`', "``"))
    }
}

/// The paths that differ between two documents: messages that both have are compared field by field, maps entry by entry, and lists as a
/// whole.
pub fn difference(before: &v1::TopicPolicies, after: &v1::TopicPolicies) -> Vec<String> {
    let mut paths = Vec::new();
    differ_in_messages(&dynamic(before), &dynamic(after), &mut Vec::new(), &mut paths);
    paths
}

fn dynamic(policies: &v1::TopicPolicies) -> DynamicMessage {
    let descriptor = DESCRIPTORS.get_message_by_name("topicpolicies.v1.TopicPolicies").expect("it is defined");
    DynamicMessage::decode(descriptor, policies.encode_to_vec().as_slice()).expect("it was encoded just now")
}

fn differ_in_messages(before: &DynamicMessage, after: &DynamicMessage, at: &mut Vec<String>, paths: &mut Vec<String>) {
    for field in before.descriptor().fields() {
        at.push(field.name().into());
        let (old, new) = (before.get_field(&field), after.get_field(&field));
        if let (Value::Map(old), Value::Map(new)) = (&*old, &*new) {
            let mut keys: Vec<&MapKey> = old.keys().chain(new.keys().filter(|key| !old.contains_key(key))).collect();
            keys.sort_by_key(|key| key.as_str());
            for key in keys {
                at.push(key.as_str().expect("the keys of all maps are texts").into());
                differ_in_values(old.get(key), new.get(key), at, paths);
                at.pop();
            }
        } else {
            let present = |message: &DynamicMessage| message.has_field(&field);
            differ_in_values(present(before).then_some(&*old), present(after).then_some(&*new), at, paths);
        }
        at.pop();
    }
}

fn differ_in_values(before: Option<&Value>, after: Option<&Value>, at: &mut Vec<String>, paths: &mut Vec<String>) {
    match (before, after) {
        (Some(Value::Message(before)), Some(Value::Message(after))) => differ_in_messages(before, after, at, paths),
        _ if before != after => paths.push(join(at.iter())),
        _ => {}
    }
}
