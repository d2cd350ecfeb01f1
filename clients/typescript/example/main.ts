/**
 * An example of everything that the client does. Start `topicpolicies serve --data policies.db`, then `npm run example`. Beside a broker,
 * the topic has to exist.
 */
import { create } from "@bufbuild/protobuf";

import { Client, ConflictError, DEFAULT_TARGET, DeleteOutcome, TopicPoliciesError } from "../src/index.js";
import { SubscriptionPoliciesSchema } from "../src/v1/index.js";

const [target = DEFAULT_TARGET, topic = "persistent://public/default/orders-typescript"] = process.argv.slice(2);

async function tour(): Promise<void> {
  await using client = new Client(target, { actor: "typescript-example" });

  // A cache, and a listener that is called for every change.
  await using cache = client.cache({ topics: [topic] });
  await cache.synced(AbortSignal.timeout(30_000));
  const called = new Promise<void>((resolve) => {
    cache.listen(({ after }) => {
      if (after?.policies?.maxProducerPerTopic === 6) resolve();
    });
  });

  // An update: sets two fields and clears a third.
  const updated = await client.update(
    topic,
    { maxProducerPerTopic: 5, retentionPolicies: { retentionTimeInMinutes: 60, retentionSizeInMb: 512n } },
    { mask: ["max_producer_per_topic", "retention_policies", "message_ttl_in_seconds"], reason: "an example" },
  );
  const version = updated.document?.version ?? "";
  console.log(`updated to version ${version}`);

  // An edit: sets one entry of a map and leaves the others alone. If another writer was faster, the function runs again.
  const edited = await client.edit(topic, (policies) => {
    policies.maxProducerPerTopic = (policies.maxProducerPerTopic ?? 0) + 1;
    policies.subscriptionPolicies["billing"] = create(SubscriptionPoliciesSchema, { dispatchRate: { dispatchThrottlingRateInMsg: 100 } });
  });
  console.log(`edited: at most ${edited.document?.policies?.maxProducerPerTopic ?? 0} producers`);

  // An old etag is a conflict, not a lost update.
  try {
    await client.update(topic, { maxProducerPerTopic: 1 }, { etag: version });
    throw new Error("An old etag was accepted.");
  } catch (error) {
    if (!(error instanceof ConflictError)) throw error;
    console.log("an old etag was refused");
  }

  // The listener was called, and the cache has the change.
  await called;
  console.log(`the cache has version ${cache.get(topic)?.version ?? ""}, confirmed ${Math.round(cache.stalenessMs)} ms ago`);

  const { outcome } = await client.delete(topic);
  console.log(DeleteOutcome[outcome].toLowerCase());
}

try {
  await tour();
} catch (error) {
  if (!(error instanceof TopicPoliciesError)) throw error;
  console.error(`example: ${error.message}`);
  process.exitCode = 1;
}
