package topicpolicies.client;

/**
 * The documents of one topic in both scopes, read in one call.
 *
 * @param local the LOCAL document, or its absence
 * @param global the GLOBAL document, or its absence
 */
public record ScopedDocuments(Document local, Document global) {
}
