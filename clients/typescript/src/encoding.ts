import { toBinary, type DescMessage, type MessageShape } from "@bufbuild/protobuf";

import { invalid } from "./errors.js";

/** A message's bytes. Values that it can't have, such as a number that is too large, are the caller's fault. */
export function encoded<D extends DescMessage>(schema: D, message: MessageShape<D>): Buffer {
  try {
    return Buffer.from(toBinary(schema, message));
  } catch (error) {
    throw invalid("", "MALFORMED_VALUE", error instanceof Error ? error.message : String(error));
  }
}

/** The head of a record of a field whose number is below 16 and whose values are messages or texts, of so many bytes. */
export function recordHead(field: number, size: number): Buffer {
  const head = [(field << 3) | 2];
  let rest = size;
  for (; rest > 0x7f; rest = Math.floor(rest / 0x80)) head.push((rest & 0x7f) | 0x80);
  return Buffer.from([...head, rest]);
}
