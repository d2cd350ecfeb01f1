//! Changes its own settings of one topic, turn by turn, and prints every change: `cargo run --example changer ADDRESS TOPIC TURNS`. It
//! begins when it reads a line from standard input.

use std::{cell::Cell, env, error::Error, io};

use topicpolicies_client_example::{
    Client, mask,
    v1::{ChangeResult, DispatchRate, Scope, SubscriptionPolicies, TopicPolicies, UpdatePolicyRequest},
};

/// A key that needs backticks.
const ENTRY: &str = "of rust.1";
const FIELD: &str = "max_unacked_messages_on_consumer";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [address, topic, turns] = arguments.as_slice() else {
        return Err("usage: changer ADDRESS TOPIC TURNS".into());
    };
    let client = Client::new(address)?;
    client.get(topic, Scope::Local).await?;
    println!("ready");
    io::stdin().read_line(&mut String::new())?;
    let runs = Cell::new(0);
    for turn in 1..=turns.parse()? {
        let done = change(&client, topic, turn, &runs).await?;
        println!("changed {turn} {} {}", done.previous_version, done.version);
    }
    println!("runs {}", runs.get());
    Ok(())
}

/// Makes even turns by an edit of a map entry, and odd ones by an update of a field.
async fn change(client: &Client, topic: &str, turn: i32, runs: &Cell<u32>) -> Result<ChangeResult, topicpolicies_client_example::Error> {
    if turn % 2 == 1 {
        let policies = Some(TopicPolicies { max_unacked_messages_on_consumer: Some(turn), ..Default::default() });
        let update_mask = mask::of([FIELD]);
        return client.update(UpdatePolicyRequest { topic: topic.into(), policies, update_mask, ..Default::default() }).await;
    }
    let rate = DispatchRate { dispatch_throttling_rate_in_msg: Some(turn), ..Default::default() };
    let edited = client.edit(topic, Scope::Local, |policies| {
        runs.set(runs.get() + 1);
        policies.subscription_policies.insert(ENTRY.into(), SubscriptionPolicies { dispatch_rate: Some(rate) });
    });
    edited.await
}
