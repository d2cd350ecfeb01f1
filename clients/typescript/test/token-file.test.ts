import assert from "node:assert/strict";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { InvalidArgumentError, tokenFile } from "../src/index.js";

const path = join(mkdtempSync(join(tmpdir(), "token-")), "token");

function put(content: string | Buffer): void {
  writeFileSync(`${path}.new`, content);
  renameSync(`${path}.new`, path);
}

test("a token file is read again when it changes, and the last valid token is kept", () => {
  put("first\n");
  const token = tokenFile(path, 0);
  assert.equal(token(), "first");
  put(" second \n");
  assert.equal(token(), "second");
  for (const wrong of ["", "\n", "two words", "tökén", "a\nb", "a\0b", Buffer.from([0xff, 0xfe])]) {
    put(wrong);
    assert.equal(token(), "second");
    assert.throws(() => tokenFile(path), InvalidArgumentError);
  }
  rmSync(path);
  assert.equal(token(), "second");
  assert.throws(() => tokenFile(path), /ENOENT/);
  put("third");
  assert.equal(token(), "third");
});

test("a token file is not checked for each call", () => {
  put("first");
  const token = tokenFile(path, 3_600_000);
  put("second");
  assert.equal(token(), "first");
});
