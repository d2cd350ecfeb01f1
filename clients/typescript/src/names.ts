import { Scope } from "./generated/topicpolicies/v1/policies_pb.js";

/** A number that Pulsar takes for that of a partition has no leading zeros, and fits 32 bits. */
const PARTITION = /-partition-(0|[1-9][0-9]{0,9})$/;
const GREATEST_PARTITION = 2 ** 31 - 1;

/** The full name of a topic: with its domain, and of a partition that of its base topic. The service judges whether it is valid. */
export function fullName(topic: string): string {
  const full = topic.includes("://") ? topic : `persistent://${topic}`;
  const number = PARTITION.exec(full)?.[1];
  return number === undefined || Number(number) > GREATEST_PARTITION ? full : full.slice(0, -"-partition-".length - number.length);
}

/** `tenant/namespace` of a topic's name, with or without its domain; the service judges whether it is valid. */
export function namespaceOf(topic: string): string {
  return topic.replace(/^[^/]*:\/\//, "").split("/").slice(0, 2).join("/");
}

/** By what documents are told apart: a topic's full name and a scope. */
export function keyOf(topic: string, scope: Scope): string {
  return `${scope === Scope.UNSPECIFIED ? Scope.LOCAL : scope} ${fullName(topic)}`;
}
