import { toBinary, type DescMessage, type MessageShape } from "@bufbuild/protobuf";

import { invalid } from "./errors.js";

/** Encodes a message. Throws an InvalidArgumentError if a field's value can't be encoded, such as a number that is too large. */
export function encoded<D extends DescMessage>(schema: D, message: MessageShape<D>): Buffer {
  try {
    return Buffer.from(toBinary(schema, message));
  } catch (error) {
    throw invalid("", "MALFORMED_VALUE", error instanceof Error ? error.message : String(error));
  }
}

/** Encodes the tag and the length, `size` bytes, of a length-delimited field whose number is below 16. */
export function recordHead(field: number, size: number): Buffer {
  const head = [(field << 3) | 2];
  let rest = size;
  for (; rest > 0x7f; rest = Math.floor(rest / 0x80)) head.push((rest & 0x7f) | 0x80);
  return Buffer.from([...head, rest]);
}
