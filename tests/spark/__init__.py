"""The data source topic_policy_changes, and the audit that uses it."""
