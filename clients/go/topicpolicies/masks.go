package topicpolicies

import (
	"regexp"
	"sort"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// Mask returns the mask of some paths.
func Mask(paths ...string) *fieldmaskpb.FieldMask { return &fieldmaskpb.FieldMask{Paths: paths} }

var plainSegment = regexp.MustCompile(`^[A-Za-z0-9_]+$`)

// Path builds a mask path from its segments: field names, and map keys, which are quoted with backticks where necessary.
//
//	Path("subscription_policies", "my-sub", "dispatch_rate") // subscription_policies.`my-sub`.dispatch_rate
//
// No segments give "*", the whole document.
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

// PathsBetween returns the paths that differ between two documents, in order: before with these fields of after is after.
//
// Messages that both documents have are compared field by field, maps entry by entry, and lists as a whole, so that the mask names nothing
// that is equal. Fields that are unknown to this package are not compared. If the documents are equal there are no paths; do not send that
// as a mask, because an empty mask means all fields that are set.
func PathsBetween(before, after *pb.TopicPolicies) []string {
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

// below copies the path, so that siblings do not share memory.
func below(at []string, segment string) []string {
	return append(append(make([]string, 0, len(at)+1), at...), segment)
}
