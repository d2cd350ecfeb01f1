package topicpolicies.broker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Descriptors.EnumDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.pulsar.common.policies.data.OffloadPoliciesImpl;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import topicpolicies.client.Masks;
import topicpolicies.v1.OffloadPolicies;
import topicpolicies.v1.TopicPolicies;

final class PolicyConversionTest {
    private int count;

    /** Returns a message with every field set, each to another value. */
    private Message full(Message.Builder builder, int seed) {
        for (FieldDescriptor field : builder.getDescriptorForType().getFields()) {
            if (field.isMapField()) {
                for (int entry = 0; entry < 2; entry++) {
                    Message.Builder each = builder.newBuilderForField(field);
                    builder.addRepeatedField(field, full(each, seed));
                }
            } else if (field.isRepeated()) {
                builder.addRepeatedField(field, value(field, builder, seed));
                builder.addRepeatedField(field, value(field, builder, seed + 1));
            } else {
                builder.setField(field, value(field, builder, seed));
            }
        }
        return builder.build();
    }

    private Object value(FieldDescriptor field, Message.Builder parent, int seed) {
        count++;
        return switch (field.getJavaType()) {
            case INT -> seed * 1000 + count;
            case LONG -> (1L << 40) * seed + count;
            case DOUBLE -> seed + count / 4.0;
            case BOOLEAN -> seed % 2 == 0;
            case STRING -> "text-" + seed + "-" + count;
            case ENUM -> enumValue(field.getEnumType(), seed);
            case MESSAGE -> full(parent.newBuilderForField(field), seed);
            default -> throw new AssertionError(field);
        };
    }

    private static Object enumValue(EnumDescriptor type, int seed) {
        return type.getValues().get(1 + seed % (type.getValues().size() - 1));
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2, 3, 4, 5, 6, 7})
    void everyFieldIsConvertedBothWaysUnchanged(int seed) {
        TopicPolicies document = (TopicPolicies) full(TopicPolicies.newBuilder(), seed);
        assertEquals(TopicPolicies.getDescriptor().getFields().size(), document.getAllFields().size());
        assertEquals(document, PolicyConversion.fromPulsar(PolicyConversion.toPulsar(document, true)));
        assertTrue(PolicyConversion.toPulsar(document, true).isGlobalPolicies());
    }

    @Test
    void anEmptyDocumentIsConvertedToAnEmptyDocument() {
        assertEquals(TopicPolicies.getDefaultInstance(),
                PolicyConversion.fromPulsar(PolicyConversion.toPulsar(TopicPolicies.getDefaultInstance(), false)));
        assertEquals(TopicPolicies.getDefaultInstance(),
                PolicyConversion.fromPulsar(new org.apache.pulsar.common.policies.data.TopicPolicies()));
        assertEquals(OffloadPolicies.getDefaultInstance(),
                converted(TopicPolicies.newBuilder().setOffloadPolicies(OffloadPolicies.getDefaultInstance()).build()).getOffloadPolicies(),
                "Pulsar's defaults were added");
    }

    @Test
    void everyFieldOfPulsarsClassesHasAFieldInTheMessages() {
        assertEquals(names(TopicPolicies.getDescriptor().getFields().stream().map(FieldDescriptor::getJsonName).collect(Collectors.toSet())),
                names(fields(org.apache.pulsar.common.policies.data.TopicPolicies.class, "isGlobal")));
        assertEquals(names(OffloadPolicies.getDescriptor().getFields().stream().map(FieldDescriptor::getJsonName).collect(Collectors.toSet())),
                names(fields(OffloadPoliciesImpl.class)));
    }

    @Test
    void valuesThatPulsarsClassesCannotHoldAreInNoDifference() {
        TopicPolicies document = TopicPolicies.newBuilder().setMaxProducerPerTopic(1).setSchemaCompatibilityStrategyValue(1 << 30).build();
        var copy = PolicyConversion.toPulsar(document, false);
        TopicPolicies before = PolicyConversion.fromPulsar(copy);
        copy.setMaxProducerPerTopic(null);
        copy.setMaxConsumerPerTopic(3);
        assertEquals(Set.of("max_producer_per_topic", "max_consumer_per_topic"),
                Set.copyOf(Masks.difference(before, PolicyConversion.fromPulsar(copy)).getPathsList()));
    }

    private static TopicPolicies converted(TopicPolicies document) {
        return PolicyConversion.fromPulsar(PolicyConversion.toPulsar(document, false));
    }

    private static Set<String> fields(Class<?> type, String... others) {
        return Arrays.stream(type.getDeclaredFields()).filter(field -> !Modifier.isStatic(field.getModifiers()) && !field.isSynthetic())
                .map(Field::getName).filter(name -> !Set.of(others).contains(name)).collect(Collectors.toSet());
    }

    private static Set<String> names(Set<String> names) {
        return new TreeSet<>(names);
    }
}
