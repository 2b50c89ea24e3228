// Opens each kind of page in Chromium, from its file: node pages.mjs BROWSER PLUMBLINE WEB OUTPUT [FILTER].
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { kinds } from "./kinds.mjs";
import { contrasts, cutOff, unnamed } from "./look.mjs";

const [browserPath, plumbline, web, output, filter = ""] = process.argv.slice(2);
const { chromium } = createRequire(resolve(web, "package.json"))("playwright-core");
mkdirSync(output, { recursive: true });

const widths = [390, 820, 1280, 2560];
let findings = 0;
/** Prints a finding at once: a run that is cut short has said what it saw. */
const check = (ok, what) => {
  if (ok) return;
  ++findings;
  console.error(what);
};
const environment = (epoch) => ({ ...process.env, SOURCE_DATE_EPOCH: String(epoch) });

/** Runs a verb with its page and its JSON in files; returns their paths. */
function run(kind, epoch = 1e9) {
  const base = resolve(output, kind.name.replace(/ /g, "-"));
  const [html, json] = [`${base}.html`, `${base}.json`];
  const options = { cwd: output, env: environment(epoch), encoding: "utf8" };
  if (kind.before) spawnSync(plumbline, kind.before, options);
  const done = spawnSync(plumbline, [...kind.command.split(" "), "--html", html, "--json", json], options);
  check(done.status === (kind.exit ?? 0), `${kind.name}: exit code ${done.status}: ${done.stderr}`);
  return { html, json };
}

/** Opens a page and notes what a page must not do: errors, requests, shifts of its layout. */
async function open(browser, file, label, { width = 1280, colorScheme = "light" } = {}) {
  const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
  page.on("console", (message) => check(message.type() !== "error", `${label}: console: ${message.text()}`));
  page.on("pageerror", (error) => check(false, `${label}: ${error.message}`));
  page.on("request", (request) => check(request.url() === `file://${file}`, `${label}: requests ${request.url()}`));
  await page.addInitScript(() => {
    globalThis.shift = 0;
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) if (!entry.hadRecentInput) globalThis.shift += entry.value;
    }).observe({ type: "layout-shift", buffered: true });
  });
  await page.goto(`file://${file}`);
  await page.waitForSelector("footer");
  return page;
}

async function testLook(browser, kind, html) {
  for (const colorScheme of ["light", "dark"]) {
    for (const width of widths) {
      const label = `${kind.name}, ${width} px, ${colorScheme}`;
      const page = await open(browser, html, label, { width, colorScheme });
      await page.waitForTimeout(100);
      for (const finding of await page.evaluate(cutOff)) check(false, `${label}: ${finding}`);
      if (width === 1280) for (const finding of await page.evaluate(contrasts)) check(false, `${label}: ${finding}`);
      const shift = await page.evaluate(() => globalThis.shift);
      check(shift < 0.02, `${label}: the layout shifts by ${shift}`);
      await page.screenshot({ path: html.replace(/\.html$/, `-${width}-${colorScheme}.png`), fullPage: true });
      if (width === 1280 && colorScheme === "light") {
        await page.setViewportSize({ width: widths[0], height: 900 });
        await page.waitForTimeout(300);
        for (const finding of await page.evaluate(cutOff)) check(false, `${label}, made ${widths[0]} px wide: ${finding}`);
      }
      await page.close();
    }
  }
}

async function testContent(browser, kind, html, json) {
  const result = JSON.parse(readFileSync(json, "utf8"));
  const page = await open(browser, html, kind.name);
  const embedded = await page.evaluate(() => document.querySelector('script[data-block="result"]').textContent);
  check(JSON.stringify(JSON.parse(embedded)) === JSON.stringify(result), `${kind.name}: the page has another result than --json`);
  const text = (await page.locator("article").first().innerText()).replace(/\s+/g, " ");
  for (const wanted of kind.shows(result)) check(text.includes(wanted), `${kind.name}: '${wanted}' is not on the page`);
  for (const figure of await page.locator(".answer b, .figures dd").allInnerTexts()) check(!/^[$\d.,]+ \S+$/m.test(figure), `${kind.name}: '${figure}' may break before its unit`);
  for (const finding of await page.evaluate(unnamed)) check(false, `${kind.name}: ${finding}`);
  await kind.also?.(page, result, check);
  await page.close();
}

