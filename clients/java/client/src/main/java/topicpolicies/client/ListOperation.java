package topicpolicies.client;

/** What an update does with a list that its mask names. */
public enum ListOperation {
    /** The list becomes the given one; the default. */
    REPLACE(topicpolicies.v1.ListOperation.LIST_OPERATION_REPLACE),
    /** The given elements that are not there yet are added at the end. */
    UNION(topicpolicies.v1.ListOperation.LIST_OPERATION_UNION),
    /** The given elements are removed. */
    SUBTRACT(topicpolicies.v1.ListOperation.LIST_OPERATION_SUBTRACT);

    private final topicpolicies.v1.ListOperation message;

    ListOperation(topicpolicies.v1.ListOperation message) {
        this.message = message;
    }

    topicpolicies.v1.ListOperation message() {
        return message;
    }
}
