package topicpolicies.client;

/** The result of one of many changes. */
public sealed interface ChangeResult {
    /** The number of the change among all changes, counted from 0. */
    long index();

    /** The change. */
    Change change();

    /**
     * An update succeeded.
     *
     * @param index the number of the change
     * @param change the update
     * @param result its result
     */
    record Updated(long index, Update change, UpdateResult result) implements ChangeResult {
    }

    /**
     * A deletion succeeded.
     *
     * @param index the number of the change
     * @param change the deletion
     * @param result its result
     */
    record Deleted(long index, Delete change, DeleteResult result) implements ChangeResult {
    }

    /**
     * A change failed; the others are not affected.
     *
     * @param index the number of the change
     * @param change the change
     * @param error why it failed
     */
    record Failed(long index, Change change, TopicPoliciesException error) implements ChangeResult {
    }
}
