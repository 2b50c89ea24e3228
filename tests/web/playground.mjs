// Opens the playground in Chromium, from its file: node playground.mjs BROWSER PLUMBLINE WEB OUTPUT. How long answers
// take is printed and not tested.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { contrasts, cutOff, unnamed } from "./look.mjs";

const [browserPath, plumbline, web, output] = process.argv.slice(2);
if (!existsSync(join(dirname(plumbline), "share/plumbline/playground.js"))) {
  console.log("skipped: the predictor of the playground was not built; it needs em++");
  process.exit(77);
}
const { chromium } = createRequire(resolve(web, "package.json"))("playwright-core");
mkdirSync(output, { recursive: true });
const html = resolve(output, "playground.html");
execFileSync(plumbline, ["playground", "-o", html]);

const failures = [];
const check = (ok, what) => ok || failures.push(what);
const duration = (seconds) => `${seconds.toFixed(seconds >= 99.995 ? 1 : seconds >= 9.9995 ? 2 : 3)} s`;
// A plan that does not fit has an answer too, and another exit code.
const predicted = (words) => JSON.parse(spawnSync(plumbline, [...words, "--no-interval", "--json", "-"], { encoding: "utf8", maxBuffer: 1 << 28 }).stdout);

/** Measures in the page: from an input until the frame after its answer is painted, without the driver's own waiting. */
function clock() {
  let start = 0;
  addEventListener("input", (event) => (start = event.timeStamp), true);
  const painted = (then) => requestAnimationFrame(() => setTimeout(then));
  const answered = () => painted(() => (globalThis.changeTook = performance.now() - start));
  document.addEventListener("readystatechange", () =>
    new MutationObserver(answered).observe(document.documentElement, { attributeFilter: ["data-answered"] }), { once: true });
}

async function open(browser, fragment, options = {}) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, ...options });
  page.on("console", (message) => check(message.type() !== "error", `console: ${message.text()}`));
  page.on("pageerror", (error) => check(false, error.message));
  page.on("request", (request) => check(/^(file|blob):/.test(request.url()), `requests ${request.url().slice(0, 80)}`));
  await page.addInitScript(clock);
  const start = Date.now();
  await page.goto(`file://${html}${fragment}`);
  await page.waitForSelector("html[data-answered]", { timeout: 60000 });
  console.log(`first answer of ${fragment || "the page"}: ${Date.now() - start} ms`);
  return page;
}

// Numbers stay in one line with their units.
const plain = (text) => text.replaceAll("\u00a0", " ");
const stepOf = async (page) => plain(await page.locator(".headline .figures dd").first().evaluate((element) => element.firstChild.textContent));
const commandOf = async (page) => (await page.locator("footer code").innerText()).split(" ").slice(1);
const answered = (page) => page.evaluate(() => Number(document.documentElement.dataset.answered));

/** Does something that changes the plan, and waits for the answer. */
async function change(page, what, act) {
  const before = await answered(page);
  await page.evaluate(() => (globalThis.changeTook = 0));
  await act();
  await page.waitForFunction((count) => globalThis.changeTook > 0 && Number(document.documentElement.dataset.answered) > count, before, { timeout: 60000, polling: 5 });
  console.log(`${what}: ${Math.round(await page.evaluate(() => globalThis.changeTook))} ms until it is painted; ${await page.locator(".answers > p.soft").innerText()}`);
  const shown = await stepOf(page);
  const { step } = predicted(await commandOf(page));
  check(shown === duration(step.time_s), `${what}: the page shows ${shown}, the command ${duration(step.time_s)}`);
}

