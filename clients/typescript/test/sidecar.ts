/** Runs the service in a separate process. */
import { spawn, type ChildProcess } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";

import { Client } from "../src/index.js";

const READY_MS = 60_000;

/** The directory that has the definitions and the server. */
const ROOT = repository();

/** Reads a file of `clients`. */
export function read(...path: string[]): string {
  return readFileSync(join(ROOT, "clients", ...path), "utf8");
}

/** Reads a file of the shared vectors. */
export function readVectors(name: string): unknown {
  return JSON.parse(read("vectors", name));
}

/** `topicpolicies serve` with an embedded log, on a loopback port that stays the same across restarts. */
export class Sidecar {
  #process: ChildProcess | undefined;
  #output = "";

  private constructor(
    readonly address: string,
    private readonly directory: string,
  ) {}

  /** Starts a server, and returns when it is ready. */
  static async start(): Promise<Sidecar> {
    const sidecar = new Sidecar(`127.0.0.1:${await freePort()}`, await mkdtemp(join(tmpdir(), "topicpolicies-typescript-")));
    await sidecar.start();
    return sidecar;
  }

  /** Starts the server again, with the same log. */
  async start(): Promise<void> {
    const python = process.env["TOPICPOLICIES_PYTHON"] ?? join(ROOT, ".venv", "bin", "python");
    if (!existsSync(python)) {
      throw new Error(`The tests run against the real service, and ${python} is missing: run python3 dev.py check once, or name an interpreter that has the server in TOPICPOLICIES_PYTHON.`);
    }
    const data = join(this.directory, "policies.db");
    const paths = [join(ROOT, "server"), join(ROOT, "clients", "python")].join(delimiter);
    const started = spawn(python, ["-m", "topicpolicies_server", "serve", "--listen", this.address, "--data", data], {
      env: { ...process.env, PYTHONPATH: paths }, stdio: ["ignore", "pipe", "pipe"],
    });
    this.#process = started;
    const keep = (text: Buffer): void => {
      this.#output = (this.#output + text.toString()).slice(-4000);
    };
    started.stdout.on("data", keep);
    started.stderr.on("data", keep);
    const client = new Client(this.address, { timeoutMs: 1000 });
    try {
      const deadline = performance.now() + READY_MS;
      while (!(await serves(client))) {
        if (performance.now() > deadline || started.exitCode !== null) throw new Error(`The server does not serve; it printed:\n${this.#output}`);
        await sleep(50);
      }
    } catch (error) {
      await this.kill();
      throw error;
    } finally {
      client.close();
    }
  }

  /** Ends the server abruptly, like a failure of the machine. */
  async kill(): Promise<void> {
    const process = this.#process;
    this.#process = undefined;
    if (process?.exitCode !== null) return;
    const ended = once(process, "exit");
    process.kill("SIGKILL");
    await ended;
  }

  /** Ends the server, and removes its log. */
  async remove(): Promise<void> {
    await this.kill();
    await rm(this.directory, { recursive: true, force: true });
  }
}

function serves(client: Client): Promise<boolean> {
  const answered = client.getPolicy({ topic: "persistent://ready/yet/x" });
  return answered.then(() => true, () => false);
}

/** Returns a port at which nothing listens. It is below the range of outgoing connections, so that none of them takes it meanwhile. */
async function freePort(): Promise<number> {
  for (let attempt = 1; attempt <= 100; attempt += 1) {
    const port = randomInt(20_000, 32_000);
    const probe = createServer().listen(port, "127.0.0.1");
    const listens = await once(probe, "listening").then(() => true, () => false);
    if (!listens) continue;
    probe.close();
    await once(probe, "close");
    return port;
  }
  throw new Error("There is no free port.");
}

function repository(): string {
  for (let at = dirname(fileURLToPath(import.meta.url)); at !== dirname(at); at = dirname(at)) {
    if (existsSync(join(at, "proto", "topicpolicies"))) return at;
  }
  throw new Error("The tests of the TypeScript client need the whole repository: the server is in it.");
}

/** Waits until a condition holds. */
export async function until(what: string, holds: () => boolean): Promise<void> {
  const deadline = performance.now() + 100_000;
  while (!holds()) {
    if (performance.now() > deadline) throw new Error(`In 100 seconds not: ${what}`);
    await sleep(5);
  }
}
