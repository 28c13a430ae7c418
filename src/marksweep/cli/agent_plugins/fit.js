// Asks `marksweep hook fit`, a process that lives as long as the agent: one request a line, one answer a line.
// On any error the answer is null, and the agent sends the unchanged history.
import { execFile, spawn } from "node:child_process";
import { createInterface } from "node:readline";

export const COMMAND = ["marksweep"];
const LIMIT = "100k";
const MILLISECONDS = 20_000;

let child;
const waiting = [];

function start() {
  const started = spawn(COMMAND[0], [...COMMAND.slice(1), "hook", "fit", "--limit", LIMIT], {
    stdio: ["pipe", "pipe", "ignore"],
  });
  const end = () => {
    if (child === started) child = undefined;
    for (const done of waiting.splice(0)) done(null);
  };
  started.on("error", end);
  started.on("exit", end);
  started.stdin.on("error", end);
  createInterface({ input: started.stdout }).on("line", (line) => waiting.shift()?.(JSON.parse(line).kept));
  for (const each of [started, started.stdin, started.stdout]) each.unref?.();
  child = started;
}

// Return what to send of a request's history: [{ at: index or null, message: its replacement, or null }]; null: all of it.
export function fit(key, request, dialect) {
  return new Promise((done) => {
    if (!child) start();
    const timer = setTimeout(() => done(null), MILLISECONDS);
    waiting.push((kept) => {
      clearTimeout(timer);
      done(kept);
    });
    child.stdin.write(`${JSON.stringify({ key, request, dialect })}\n`);
  });
}

export function recall(what) {
  return new Promise((done) => {
    execFile(COMMAND[0], [...COMMAND.slice(1), "swept", what], (error, out, said) => done(error ? said : out));
  });
}
