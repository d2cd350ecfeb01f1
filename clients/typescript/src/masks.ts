import { equals } from "@bufbuild/protobuf";
import { reflect, scalarEquals, type ReflectList, type ReflectMap, type ReflectMessage } from "@bufbuild/protobuf/reflect";
import type { DescField, ScalarType } from "@bufbuild/protobuf";

import { TopicPoliciesSchema, type TopicPolicies } from "./generated/topicpolicies/v1/policies_pb.js";
import { written, type WrittenPath } from "./paths.js";

/**
 * Returns the paths that differ between two documents: `before` with these fields of `after` is `after`.
 *
 * Messages that both documents have are compared field by field, maps entry by entry, and lists as a whole, so that the mask names nothing
 * that is equal. Fields that are unknown to this package are not compared. If the documents are equal there are no paths; do not send that
 * as a mask, because an empty mask means all fields that are set.
 */
export function pathsBetween(before: TopicPolicies, after: TopicPolicies): WrittenPath[] {
  const found = differences(reflect(TopicPoliciesSchema, before), reflect(TopicPoliciesSchema, after), []);
  return [...found].map(written);
}

function* differences(before: ReflectMessage, after: ReflectMessage, at: readonly string[]): Generator<string[]> {
  for (const field of before.fields) {
    const below = [...at, field.name];
    const ours = before.isSet(field);
    const theirs = after.isSet(field);
    if (!ours && !theirs) continue;
    if (field.fieldKind === "map") yield* entryDifferences(field, before.get(field), after.get(field), below);
    else if (ours !== theirs) yield below;
    else if (field.fieldKind === "message") yield* differences(before.get(field), after.get(field), below);
    else if (field.fieldKind === "list") {
      if (!listsEqual(field, before.get(field), after.get(field))) yield below;
    } else if (!singlesEqual(field.scalar, before.get(field), after.get(field))) yield below;
  }
}

function* entryDifferences(
  field: DescField & { fieldKind: "map" }, before: ReflectMap, after: ReflectMap, at: string[],
): Generator<string[]> {
  for (const key of new Set([...before.keys(), ...after.keys()])) {
    const below = [...at, String(key)];
    if (before.has(key) !== after.has(key)) yield below;
    else if (field.mapKind === "message") yield* differences(before.get(key) as ReflectMessage, after.get(key) as ReflectMessage, below);
    else if (!singlesEqual(field.scalar, before.get(key), after.get(key))) yield below;
  }
}

function listsEqual(field: DescField & { fieldKind: "list" }, before: ReflectList, after: ReflectList): boolean {
  if (before.size !== after.size) return false;
  const theirs = [...after];
  return [...before].every((each, index) => {
    if (field.listKind !== "message") return singlesEqual(field.scalar, each, theirs[index]);
    return equals(field.message, (each as ReflectMessage).message, (theirs[index] as ReflectMessage).message);
  });
}

/** Compares scalars, and enums, whose scalar type is undefined. */
function singlesEqual(type: ScalarType | undefined, a: unknown, b: unknown): boolean {
  if (type === undefined) return a === b;
  return scalarEquals(type, a as Parameters<typeof scalarEquals>[1], b as Parameters<typeof scalarEquals>[2]);
}
