package topicpolicies.client;

import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/** The result of a call or an edit in progress, which can be ended early with a given error. */
final class Ongoing<R> extends CompletableFuture<R> {
    private final Consumer<TopicPoliciesException> ending;

    /** {@code ending} ends the work, which completes this future soon afterwards, perhaps on another thread. */
    Ongoing(Consumer<TopicPoliciesException> ending) {
        this.ending = ending;
    }

    /**
     * Ends the work. It fails with the error, or with {@link OutcomeUnknownException} because of it if a change may have been made; a
     * result that is there already stays.
     */
    void end(TopicPoliciesException why) {
        ending.accept(why);
    }
}
