package topicpolicies.client;

import static java.util.concurrent.CompletableFuture.completedFuture;
import static java.util.concurrent.CompletableFuture.failedFuture;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Function;
import topicpolicies.v1.TopicPolicies;
import topicpolicies.v1.UpdateOutcome;

/** One edit: from a document that was read to an update that says what differs, again and again until nobody else was faster. */
final class EditLoop {
    private final TopicPoliciesClient client;
    private final Edit edit;
    private final Function<Duration, Executor> later;
    private List<String> lastMask = List.of();
    private TopicPolicies last = TopicPolicies.getDefaultInstance();
    private int same;

    /** {@code later} gives an executor that waits first. */
    EditLoop(TopicPoliciesClient client, Edit edit, Function<Duration, Executor> later) {
        this.client = client;
        this.edit = edit;
        this.later = later;
    }

    CompletableFuture<UpdateResult> attempt(Document document, int attempt) {
        if (edit.skipIfAbsent() && !document.exists()) {
            return completedFuture(UpdateResult.nothing(document, UpdateOutcome.UPDATE_OUTCOME_SKIPPED, attempt));
        }
        TopicPolicies before = document.policiesOrDefault();
        TopicPolicies.Builder copy = before.toBuilder();
        edit.change().accept(copy);
        TopicPolicies after = copy.build();
        List<String> mask = FieldPaths.between(before, after);
        if (mask.isEmpty()) {
            return completedFuture(UpdateResult.nothing(document, UpdateOutcome.UPDATE_OUTCOME_UNCHANGED, attempt));
        }
        boolean unconditional = cameOutTheSame(mask, after) && edit.insistent();
        Update update = Update.of(edit.topic(), after, mask).in(edit.scope());
        update = unconditional ? update : update.ifVersion(document.version());
        update = edit.skipIfAbsent() ? update.ifPresent() : update;
        return client.updateAsync(update, attempt).exceptionallyCompose(error -> again(TopicPoliciesException.of(error), attempt));
    }

    private CompletableFuture<UpdateResult> again(TopicPoliciesException error, int attempt) {
        if (!(error instanceof ConflictException conflict) || attempt == Edit.ATTEMPTS) {
            return failedFuture(error);
        }
        Duration pause = Backoff.CONFLICT.pause(attempt, ThreadLocalRandom.current().nextDouble());
        return CompletableFuture.supplyAsync(() -> client.getAsync(edit.topic(), edit.scope(), conflict.version()), later.apply(pause))
                .thenCompose(read -> read)
                .thenCompose(document -> attempt(document, attempt + 1));
    }

    /** Whether the same change, with the same values, has come out often enough in a row, this time included. */
    private boolean cameOutTheSame(List<String> mask, TopicPolicies after) {
        same = mask.equals(lastMask) && !FieldPaths.overlap(mask, FieldPaths.between(last, after)) ? same + 1 : 1;
        lastMask = mask;
        last = after;
        return same >= Edit.SAME;
    }
}
