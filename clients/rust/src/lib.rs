//! A small client of the topic policies service: changes by mask that are repeated safely, reads, a watch that resumes by
//! itself, and a cache.
//!
//! It was written from the service's published pages alone (`proto`, `docs/masks.md`, `docs/watch.md`, `docs/clients.md`
//! and `clients/vectors`), as an example of a client in a further language. What it leaves out stands in its `README.md`.
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
pub mod retry;
pub mod watch;

pub use cache::{Cache, Documents, Told};
pub use client::Client;
pub use error::{Error, Failure, Violation};
pub use watch::{Message, Tokens, Watch};

/// The messages of the service, as `proto` defines them.
#[allow(missing_docs, clippy::all, clippy::pedantic, rustdoc::all)]
pub mod v1 {
    tonic::include_proto!("topicpolicies.v1");
}

use std::sync::LazyLock;

use prost_reflect::DescriptorPool;

/// The definitions of all messages, for whoever reads them by reflection.
pub static DESCRIPTORS: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin")).as_slice()).expect("the build wrote it")
});

/// The full name of a topic: with its domain, and without a partition's suffix. What is not written as an `int` is written belongs to a
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
        Some((base, number)) if number.parse().is_ok_and(|index: i32| index >= 0 && index.to_string() == number) => base,
        _ => topic,
    };
    if base.contains("://") { base.to_owned() } else { format!("persistent://{base}") }
}
