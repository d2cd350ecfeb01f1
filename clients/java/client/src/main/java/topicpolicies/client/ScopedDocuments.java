package topicpolicies.client;

/**
 * The documents of one topic in both scopes, read at once.
 *
 * @param local the LOCAL one, or its absence
 * @param global the GLOBAL one, or its absence
 */
public record ScopedDocuments(Document local, Document global) {
}