async function testKeyboard(browser, kind, html) {
  const page = await open(browser, html, kind.name);
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await background();
  await page.keyboard.press("t");
  await page.keyboard.press("t");
  check((await background()) !== light, `${kind.name}: the key t does not make it dark`);
  await page.keyboard.press("?");
  check(await page.locator("dialog[open]").isVisible(), `${kind.name}: the key ? shows no help`);
  await page.keyboard.press("Escape");
  check((await page.locator("dialog[open]").count()) === 0, `${kind.name}: Escape does not close the help`);
  const closed = page.locator("details:not([open]) > summary:visible"); // a part that opens may have parts of its own
  for (let tries = 200; tries > 0 && (await closed.count()) > 0; --tries) {
    await closed.first().focus();
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => [...document.querySelectorAll("details[open]")].every((part) => part.childElementCount > 1));
  }
  check((await closed.count()) === 0, `${kind.name}: a part cannot be opened by keyboard`);
  const sorter = page.locator("th button:visible").first();
  if (await sorter.count()) {
    await sorter.focus();
    await page.keyboard.press("Enter");
    check((await page.locator("th[aria-sort]").count()) > 0, `${kind.name}: a table does not sort by keyboard`);
  }
  for (const finding of await page.evaluate(cutOff)) check(false, `${kind.name}, opened: ${finding}`);
  await page.close();
}

function testBytes() {
  const kind = kinds[0];
  const first = readFileSync(run(kind, 1e9).html, "utf8").split("\n");
  const second = readFileSync(run(kind, 2e9).html, "utf8").split("\n");
  const differing = first.filter((line, i) => line !== second[i]);
  check(first.length === second.length && differing.length === 1 && differing[0].includes('"date"'), `equal inputs give other bytes: ${differing.slice(0, 3)}`);
  check(first.join("\n").length < 1e6 + readFileSync(run(kind).json).length, "a page is larger than 1 MB and its data");
}

/** Names that try to become markup, end the data, or turn the text around stay names. */
async function testHostileNames(browser) {
  const hostile = `</script><img src=x onerror="globalThis.broken=1"> "'&\u202Eevil\u2066`;
  const stored = resolve(output, "hostile.json");
  const html = resolve(output, "hostile.html");
  const rename = (value) => {
    if (typeof value === "string") return hostile;
    if (Array.isArray(value)) return value.map(rename);
    return value && typeof value === "object" ? Object.fromEntries(Object.entries(value).map(([key, one]) => [key, rename(one)])) : value;
  };
  for (const kind of kinds.filter((one) => one.name.includes(filter))) {
    const result = JSON.parse(readFileSync(run(kind).json, "utf8"));
    const { output: form } = result.plumbline;
    writeFileSync(stored, JSON.stringify({ ...rename(result), plumbline: { ...result.plumbline, output: form } }));
    execFileSync(plumbline, ["report", stored, "-o", html], { env: environment(1e9) });
    const page = await open(browser, html, `${kind.name}, hostile names`);
    check((await page.locator("img").count()) === 0, `${kind.name}: a name became an element`);
    check(!(await page.evaluate(() => globalThis.broken)), `${kind.name}: a name ran as a script`);
    check((await page.locator("body").innerText()).includes("</script>"), `${kind.name}: the hostile name is not shown`);
    await page.close();
  }
}

async function testSeveral(browser) {
  const results = kinds.slice(0, 3).map((kind) => run(kind).json);
  const html = resolve(output, "several.html");
  execFileSync(plumbline, ["report", ...results, "-o", html], { env: environment(1e9) });
  const page = await open(browser, html, "several results");
  check((await page.locator("article").count()) === results.length, "a result is missing on the page of several");
  check((await page.locator("nav a").count()) === results.length, "the page of several results has no index");
  await page.close();
}

const browser = await chromium.launch({
  executablePath: browserPath,
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
for (const kind of kinds.filter((one) => one.name.includes(filter))) {
  const { html, json } = run(kind);
  await testContent(browser, kind, html, json);
  await testLook(browser, kind, html);
  await testKeyboard(browser, kind, html);
}
testBytes();
await testHostileNames(browser);
await testSeveral(browser);
await browser.close();
console.log(findings ? `${findings} findings` : "all pages are as they should be");
process.exit(findings ? 1 : 0);
