package topicpolicies.client;

import java.time.Instant;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import topicpolicies.v1.GetEffectivePolicyResponse;
import topicpolicies.v1.PolicySource;
import topicpolicies.v1.TopicPolicies;

/**
 * The effective policies of one topic.
 *
 * @param topic the topic's full name
 * @param policies the effective values; a field that is unset has no value on any level
 * @param sources the level that sets each value, by path
 * @param localVersion the LOCAL document's version
 * @param globalVersion the GLOBAL document's version
 * @param disabled whether topic policies are disabled for this topic: if so, its documents have no effect
 * @param unconfirmedSince since when the server can't reach the change log, so that there may be newer documents; empty if the server
 *     reached the log
 */
public record EffectivePolicies(String topic, TopicPolicies policies, Map<String, PolicySource> sources, String localVersion,
                                String globalVersion, boolean disabled, Optional<Instant> unconfirmedSince) {
    /** Copies the sources, in their order. */
    public EffectivePolicies {
        sources = Collections.unmodifiableMap(new LinkedHashMap<>(sources));
    }

    /** Creates effective policies that the server confirmed. */
    public EffectivePolicies(String topic, TopicPolicies policies, Map<String, PolicySource> sources, String localVersion,
                             String globalVersion, boolean disabled) {
        this(topic, policies, sources, localVersion, globalVersion, disabled, Optional.empty());
    }

    static EffectivePolicies of(Answered<GetEffectivePolicyResponse> answered) {
        GetEffectivePolicyResponse answer = answered.message();
        Map<String, PolicySource> sources = new LinkedHashMap<>();
        answer.getSourcesList().forEach(each -> sources.put(each.getPath(), each.getSource()));
        return new EffectivePolicies(answer.getTopic(), answer.getPolicies(), sources, answer.getLocalVersion(), answer.getGlobalVersion(),
                answer.getDisabled(), answered.unconfirmedSince());
    }
}