async function testPlan(browser, plan) {
  const page = await open(browser, `#plan=${plan}`);
  const { step } = predicted(["simulate", plan, "--fidelity", "closed-form"]);
  check((await stepOf(page)) === duration(step.time_s), `${plan}: the page shows ${await stepOf(page)}, the command ${duration(step.time_s)}`);
  const kept = await stepOf(page);
  await page.getByRole("button", { name: "Keep to compare" }).click();
  await change(page, `${plan}, a slider`, () => page.locator("#key-batch-micro_batch_size ~ input[type=range]").press("ArrowRight"));
  await change(page, `${plan}, SMs`, () => page.locator("#key-overlap-communication_sms ~ input[type=range]").press("ArrowRight"));
  check(plain(await page.locator(".shelf dd").first().innerText()).startsWith(kept), `${plan}: what was kept is no longer ${kept}`);
  check((await page.locator(".headline dd").first().innerText()).includes("against the kept"), `${plan}: nothing is compared with what was kept`);
  await page.getByRole("button", { name: "Drop the kept" }).click();
  check((await page.locator(".shelf dd").count()) === 0, `${plan}: what was kept cannot be dropped`);
  const address = page.url();
  const again = await open(browser, address.slice(address.indexOf("#")));
  check((await stepOf(again)) === (await stepOf(page)), `${plan}: a link gives another step`);
  await again.close();
  await page.waitForFunction(() => !document.querySelector("section.stale"), null, { timeout: 120000 });
  check((await page.locator(".bars.interval, .bar.interval").count()) > 0, `${plan}: no interval follows`);
  await page.close();
}

async function testWrong(browser) {
  const page = await open(browser, "");
  const field = page.locator("#key-parallelism-tensor");
  await field.fill("3");
  await field.press("Enter");
  await page.waitForSelector(".notice.bad");
  check((await page.locator(".notice.bad").innerText()).includes("3"), "a degree that divides nothing is no error");
  await page.getByRole("button", { name: "Undo all changes" }).click();
  await page.waitForSelector(".notice.bad", { state: "detached" });
  await page.close();
}

async function testOwn(browser) {
  const page = await open(browser, "");
  await page.locator("summary", { hasText: "Paste" }).click();
  const config = { model_type: "llama", hidden_size: 2048, intermediate_size: 8192, num_hidden_layers: 16, num_attention_heads: 32, num_key_value_heads: 8, vocab_size: 128256 };
  const before = await stepOf(page);
  const count = await answered(page);
  await page.getByLabel("config.json of your model").fill(JSON.stringify(config));
  await page.waitForFunction((old) => Number(document.documentElement.dataset.answered) > old, count);
  check(parseFloat(await stepOf(page)) < parseFloat(before), "a smaller model of one's own is not faster");
  await page.close();
}

async function testLook(browser) {
  for (const colorScheme of ["light", "dark"])
    for (const width of [390, 820, 1280, 2560]) {
      const page = await open(browser, "#plan=deepseek-v3-2048xh800", { viewport: { width, height: 900 }, colorScheme });
      await page.waitForFunction(() => !document.querySelector("section.stale"), null, { timeout: 120000 });
      const label = `${width} px, ${colorScheme}`;
      for (const finding of await page.evaluate(cutOff)) check(false, `${label}: ${finding}`);
      for (const finding of await page.evaluate(contrasts)) check(false, `${label}: ${finding}`);
      for (const finding of await page.evaluate(unnamed)) check(false, `${label}: ${finding}`);
      const broken = await page.locator(".headline dd").evaluateAll((list) => list.map((one) => one.firstChild).filter((text) => {
        const range = document.createRange();
        range.selectNode(text);
        return range.getClientRects().length > 1;
      }).map((text) => text.textContent));
      check(broken.length === 0, `${label}: '${broken}' breaks into lines`);
      await page.screenshot({ path: resolve(output, `playground-${width}-${colorScheme}.png`), fullPage: true });
      await page.close();
    }
}

const arguments_ = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({ executablePath: browserPath, args: arguments_ });
for (const plan of ["llama-3-8b-64xh800", "deepseek-v3-2048xh800"]) await testPlan(browser, plan);
await testWrong(browser);
await testOwn(browser);
await testLook(browser);
await browser.close();
for (const failure of new Set(failures)) console.log(failure);
process.exit(failures.length > 0 ? 1 : 0);
