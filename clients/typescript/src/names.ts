import { Scope } from "./generated/topicpolicies/v1/policies_pb.js";

const PARTITION = "-partition-";
const GREATEST_PARTITION = 2 ** 31 - 1;
const MOST_DIGITS = 10;
const DIGIT = /^\p{Nd}$/u;

/**
 * Returns the full name of a topic: with its domain, and for a partition the name of its base topic. The service decides whether the name
 * is valid.
 */
export function fullName(topic: string): string {
  const full = topic.includes("://") ? topic : `persistent://${topic}`;
  const suffix = full.lastIndexOf(PARTITION);
  return suffix >= 0 && isPartition(full.slice(suffix + PARTITION.length)) ? full.slice(0, suffix) : full;
}

/** Whether Pulsar reads a text as a partition number: decimal digits of any script, at most 2^31 - 1, without a leading zero. */
function isPartition(text: string): boolean {
  if (text.length === 0 || text.length > MOST_DIGITS) return false;
  let number = 0;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (!isDigit(unit) || (at === 1 && number === 0)) return false;
    number = 10 * number + valueOf(unit);
  }
  return number <= GREATEST_PARTITION;
}

/** Whether a UTF-16 code unit is a decimal digit. Pulsar does not accept digits outside the Basic Multilingual Plane. */
function isDigit(unit: number): boolean {
  return DIGIT.test(String.fromCharCode(unit));
}

/** The value of a decimal digit: in Unicode, the digits of a script are consecutive, beginning with its zero. */
function valueOf(digit: number): number {
  let value = 0;
  while (isDigit(digit - value - 1)) value++;
  return value % 10;
}

/** Returns the `tenant/namespace` of a topic's name, with or without its domain. The service decides whether the name is valid. */
export function namespaceOf(topic: string): string {
  return topic.replace(/^[^/]*:\/\//, "").split("/").slice(0, 2).join("/");
}

/** Returns a key for a policy key, the topic's full name and the scope. */
export function keyOf(topic: string, scope: Scope): string {
  return `${scope === Scope.UNSPECIFIED ? Scope.LOCAL : scope} ${fullName(topic)}`;
}
