package topicpolicies.broker;

import com.google.protobuf.Descriptors.EnumValueDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor.JavaType;
import com.google.protobuf.Message;
import com.google.protobuf.MessageOrBuilder;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.reflect.Field;
import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Copies numbers, texts, flags and enums between a message and an object of Pulsar's classes. The JSON name of the message's field is the
 * name of the object's, and enums have the same names but for case and prefix. UNSPECIFIED, Pulsar's UNDEFINED, and values that only a newer
 * broker knows are null in Pulsar's objects.
 */
final class Leaves {
    private static final Map<FieldDescriptor, VarHandle> FIELDS = new ConcurrentHashMap<>();

    private Leaves() {
    }

    static void toPulsar(MessageOrBuilder from, Object to) {
        for (FieldDescriptor field : from.getDescriptorForType().getFields()) {
            if (isLeaf(field)) {
                VarHandle target = FIELDS.computeIfAbsent(field, one -> named(to, one));
                Object value = !from.hasField(field) ? null : from.getField(field);
                boolean isEnum = value instanceof EnumValueDescriptor;
                target.set(to, isEnum ? ofPulsar(((EnumValueDescriptor) value).getName(), unspecified(field), target.varType()) : value);
            }
        }
    }

    static void fromPulsar(Object from, Message.Builder to) {
        for (FieldDescriptor field : to.getDescriptorForType().getFields()) {
            if (isLeaf(field)) {
                Object value = FIELDS.computeIfAbsent(field, one -> named(from, one)).get(from);
                Object converted = value instanceof Enum<?> one ? field.getEnumType().findValueByName(ofMessage(one, unspecified(field))) : value;
                if (converted != null) {
                    to.setField(field, converted);
                }
            }
        }
    }

    /** The value of an enum of Pulsar's with the name of a message's; null if there is none. */
    static <P> P toPulsar(Enum<?> from, Class<P> type) {
        return ofPulsar(from.name(), from.getDeclaringClass().getEnumConstants()[0].name(), type);
    }

    /** The value of a message's enum with the name of one of Pulsar's. */
    static <M extends Enum<M>> M fromPulsar(Enum<?> from, Class<M> type) {
        return Enum.valueOf(type, ofMessage(from, type.getEnumConstants()[0].name()));
    }

    private static <P> P ofPulsar(String name, String unspecified, Class<P> type) {
        return Arrays.stream(type.getEnumConstants()).filter(one -> ofMessage((Enum<?>) one, unspecified).equals(name)).findFirst().orElse(null);
    }

    private static String ofMessage(Enum<?> from, String unspecified) {
        return unspecified.replace("UNSPECIFIED", from.name().toUpperCase(Locale.ROOT));
    }

    private static String unspecified(FieldDescriptor field) {
        return field.getEnumType().getValues().get(0).getName();
    }

    private static boolean isLeaf(FieldDescriptor field) {
        return !field.isRepeated() && field.getJavaType() != JavaType.MESSAGE;
    }

    private static VarHandle named(Object object, FieldDescriptor field) {
        try {
            Field found = object.getClass().getDeclaredField(field.getJsonName());
            return MethodHandles.privateLookupIn(object.getClass(), MethodHandles.lookup()).unreflectVarHandle(found);
        } catch (ReflectiveOperationException missing) {
            throw new IllegalStateException("This version of Pulsar has no field " + field.getJsonName(), missing);
        }
    }
}
