import { Scope } from "./generated/topicpolicies/v1/policies_pb.js";

const PARTITION = "-partition-";
const GREATEST_PARTITION = 2 ** 31 - 1;
const MOST_DIGITS = 10;
const DIGIT = /^\p{Nd}$/u;

/** The full name of a topic: with its domain, and of a partition that of its base topic. The service judges whether it is valid. */
export function fullName(topic: string): string {
  const full = topic.includes("://") ? topic : `persistent://${topic}`;
  const suffix = full.lastIndexOf(PARTITION);
  return suffix >= 0 && isPartition(full.slice(suffix + PARTITION.length)) ? full.slice(0, suffix) : full;
}

/** Whether Pulsar takes a text for a partition's number: decimal digits of any script, of 32 bits, without a leading zero. */
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

/** Whether a UTF-16 unit is a decimal digit; one of two units is none for Pulsar. */
function isDigit(unit: number): boolean {
  return DIGIT.test(String.fromCharCode(unit));
}

/** The value of a decimal digit: Unicode has those of a script in one run from its zero. */
function valueOf(digit: number): number {
  let value = 0;
  while (isDigit(digit - value - 1)) value++;
  return value % 10;
}

/** `tenant/namespace` of a topic's name, with or without its domain; the service judges whether it is valid. */
export function namespaceOf(topic: string): string {
  return topic.replace(/^[^/]*:\/\//, "").split("/").slice(0, 2).join("/");
}

/** By what documents are told apart: a topic's full name and a scope. */
export function keyOf(topic: string, scope: Scope): string {
  return `${scope === Scope.UNSPECIFIED ? Scope.LOCAL : scope} ${fullName(topic)}`;
}
