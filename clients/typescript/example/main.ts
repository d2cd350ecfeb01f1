import { Client, mask, TopicPoliciesError } from "../src/index.js";

const [target = "localhost:6680"] = process.argv.slice(2);
const topic = "persistent://public/default/orders-typescript";

try {
  using client = new Client(target, { actor: "retention-bot" });

  // Sets one field and clears another: a field that the mask names and the message does not set is cleared.
  const updated = await client.updatePolicy({
    topic,
    policies: { maxProducerPerTopic: 5 },
    updateMask: mask("max_producer_per_topic", "message_ttl_in_seconds"),
    reason: "the nightly load",
  });
  console.log(`updated to version ${updated.version}`);

  // Edits a copy and sends what differs. If somebody else changes the document meanwhile, the function runs again.
  const edited = await client.edit({ topic }, (policies) => {
    policies.maxProducerPerTopic = (policies.maxProducerPerTopic ?? 0) + 1;
  });
  console.log(`edited: producers ${edited.document?.policies?.maxProducerPerTopic ?? 0}`);

  // A precondition keeps a change from undoing another one.
  try {
    const precondition = { condition: { case: "version", value: updated.version } } as const;
    await client.updatePolicy({ topic, policies: { maxProducerPerTopic: 1 }, precondition });
  } catch (error) {
    if (!(error instanceof TopicPoliciesError && error.kind === "conflict")) throw error;
    console.log("an old version was refused");
  }

  // A copy of the namespace's documents that follows the service.
  await using cache = client.cache({ namespaces: ["public/default"] });
  await cache.synced(AbortSignal.timeout(30_000));
  console.log(`the cache has version ${cache.get(topic)?.version ?? ""}`);

  await client.deletePolicy({ topic });
  console.log("deleted");
} catch (error) {
  if (!(error instanceof TopicPoliciesError)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
