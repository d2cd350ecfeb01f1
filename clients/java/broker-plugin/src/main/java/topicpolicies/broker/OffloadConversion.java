package topicpolicies.broker;

import java.util.HashMap;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.pulsar.common.policies.data.OffloadPoliciesImpl;
import org.apache.pulsar.common.policies.data.OffloadedReadPriority;
import topicpolicies.v1.OffloadPolicies;
import topicpolicies.v1.OffloadPoliciesOrBuilder;

/**
 * Converts offload policies between Pulsar's class and the message. Each leaf may be unset on both sides; Pulsar's own defaults are not
 * added.
 */
final class OffloadConversion {
    private OffloadConversion() {
    }

    static OffloadPoliciesImpl toPulsar(OffloadPoliciesOrBuilder from) {
        OffloadPoliciesImpl policies = new OffloadPoliciesImpl();
        policies.setFileSystemProfilePath(from.hasFileSystemProfilePath() ? from.getFileSystemProfilePath() : null);
        policies.setFileSystemURI(from.hasFileSystemUri() ? from.getFileSystemUri() : null);
        policies.setGcsManagedLedgerOffloadBucket(
                from.hasGcsManagedLedgerOffloadBucket() ? from.getGcsManagedLedgerOffloadBucket() : null);
        policies.setGcsManagedLedgerOffloadMaxBlockSizeInBytes(
                from.hasGcsManagedLedgerOffloadMaxBlockSizeInBytes() ? from.getGcsManagedLedgerOffloadMaxBlockSizeInBytes() : null);
        policies.setGcsManagedLedgerOffloadReadBufferSizeInBytes(
                from.hasGcsManagedLedgerOffloadReadBufferSizeInBytes() ? from.getGcsManagedLedgerOffloadReadBufferSizeInBytes() : null);
        policies.setGcsManagedLedgerOffloadRegion(
                from.hasGcsManagedLedgerOffloadRegion() ? from.getGcsManagedLedgerOffloadRegion() : null);
        policies.setGcsManagedLedgerOffloadServiceAccountKeyFile(
                from.hasGcsManagedLedgerOffloadServiceAccountKeyFile() ? from.getGcsManagedLedgerOffloadServiceAccountKeyFile() : null);
        policies.setManagedLedgerOffloadBucket(
                from.hasManagedLedgerOffloadBucket() ? from.getManagedLedgerOffloadBucket() : null);
        policies.setManagedLedgerOffloadDeletionLagInMillis(
                from.hasManagedLedgerOffloadDeletionLagInMillis() ? from.getManagedLedgerOffloadDeletionLagInMillis() : null);
        policies.setManagedLedgerOffloadDriver(
                from.hasManagedLedgerOffloadDriver() ? from.getManagedLedgerOffloadDriver() : null);
        policies.setManagedLedgerOffloadMaxBlockSizeInBytes(
                from.hasManagedLedgerOffloadMaxBlockSizeInBytes() ? from.getManagedLedgerOffloadMaxBlockSizeInBytes() : null);
        policies.setManagedLedgerOffloadMaxThreads(
                from.hasManagedLedgerOffloadMaxThreads() ? from.getManagedLedgerOffloadMaxThreads() : null);
        policies.setManagedLedgerOffloadPrefetchRounds(
                from.hasManagedLedgerOffloadPrefetchRounds() ? from.getManagedLedgerOffloadPrefetchRounds() : null);
        policies.setManagedLedgerOffloadReadBufferSizeInBytes(
                from.hasManagedLedgerOffloadReadBufferSizeInBytes() ? from.getManagedLedgerOffloadReadBufferSizeInBytes() : null);
        policies.setManagedLedgerOffloadReadThreads(
                from.hasManagedLedgerOffloadReadThreads() ? from.getManagedLedgerOffloadReadThreads() : null);
        policies.setManagedLedgerOffloadRegion(
                from.hasManagedLedgerOffloadRegion() ? from.getManagedLedgerOffloadRegion() : null);
        policies.setManagedLedgerOffloadServiceEndpoint(
                from.hasManagedLedgerOffloadServiceEndpoint() ? from.getManagedLedgerOffloadServiceEndpoint() : null);
        policies.setManagedLedgerOffloadThresholdInBytes(
                from.hasManagedLedgerOffloadThresholdInBytes() ? from.getManagedLedgerOffloadThresholdInBytes() : null);
        policies.setManagedLedgerOffloadThresholdInSeconds(
                from.hasManagedLedgerOffloadThresholdInSeconds() ? from.getManagedLedgerOffloadThresholdInSeconds() : null);
        policies.setOffloadersDirectory(from.hasOffloadersDirectory() ? from.getOffloadersDirectory() : null);
        policies.setS3ManagedLedgerOffloadBucket(
                from.hasS3ManagedLedgerOffloadBucket() ? from.getS3ManagedLedgerOffloadBucket() : null);
        policies.setS3ManagedLedgerOffloadCredentialId(
                from.hasS3ManagedLedgerOffloadCredentialId() ? from.getS3ManagedLedgerOffloadCredentialId() : null);
        policies.setS3ManagedLedgerOffloadCredentialSecret(
                from.hasS3ManagedLedgerOffloadCredentialSecret() ? from.getS3ManagedLedgerOffloadCredentialSecret() : null);
        policies.setS3ManagedLedgerOffloadMaxBlockSizeInBytes(
                from.hasS3ManagedLedgerOffloadMaxBlockSizeInBytes() ? from.getS3ManagedLedgerOffloadMaxBlockSizeInBytes() : null);
        policies.setS3ManagedLedgerOffloadReadBufferSizeInBytes(
                from.hasS3ManagedLedgerOffloadReadBufferSizeInBytes() ? from.getS3ManagedLedgerOffloadReadBufferSizeInBytes() : null);
        policies.setS3ManagedLedgerOffloadRegion(
                from.hasS3ManagedLedgerOffloadRegion() ? from.getS3ManagedLedgerOffloadRegion() : null);
        policies.setS3ManagedLedgerOffloadRole(
                from.hasS3ManagedLedgerOffloadRole() ? from.getS3ManagedLedgerOffloadRole() : null);
        policies.setS3ManagedLedgerOffloadRoleSessionName(
                from.hasS3ManagedLedgerOffloadRoleSessionName() ? from.getS3ManagedLedgerOffloadRoleSessionName() : null);
        policies.setS3ManagedLedgerOffloadServiceEndpoint(
                from.hasS3ManagedLedgerOffloadServiceEndpoint() ? from.getS3ManagedLedgerOffloadServiceEndpoint() : null);
        policies.setManagedLedgerExtraConfigurations(new HashMap<>(from.getManagedLedgerExtraConfigurationsMap()));
        policies.setManagedLedgerOffloadedReadPriority(switch (from.getManagedLedgerOffloadedReadPriority()) {
            case OFFLOADED_READ_PRIORITY_BOOKKEEPER_FIRST -> OffloadedReadPriority.BOOKKEEPER_FIRST;
            case OFFLOADED_READ_PRIORITY_TIERED_STORAGE_FIRST -> OffloadedReadPriority.TIERED_STORAGE_FIRST;
            case OFFLOADED_READ_PRIORITY_UNSPECIFIED, UNRECOGNIZED -> null;
        });
        return policies;
    }

