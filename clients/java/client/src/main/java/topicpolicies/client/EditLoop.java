package topicpolicies.client;

import io.grpc.Context;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Consumer;
import topicpolicies.v1.TopicPolicies;
import topicpolicies.v1.UpdateOutcome;

/** One edit: reads the document, runs the change and sends the difference, again and again until no other writer was faster. */
final class EditLoop {
    private final TopicPoliciesClient client;
    private final Edit edit;
    private final Pauses pauses;
    private final long endNanos;
    /** Whose edit it is: its calls are made in this context. */
    private final Context context = Context.current();
    private final Ongoing<UpdateResult> result = new Ongoing<>(this::end);
    private volatile CompletableFuture<?> current = CompletableFuture.completedFuture(null);
    private List<String> lastMask = List.of();
    private TopicPolicies last = TopicPolicies.getDefaultInstance();
    private int same;
    private int attempts;
    /** Whether a change may be in flight. Its outcome is then that of an edit that is ended. */
    private boolean changing;
    /** Why whoever waited for the edit ended it; null if nobody did. */
    private TopicPoliciesException ended;

    /** {@code timeout} is the time for all attempts together. */
    EditLoop(TopicPoliciesClient client, Edit edit, Pauses pauses, Duration timeout) {
        this.client = client;
        this.edit = edit;
        this.pauses = pauses;
        this.endNanos = System.nanoTime() + timeout.toNanos();
    }

    /** Starts the edit. A caller who completes the future ends the edit. */
    CompletableFuture<UpdateResult> start() {
        result.whenComplete((done, error) -> current.cancel(false));
        Optional<Document> start = edit.start();
        if (start.isPresent()) {
            attempt(start.get());
        } else {
            read("");
        }
        return result;
    }

    private void end(TopicPoliciesException why) {
        boolean inFlight;
        synchronized (this) {
            ended = why;
            inFlight = changing;
        }
        if (!inFlight) {
            result.completeExceptionally(why);
        } else if (current instanceof Ongoing<?> change) { // if it is not yet, it is ended when it is
            change.end(why);
        }
    }

    private synchronized TopicPoliciesException ended() {
        return ended;
    }

    /** Whether a change may be sent; after that, only its outcome ends the edit. */
    private synchronized boolean begins() {
        changing = ended == null && !result.isDone();
        return changing;
    }

    /** The change was certainly not made. Returns why the edit was ended meanwhile; null if it was not. */
    private synchronized TopicPoliciesException refused() {
        changing = false;
        return ended;
    }

    private Duration left() {
        return Duration.ofNanos(Math.max(endNanos - System.nanoTime(), 1));
    }

    private void read(String atLeastVersion) {
        Read.Builder read = Read.of(edit.topic()).scope(edit.scope()).timeout(left());
        step(client.getAsync(atLeastVersion.isEmpty() ? read.build() : read.atLeastVersion(atLeastVersion).build()), this::attempt,
                result::completeExceptionally);
    }

    private void attempt(Document document) {
        attempts++;
        try {
            if (edit.skipsIfAbsent() && !document.exists()) {
                result.complete(nothing(document, UpdateOutcome.UPDATE_OUTCOME_SKIPPED));
                return;
            }
            TopicPolicies before = document.policiesOrDefault();
            TopicPolicies.Builder copy = before.toBuilder();
            edit.change().accept(copy);
            TopicPolicies after = copy.build();
            List<String> mask = FieldPaths.between(before, after);
            if (mask.isEmpty()) {
                result.complete(nothing(document, UpdateOutcome.UPDATE_OUTCOME_UNCHANGED));
                return;
            }
            if (!begins()) {
                return;
            }
            boolean unconditional = cameOutTheSame(mask, after) && edit.isInsistent();
            Update.Builder update = edit.update().policies(after).mask(mask).timeout(left());
            step(client.updateAsync((unconditional ? update : update.etag(document.version())).build()),
                    done -> result.complete(done.afterAttempts(attempts)), error -> again(TopicPoliciesException.of(error)));
        } catch (Throwable thrown) { // of the change itself: also errors, or the future of the edit would never complete
            result.completeExceptionally(thrown);
        }
    }

    private UpdateResult nothing(Document document, UpdateOutcome outcome) {
        return UpdateResult.nothing(document, outcome, edit.includesPrevious()).afterAttempts(attempts);
    }

    private void again(TopicPoliciesException error) {
        Duration pause = Backoff.CONFLICT.pause(attempts, ThreadLocalRandom.current().nextDouble());
        if (!(error instanceof ConflictException conflict) || attempts == Edit.ATTEMPTS || pause.compareTo(left()) >= 0) {
            result.completeExceptionally(error);
            return;
        }
        TopicPoliciesException why = refused();
        if (why != null) {
            result.completeExceptionally(why);
            return;
        }
        step(pauses.pause(pause), nothing -> {
            if (pauses.isClosed()) {
                result.completeExceptionally(error);
            } else {
                read(conflict.version());
            }
        }, rejected -> result.completeExceptionally(error));
    }

    /** Waits for one step, which is cancelled when the edit ends. */
    private <T> void step(CompletableFuture<T> step, Consumer<T> then, Consumer<Throwable> failed) {
        current = step;
        step.whenComplete((value, error) -> context.run(() -> {
            if (error == null) {
                then.accept(value);
            } else {
                failed.accept(error);
            }
        }));
        if (result.isDone()) {
            step.cancel(false);
        } else if (ended() != null && step instanceof Ongoing<?> change) {
            change.end(ended());
        }
    }

    /** Whether the same change, with the same values, has come out often enough in a row, this time included. */
    private boolean cameOutTheSame(List<String> mask, TopicPolicies after) {
        same = mask.equals(lastMask) && !FieldPaths.overlap(mask, FieldPaths.between(last, after)) ? same + 1 : 1;
        lastMask = mask;
        last = after;
        return same >= Edit.SAME;
    }
}
