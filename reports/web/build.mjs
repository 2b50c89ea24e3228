// Bundles src/ into the templates that the command fills: node build.mjs [FOLDER].
import { build } from "esbuild";
import { readFile, rename, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const folder = resolve(process.argv[2] ?? join(here, "../html"));

// Lines are short so that a change of the template can be reviewed and merged.
const bundle = async (entry) => {
  const result = await build({
    entryPoints: [join(here, "src", entry)],
    bundle: true,
    minify: true,
    lineLimit: 160,
    charset: "ascii",
    target: ["chrome100", "firefox100", "safari15"],
    format: "iife",
    legalComments: "none",
    define: { "process.env.NODE_ENV": '"production"' },
    write: false,
  });
  return result.outputFiles[0].text;
};

// Charts are drawn by ECharts and ZRender, whose licences ask for their notices in what contains them.
const packageFile = (name) => readFile(join(here, "node_modules", name), "utf8");
const notices = async () =>
  [
    "The charts are drawn by Apache ECharts, under the Apache License 2.0 (https://www.apache.org/licenses/LICENSE-2.0):",
    await packageFile("echarts/NOTICE"),
    "and by ZRender:",
    await packageFile("zrender/LICENSE"),
  ]
    .map((text) => text.trim())
    .join("\n\n");

// Fills the marks of a frame, "/*style*/" and "/*script*/", with the bundles of these sources. "</script" inside a
// string of a bundle would end the script; esbuild writes it as "<\/script".
async function page(output, frame, parts) {
  const licences = await notices();
  let text = await readFile(join(here, "src", frame), "utf8");
  text = text.replace("<!--notices-->", () => `<!--\n${licences}\n-->`);
  for (const [mark, entry] of Object.entries(parts)) {
    const part = (await bundle(entry)).trim();
    text = text.replace(`/*${mark}*/`, () => part);
  }
  const path = join(folder, output);
  await writeFile(`${path}.tmp`, text);
  await rename(`${path}.tmp`, path);
  console.error(`${path}: ${Math.round(text.length / 1024)} KiB`);
}

await page("page.template.html", "page.html", { style: "style.css", script: "main.ts" });
await page("playground.template.html", "playground/page.html", {
  style: "playground/playground.css",
  worker: "playground/worker.ts",
  script: "playground/main.ts",
});
