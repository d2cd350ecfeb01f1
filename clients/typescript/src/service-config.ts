/** Which calls gRPC repeats: `clients/service_config.json`, the same for all languages. */
export const SERVICE_CONFIG = {
  "methodConfig": [
    {
      "name": [
        { "service": "topicpolicies.v1.TopicPoliciesService", "method": "UpdatePolicy" },
        { "service": "topicpolicies.v1.TopicPoliciesService", "method": "BatchUpdatePolicies" },
        { "service": "topicpolicies.v1.TopicPoliciesService", "method": "DeletePolicy" },
        { "service": "topicpolicies.v1.TopicPoliciesService", "method": "GetPolicy" },
        { "service": "topicpolicies.v1.TopicPoliciesService", "method": "GetEffectivePolicy" },
        { "service": "topicpolicies.v1.TopicPoliciesService", "method": "ListPolicies" },
        { "service": "topicpolicies.v1.TopicPoliciesService", "method": "GetServerInfo" },
        { "service": "topicpolicies.v1.PolicyHistoryService", "method": "ListHistory" },
        { "service": "topicpolicies.v1.PolicyHistoryService", "method": "GetPolicyAsOf" }
      ],
      "retryPolicy": {
        "maxAttempts": 5,
        "initialBackoff": "0.1s",
        "maxBackoff": "5s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"]
      }
    }
  ]
};
