package topicpolicies

import (
	"regexp"
	"sort"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

var plainSegment = regexp.MustCompile(`^[A-Za-z0-9_]+$`)

// Path writes the path of a mask from its segments: fields, and keys of maps, which get backticks where they need them.
//
//	Path("subscription_policies", "my-sub", "dispatch_rate") // subscription_policies.`my-sub`.dispatch_rate
//
// No segments name the whole document, "*".
func Path(segments ...string) string {
	if len(segments) == 0 {
		return "*"
	}
	written := make([]string, len(segments))
	for i, segment := range segments {
		if !plainSegment.MatchString(segment) {
			segment = "`" + strings.ReplaceAll(segment, "`", "``") + "`"
		}
		written[i] = segment
	}
	return strings.Join(written, ".")
}

// PathsBetween names what differs between two documents, in order: before with these fields of after is after.
//
// Objects that are in both are compared leaf by leaf, maps entry by entry, lists as a whole, so that a mask names nothing that is equal.
// Fields that this package's definition does not know are not compared. Without a difference there are no paths; such a mask must not be
// sent, because an empty one means something else (what is set).
func PathsBetween(before, after *TopicPolicies) []string {
	var paths []string
	differences(before.ProtoReflect(), after.ProtoReflect(), nil, func(segments []string) {
		paths = append(paths, Path(segments...))
	})
	sort.Strings(paths)
	return paths
}

func differences(before, after protoreflect.Message, at []string, found func([]string)) {
	fields := before.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if !before.Has(field) && !after.Has(field) {
			continue
		}
		path := below(at, string(field.Name()))
		ours, theirs := before.Get(field), after.Get(field)
		switch {
		case field.IsMap():
			entryDifferences(field, ours.Map(), theirs.Map(), path, found)
		case !field.IsList() && before.Has(field) && after.Has(field) && field.Message() != nil:
			differences(ours.Message(), theirs.Message(), path, found)
		case before.Has(field) != after.Has(field) || !ours.Equal(theirs):
			found(path)
		}
	}
}

func entryDifferences(field protoreflect.FieldDescriptor, before, after protoreflect.Map, at []string, found func([]string)) {
	before.Range(func(key protoreflect.MapKey, ours protoreflect.Value) bool {
		path := below(at, key.String())
		switch {
		case !after.Has(key):
			found(path)
		case field.MapValue().Message() != nil:
			differences(ours.Message(), after.Get(key).Message(), path, found)
		case !ours.Equal(after.Get(key)):
			found(path)
		}
		return true
	})
	after.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		if !before.Has(key) {
			found(below(at, key.String()))
		}
		return true
	})
}

// below copies, so that siblings do not share the memory of their paths.
func below(at []string, segment string) []string {
	return append(append(make([]string, 0, len(at)+1), at...), segment)
}

func clone(policies *TopicPolicies) *TopicPolicies {
	if policies == nil {
		return &TopicPolicies{}
	}
	return proto.Clone(policies).(*TopicPolicies)
}
