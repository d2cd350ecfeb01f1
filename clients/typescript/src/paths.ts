import { create } from "@bufbuild/protobuf";
import { FieldMaskSchema, type FieldMask } from "@bufbuild/protobuf/wkt";

import type { TopicPolicies } from "./generated/topicpolicies/v1/policies_pb.js";

const PLAIN = /^[A-Za-z0-9_]+$/;

/** A field's name in the proto definition (snake case), from its name in an object. */
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

/** A path that `path` has built, for example one that has a map key in it. */
export type WrittenPath = string & { readonly [viaPath]: true };

/** The segments of a path: field names of the proto definition, and map keys. No segments name the whole document. */
export type PathSegments = [] | SegmentsOf<TopicPolicies>;

/**
 * A path of a mask. A path without a map key can be written as a string, which the compiler checks; `path` builds the others. `*` is the
 * whole document.
 */
export type MaskPath = "*" | PathsOf<TopicPolicies> | WrittenPath;

/** Returns the mask of some paths. */
export function mask(...paths: readonly MaskPath[]): FieldMask {
  return create(FieldMaskSchema, { paths: [...paths] });
}

/**
 * Builds a mask path from its segments: field names, and map keys, which are quoted with backticks where necessary.
 *
 * `path("subscription_policies", "my-sub", "dispatch_rate")` is ``subscription_policies.`my-sub`.dispatch_rate``. No segments give `*`, the
 * whole document. Fields have their names of the proto definition, in snake case; the compiler refuses others.
 */
export function path(...segments: PathSegments): WrittenPath {
  return written(segments);
}

/** Builds a mask path from segments that the compiler has not checked. */
export function written(segments: readonly string[]): WrittenPath {
  const text = segments.map((each) => (PLAIN.test(each) ? each : `\`${each.replaceAll("`", "``")}\``)).join(".");
  return (segments.length === 0 ? "*" : text) as WrittenPath;
}
