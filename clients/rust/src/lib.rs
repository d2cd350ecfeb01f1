//! A small client of the topic policies service: changes by mask that are retried safely, reads, a watch that resumes by
//! itself, and a cache.
//!
//! It was written from the service's published pages alone (`proto`, `docs/masks.md`, `docs/watch.md`, `docs/clients.md`
//! and `clients/vectors`), as an example of a client in a further language. Its `README.md` lists what it leaves out.
//!
//! ```no_run
//! use topicpolicies_client_example::{Client, mask, v1};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::new("127.0.0.1:6680")?;
//! let done = client
//!     .update(v1::UpdatePolicyRequest {
//!         topic: "tenant/namespace/topic".into(),
//!         policies: Some(v1::TopicPolicies { max_producer_per_topic: Some(5), ..Default::default() }),
//!         update_mask: mask::of(["max_producer_per_topic"]),
//!         ..Default::default()
//!     })
//!     .await?;
//! println!("{}", done.outcome().as_str_name());
//! # Ok(())
//! # }
//! ```

pub mod cache;
pub mod client;
pub mod error;
pub mod mask;
pub mod watch;

pub use cache::{Cache, CacheChange, Documents};
pub use client::Client;
pub use error::{Error, Failure, Violation};
pub use watch::{Message, Tokens, Watch};

/// The generated messages of the service, as `proto` defines them.
#[allow(missing_docs, clippy::all, clippy::pedantic, rustdoc::all)]
pub mod v1 {
    tonic::include_proto!("topicpolicies.v1");
}

use std::sync::LazyLock;

use prost_reflect::DescriptorPool;

/// The definitions of all messages, for reflection.
pub static DESCRIPTORS: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin")).as_slice()).expect("the build wrote it")
});

/// The full name of a topic: with its domain, and without a partition suffix. A name whose ending Pulsar does not read as a partition is a
/// topic of its own.
///
/// ```
/// use topicpolicies_client_example::full_name;
/// assert_eq!(full_name("t/n/a-partition-3"), "persistent://t/n/a");
/// assert_eq!(full_name("t/n/a-partition-2147483647"), "persistent://t/n/a");
/// assert_eq!(full_name("t/n/a-partition-0-partition-1"), "persistent://t/n/a-partition-0");
/// for own in ["persistent://t/n/a-partition-01", "persistent://t/n/a-partition-2147483648", "persistent://t/n/a-partition-99999999999"] {
///     assert_eq!(full_name(own), own);
/// }
/// ```
pub fn full_name(topic: &str) -> String {
    let base = match topic.rsplit_once("-partition-") {
        Some((base, number)) if is_partition(number) => base,
        _ => topic,
    };
    if base.contains("://") { base.to_owned() } else { format!("persistent://{base}") }
}

/// The zeros of the scripts whose digits are one UTF-16 unit each, which Java's `Integer.parseInt` accepts; each is followed by nine more
/// digits.
const ZEROS: [u32; 37] = [
    0x0030, 0x0660, 0x06f0, 0x07c0, 0x0966, 0x09e6, 0x0a66, 0x0ae6, 0x0b66, 0x0be6, 0x0c66, 0x0ce6, 0x0d66, 0x0de6, 0x0e50, 0x0ed0, 0x0f20,
    0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0,
    0xaa50, 0xabf0, 0xff10,
];

/// Whether Pulsar reads a text as a partition number: decimal digits of any script, at most 2^31 - 1, without a leading zero.
fn is_partition(text: &str) -> bool {
    let digit = |c: char| ZEROS.iter().find_map(|&zero| char::from_digit((c as u32).checked_sub(zero)?, 10));
    let digits: Option<String> = text.chars().map(digit).collect();
    digits.is_some_and(|digits| digits.parse().is_ok_and(|index: i32| index.to_string() == digits))
}
