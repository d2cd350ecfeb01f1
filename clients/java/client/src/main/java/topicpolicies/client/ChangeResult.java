package topicpolicies.client;

/** What became of one of many changes. */
public sealed interface ChangeResult {
    /** Which one it is of those that were given, counted from 0. */
    long index();

    /** The change. */
    Change change();

    /**
     * An update succeeded.
     *
     * @param index which one it is
     * @param change the update
     * @param result what became of it
     */
    record Updated(long index, Update change, UpdateResult result) implements ChangeResult {
    }

    /**
     * A deletion succeeded.
     *
     * @param index which one it is
     * @param change the deletion
     * @param result what became of it
     */
    record Deleted(long index, Delete change, DeleteResult result) implements ChangeResult {
    }

    /**
     * A change failed, alone.
     *
     * @param index which one it is
     * @param change the change
     * @param error why
     */
    record Failed(long index, Change change, TopicPoliciesException error) implements ChangeResult {
    }
}
