// The predictor for pages gives the figures of the command: node figures.mjs PLUMBLINE DATA, where DATA is the folder
// of shipped data. Every shipped example is compared in closed form, number by number, to a relative 1e-9.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join } from "node:path";

const [command, data] = process.argv.slice(2);
const engine = join(data, "playground.js");
const skipped = 77;
const tolerance = 1e-9;
if (!existsSync(engine)) {
  console.log(`skipped: ${engine} was not built; it needs em++`);
  process.exit(skipped);
}

function printed(words) {
  try {
    return execFileSync(command, words, { encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "ignore"] });
  } catch (failed) {
    if (failed.status === 2 && failed.stdout) return failed.stdout; // does not fit, and is predicted all the same
    throw failed;
  }
}

let numbers = 0;
/** Returns the paths at which two documents differ. */
function differences(a, b, path = "") {
  if (typeof a === "number" && typeof b === "number") {
    ++numbers;
    const same = Math.abs(a - b) <= tolerance * Math.max(Math.abs(a), Math.abs(b));
    return same ? [] : [`${path}: ${a} in the page, ${b} by the command`];
  }
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object")
    return a === b ? [] : [`${path}: ${JSON.stringify(a)} in the page, ${JSON.stringify(b)} by the command`];
  const keys = [...new Set([...Object.keys(a), ...Object.keys(b)])];
  return keys.flatMap((key) => differences(a[key] ?? null, b[key] ?? null, `${path}/${key}`));
}

const module = await createRequire(import.meta.url)(engine)({ wasmBinary: readFileSync(join(data, "playground.wasm")) });
module.FS.mkdir("/input");
const predictor = new module.Engine();
const plans = readdirSync(join(data, "examples")).filter((file) => file.endsWith(".toml")).map((file) => basename(file, ".toml"));
let wrong = 0;

function compare(title, changes, draws, interval) {
  const text = readFileSync(join(data, "examples", `${title}.toml`), "utf8");
  const page = JSON.parse(predictor.simulate(text, changes, draws));
  const set = changes.flatMap((change) => ["--set", change]);
  const words = ["simulate", title, "--fidelity", "closed-form", "--json", "-", ...set, ...interval];
  const found = page.error ? [JSON.stringify(page.error)] : differences(page, JSON.parse(printed(words)));
  wrong += found.length > 0 ? 1 : 0;
  console.log(`${found.length > 0 ? "differs" : "equal"}: ${[title, ...changes].join(" ")}${draws > 0 ? `, ${draws} draws` : ""}`);
  for (const one of found.slice(0, 10)) console.log(`  ${one}`);
}

// The page has no engine that generates.
const generates = (plan) => readFileSync(join(data, "examples", `${plan}.toml`), "utf8").includes("\n[rollout]");
for (const plan of plans.filter((plan) => !generates(plan))) compare(plan, [], 0, ["--no-interval"]);
// The second is predicted by what the first has computed.
compare("deepseek-v3-2048xh800", ["batch.micro_batch_size=2", "overlap.communication_sms=24"], 0, ["--no-interval"]);
compare("deepseek-v3-2048xh800", ["overlap.communication_sms=32"], 0, ["--no-interval"]);
compare("llama-3-8b-64xh800", [], 16, ["--draws", "16"]);
console.log(`${numbers} numbers compared`);
if (plans.length === 0 || numbers === 0) wrong = 1;
process.exit(wrong > 0 ? 1 : 0);
