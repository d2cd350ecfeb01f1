import type { TopicPolicies } from "./generated/topicpolicies/v1/policies_pb.js";

const PLAIN = /^[A-Za-z0-9_]+$/;

/** A field's name in the definition, from its name in an object. */
type Snake<Name extends string, Done extends string = ""> = Name extends `${infer First}${infer Rest}`
  ? Snake<Rest, `${Done}${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}`>
  : Done;

type FieldOf<T> = Exclude<keyof T & string, `$${string}`>;
type Value<T, Field extends keyof T> = NonNullable<T[Field]>;
interface Message { readonly $typeName: string }

type PathsOf<T> = { [Field in FieldOf<T>]: PathsAt<Snake<Field>, Value<T, Field>> }[FieldOf<T>];
type PathsAt<At extends string, V> = V extends Message ? At | `${At}.${PathsOf<V>}` : At;

type SegmentsOf<T> = { [Field in FieldOf<T>]: [Snake<Field>, ...SegmentsIn<Value<T, Field>>] }[FieldOf<T>];
type SegmentsIn<V> = V extends readonly unknown[] ? []
  : V extends Message ? [] | SegmentsOf<V>
  : V extends Record<string, infer Entry> ? [] | [key: string, ...SegmentsIn<Entry>]
  : [];

declare const viaPath: unique symbol;

/** A path that `path` has written, such as one with a map's key in it. */
export type WrittenPath = string & { readonly [viaPath]: true };

/** The segments of a path: fields by their names in the definition, and keys of maps. None at all name the whole document. */
export type PathSegments = [] | SegmentsOf<TopicPolicies>;

/**
 * A path of a mask. What has no map's key in it can be written as it is, and the compiler knows all of that; `path` writes the rest. `*` is
 * the whole document.
 */
export type MaskPath = "*" | PathsOf<TopicPolicies> | WrittenPath;

/** The path of a list. */
export type ListPath = {
  [Field in FieldOf<TopicPolicies>]: Value<TopicPolicies, Field> extends readonly unknown[] ? Snake<Field> : never;
}[FieldOf<TopicPolicies>];

/**
 * The path of a mask from its segments: fields, and keys of maps, which get backticks where they need them.
 *
 * `path("subscription_policies", "my-sub", "dispatch_rate")` is ``subscription_policies.`my-sub`.dispatch_rate``. No segments name the
 * whole document, `*`. Fields have the names of the definition, in snake case; the compiler refuses others.
 */
export function path(...segments: PathSegments): WrittenPath {
  return written(segments);
}

/** The same, of segments that no compiler has seen. */
export function written(segments: readonly string[]): WrittenPath {
  const text = segments.map((each) => (PLAIN.test(each) ? each : `\`${each.replaceAll("`", "``")}\``)).join(".");
  return (segments.length === 0 ? "*" : text) as WrittenPath;
}