    static OffloadPolicies fromPulsar(OffloadPoliciesImpl from) {
        OffloadPolicies.Builder to = OffloadPolicies.newBuilder();
        set(from.getFileSystemProfilePath(), to::setFileSystemProfilePath);
        set(from.getFileSystemURI(), to::setFileSystemUri);
        set(from.getGcsManagedLedgerOffloadBucket(), to::setGcsManagedLedgerOffloadBucket);
        set(from.getGcsManagedLedgerOffloadMaxBlockSizeInBytes(), to::setGcsManagedLedgerOffloadMaxBlockSizeInBytes);
        set(from.getGcsManagedLedgerOffloadReadBufferSizeInBytes(), to::setGcsManagedLedgerOffloadReadBufferSizeInBytes);
        set(from.getGcsManagedLedgerOffloadRegion(), to::setGcsManagedLedgerOffloadRegion);
        set(from.getGcsManagedLedgerOffloadServiceAccountKeyFile(), to::setGcsManagedLedgerOffloadServiceAccountKeyFile);
        set(from.getManagedLedgerOffloadBucket(), to::setManagedLedgerOffloadBucket);
        set(from.getManagedLedgerOffloadDeletionLagInMillis(), to::setManagedLedgerOffloadDeletionLagInMillis);
        set(from.getManagedLedgerOffloadDriver(), to::setManagedLedgerOffloadDriver);
        set(from.getManagedLedgerOffloadMaxBlockSizeInBytes(), to::setManagedLedgerOffloadMaxBlockSizeInBytes);
        set(from.getManagedLedgerOffloadMaxThreads(), to::setManagedLedgerOffloadMaxThreads);
        set(from.getManagedLedgerOffloadPrefetchRounds(), to::setManagedLedgerOffloadPrefetchRounds);
        set(from.getManagedLedgerOffloadReadBufferSizeInBytes(), to::setManagedLedgerOffloadReadBufferSizeInBytes);
        set(from.getManagedLedgerOffloadReadThreads(), to::setManagedLedgerOffloadReadThreads);
        set(from.getManagedLedgerOffloadRegion(), to::setManagedLedgerOffloadRegion);
        set(from.getManagedLedgerOffloadServiceEndpoint(), to::setManagedLedgerOffloadServiceEndpoint);
        set(from.getManagedLedgerOffloadThresholdInBytes(), to::setManagedLedgerOffloadThresholdInBytes);
        set(from.getManagedLedgerOffloadThresholdInSeconds(), to::setManagedLedgerOffloadThresholdInSeconds);
        set(from.getOffloadersDirectory(), to::setOffloadersDirectory);
        set(from.getS3ManagedLedgerOffloadBucket(), to::setS3ManagedLedgerOffloadBucket);
        set(from.getS3ManagedLedgerOffloadCredentialId(), to::setS3ManagedLedgerOffloadCredentialId);
        set(from.getS3ManagedLedgerOffloadCredentialSecret(), to::setS3ManagedLedgerOffloadCredentialSecret);
        set(from.getS3ManagedLedgerOffloadMaxBlockSizeInBytes(), to::setS3ManagedLedgerOffloadMaxBlockSizeInBytes);
        set(from.getS3ManagedLedgerOffloadReadBufferSizeInBytes(), to::setS3ManagedLedgerOffloadReadBufferSizeInBytes);
        set(from.getS3ManagedLedgerOffloadRegion(), to::setS3ManagedLedgerOffloadRegion);
        set(from.getS3ManagedLedgerOffloadRole(), to::setS3ManagedLedgerOffloadRole);
        set(from.getS3ManagedLedgerOffloadRoleSessionName(), to::setS3ManagedLedgerOffloadRoleSessionName);
        set(from.getS3ManagedLedgerOffloadServiceEndpoint(), to::setS3ManagedLedgerOffloadServiceEndpoint);
        Map<String, String> extra = from.getManagedLedgerExtraConfigurations();
        if (extra != null) {
            to.putAllManagedLedgerExtraConfigurations(extra);
        }
        if (from.getManagedLedgerOffloadedReadPriority() != null) {
            to.setManagedLedgerOffloadedReadPriority(switch (from.getManagedLedgerOffloadedReadPriority()) {
                case BOOKKEEPER_FIRST -> topicpolicies.v1.OffloadedReadPriority.OFFLOADED_READ_PRIORITY_BOOKKEEPER_FIRST;
                case TIERED_STORAGE_FIRST -> topicpolicies.v1.OffloadedReadPriority.OFFLOADED_READ_PRIORITY_TIERED_STORAGE_FIRST;
            });
        }
        return to.build();
    }

    private static <T> void set(T value, Consumer<T> setter) {
        if (value != null) {
            setter.accept(value);
        }
    }
}
