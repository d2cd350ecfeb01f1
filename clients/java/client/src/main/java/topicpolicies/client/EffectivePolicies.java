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
 * What holds for one topic.
 *
 * @param topic the topic's full name
 * @param policies what holds; a field that is unset has no value on any level
 * @param sources where each value comes from, by path
 * @param localVersion the LOCAL document's version
 * @param globalVersion the GLOBAL document's version
 * @param disabled whether topic policies are disabled for this topic: then its documents do not count
 * @param unconfirmedSince since when the server can't reach the change log, so that newer documents may hold; empty: it can
 */
public record EffectivePolicies(String topic, TopicPolicies policies, Map<String, PolicySource> sources, String localVersion,
                                String globalVersion, boolean disabled, Optional<Instant> unconfirmedSince) {
    /** Copies the sources, in their order. */
    public EffectivePolicies {
        sources = Collections.unmodifiableMap(new LinkedHashMap<>(sources));
    }

    /** What was confirmed. */
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
