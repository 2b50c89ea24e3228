// The kinds of pages that are tested: a command, texts that its page must show, made of the JSON of the same command,
// and what else a kind promises. Figures are written here by the rules of docs/pages.md, not by the code of the page.

import { printed } from "./look.mjs";
import { planKinds } from "./plan_kinds.mjs";

const gigabytes = (bytes) => `${(bytes / 1e9).toFixed(1)} GB`;
const grouped = (value) => value.toFixed(0).replace(/\B(?=(\d{3})+$)/g, ",");
const million = (value) => (value / 1e6).toPrecision(3);
const percent = (fraction) => `${(fraction * 100).toFixed(1)} %`;

/** Four significant digits with the unit, for 1 us to 999 s, and 0. */
const duration = (seconds) => {
  const [value, unit] = seconds >= 1 || seconds === 0 ? [seconds, "s"] : seconds >= 1e-3 ? [seconds * 1e3, "ms"] : [seconds * 1e6, "us"];
  return `${value.toFixed(value >= 999.95 ? 0 : value >= 99.995 ? 1 : value >= 9.9995 ? 2 : 3)} ${unit}`;
};

/** The zoom of a timeline by wheel, drag, keys and buttons, and a span that is chosen by keyboard; returns what is heard of it. */
async function zoom(page, check, label) {
  const view = page.locator(".timeline").first();
  const canvas = view.locator(".picture canvas");
  const range = () => view.locator("output").innerText();
  await view.scrollIntoViewIfNeeded();
  const whole = await range();
  const box = await canvas.boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + 40);
  await page.keyboard.down("Control");
  await page.mouse.wheel(0, -400);
  await page.keyboard.up("Control");
  await page.waitForTimeout(50);
  check((await range()) !== whole, `${label}: the wheel does not zoom`);
  await canvas.focus();
  await page.keyboard.press("0");
  check((await range()) === whole, `${label}: the key 0 does not show the whole`);
  for (const key of ["+", "ArrowRight"]) {
    const before = await range();
    await page.keyboard.press(key);
    check((await range()) !== before, `${label}: the key ${key} does nothing`);
  }
  const dragged = await range();
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 2 - 60, box.y + 40, { steps: 4 });
  await page.mouse.up();
  check((await range()) !== dragged, `${label}: a drag does not move it`);
  await page.keyboard.press("-");
  await view.getByRole("button", { name: "Zoom out" }).click();
  check((await range()) === whole, `${label}: the key - and the button do not zoom out`);
  await view.getByRole("button", { name: "Zoom in" }).click();
  check((await range()) !== whole, `${label}: the button does not zoom in`);
  await view.getByRole("button", { name: "Show the whole" }).click();
  check((await range()) === whole, `${label}: the button does not show the whole`);
  await canvas.focus();
  await page.keyboard.press(".");
  const heard = await page.locator("[aria-live]").first().innerText();
  check(await view.locator(".tip").isVisible(), `${label}: the chosen span is not described`);
  check((await canvas.getAttribute("aria-label")).includes("plus and minus zoom"), `${label}: the canvas does not name its keys`);
  const colors = await canvas.evaluate((element) => new Set(new Uint32Array(element.getContext("2d").getImageData(0, 0, element.width, element.height).data.buffer)).size);
  check(colors > 4, `${label}: the timeline has only ${colors} colours`);
  return heard;
}

/** A timeline of a step: its zoom, and a rank opened and left. */
async function timeline(page, check, label) {
  const heard = await zoom(page, check, label);
  check(/start [\d.]+\ss, duration [\d.]+\s[mu]?s, rank 0/.test(heard), `${label}: the chosen span is announced as '${heard}'`);
  const view = page.locator(".timeline").first();
  const canvas = view.locator(".picture canvas");
  const height = (await canvas.boundingBox()).height;
  await page.keyboard.press("Enter");
  check((await view.locator("select").inputValue()) === "0", `${label}: Enter does not open the rank`);
  check((await canvas.boundingBox()).height !== height, `${label}: the rank has no streams`);
  await page.keyboard.press("Escape");
  check((await view.locator("select").inputValue()) === "-1", `${label}: Escape does not lead back`);
  return heard;
}

/** The timeline of a schedule has all of its ops, and names them by the data of the page. */
async function scheduleTimeline(page, check, label) {
  const heard = await zoom(page, check, label);
  const ops = await page.evaluate(() => JSON.parse(document.querySelector('script[data-block="extra"]').textContent).ops);
  const [, , start, end] = ops[0];
  check(heard.includes(`start ${start}`) && heard.includes("rank 0, micro-batch 0"), `${label}: the first op, from ${start} to ${end}, is announced as '${heard}'`);
  check((await page.locator(".timeline canvas").first().getAttribute("aria-label")).startsWith(`${ops.length} ops of`), `${label}: not all of the ${ops.length} ops are drawn`);
}

export const kinds = [
  {
    name: "memory",
    command: "memory deepseek-v3-2048xh800",
    shows: ({ memory }) => [gigabytes(memory.peak_bytes), gigabytes(memory.capacity_bytes), ...memory.stages.map((rank) => gigabytes(rank.peak_bytes))],
  },
  {
    name: "memory of reinforcement learning",
    command: "memory dapo-qwen3-32b-128xh100",
    shows: ({ memory, rollout }) => [gigabytes(memory.peak_bytes), "Both fit.", gigabytes(rollout.training_bytes), gigabytes(rollout.generation_bytes)],
  },
  {
    name: "memory of an update without engines",
    command: "memory dapo-qwen3-32b-128xh100 --set rollout.tensor=1",
    exit: 2,
    shows: ({ memory, rollout_reason }) => [gigabytes(memory.peak_bytes), `No engine generates: ${rollout_reason}.`],
  },
  {
    name: "memory that does not fit",
    command: "memory llama-3-8b-64xh800 --set batch.micro_batch_size=16",
    exit: 2,
    shows: ({ memory }) => ["It does not fit", gigabytes(memory.peak_bytes), memory.advice.fitting[0].set[0], percent(memory.advice.fitting[0].step_ratio - 1)],
  },
  {
    name: "schedule",
    command: "schedule dualpipe --ranks 4 --micro-batches 10",
    shows: ({ schedule }) => [`rank ${schedule.ranks - 1}`, percent(schedule.idle.reduce((sum, idle) => sum + idle, 0) / (schedule.makespan * schedule.ranks))],
    also: (page, result, check) => scheduleTimeline(page, check, "schedule"),
  },
  {
    name: "schedule of 640 slots",
    command: "schedule dualpipe --ranks 64 --micro-batches 320",
    shows: ({ schedule }) => [`rank ${schedule.ranks - 1}`],
    also: (page, result, check) => scheduleTimeline(page, check, "schedule of 640 slots"),
  },
  {
    name: "schedule all",
    command: "schedule all --ranks 4 --micro-batches 8",
    shows: ({ schedules }) => schedules.map((one) => one.kind),
  },
  {
    name: "sweep",
    command: "sweep deepseek-v3-2048xh800 --fidelity closed-form --over overlap.communication_sms=16..24:4",
    shows: ({ points, optimum }) => [`a step takes ${duration(optimum.middle_s)}`, ...points.flatMap(({ middle }) => [duration(middle.time_s), percent(middle.mfu), `${middle.days.toFixed(1)} days`])],
  },
  {
    name: "sweep of many lines",
    command: "sweep llama-3-8b-64xh800 --fidelity closed-form --no-interval --over batch.micro_batch_size=1,2 --over parallelism.pipeline=1,2,4 --over cluster.nic_gbps=100,200,400 --over parallelism.tensor=1,2",
    shows: ({ optimum, points }) => ["The 8 lowest of 18 lines", duration(optimum.time_s), points.find((point) => point.reason).reason],
    also: async (page, result, check) => {
      check((await page.locator("figure .legend li").count()) === 8, "sweep of many lines: the legend has not eight lines");
      check((await page.getByText("Plateau").count()) === 0, "sweep of many lines: a single point is called a plateau");
      await page.setViewportSize({ width: 390, height: 900 });
      const label = await page.locator("table.stack th[scope=row]").first().evaluate((element) => getComputedStyle(element, "::before").content);
      check(label === '"batch.micro_batch_size"', `sweep of many lines: the key of a row's value is ${label}`);
      check((await page.locator(".chart svg text", { hasText: /^\d\.\d+$/ }).count()) === 0, "sweep of many lines: a degree has ticks between whole numbers");
      await printed(page, check, 2);
    },
  },
  {
    name: "sweep reinforcement learning",
    command: "sweep dapo-qwen3-32b-128xh100 --fidelity closed-form --no-interval --over rollout.updates=8,16",
    shows: ({ points, optimum }) => [
      `a step of reinforcement learning takes ${duration(optimum.time_s)}`,
      ...points.flatMap(({ rollout }) => [duration(rollout.step_s), ...rollout.parts.filter((part) => part.pool === "engines").map((part) => duration(part.seconds))]),
    ],
    also: async (page, result, check) => {
      const ticks = await page.locator(".chart svg text", { hasText: /\d\ss$/ }).allTextContents();
      check(ticks.length > 1 && new Set(ticks).size === ticks.length, `sweep reinforcement learning: ticks are called ${ticks.join(", ")}`);
    },
  },
  {
    name: "sweep of deployments",
    command: "sweep llama-3-70b-8xh100 --over inference.engine=vllm,tensorrt-llm --over parallelism.tensor=4,8",
    shows: ({ points }) => points.flatMap(({ serving: { interval, middle } }) => [duration(middle.tpot_s), duration(interval.tpot_s.p90), `$${middle.usd_per_million_tokens_all_in.toFixed(3)}`]),
  },
  {
    name: "sweep tornado",
    command: "sweep llama-3-8b-64xh800 --fidelity closed-form --tornado --over cluster.nic_gbps=200,400",
    shows: ({ inputs, tornado }) => [inputs[0].name, duration(tornado.base["step.time_s"])],
  },
  {
    name: "sweep solve",
    command: "sweep llama-3-8b-64xh800 --fidelity closed-form --solve cluster.nic_gbps --for step.time_s=6.5",
    shows: ({ solve }) => [solve.key, `target ${duration(solve.target)}`],
  },
  {
    name: "campaign",
    command: "campaign llama-3-405b-16384xh100 --seeds 3 --no-interval",
    shows: ({ campaign }) => [
      `${campaign.days.p50.toFixed(1)} days`,
      percent(campaign.goodput.p50),
      "of the time are steps that count",
      `with ${campaign.events.filter((event) => event.what.startsWith("failure")).length} failures`,
    ],
    also: async (page, { campaign }, check) => {
      const heard = await zoom(page, check, "campaign");
      const shown = campaign.events.filter((event) => !/^(restart|finished)/.test(event.what));
      check(shown.some((event) => heard.startsWith(`${event.what}, at ${(event.time_s / 86400).toFixed(3)} d`)), `campaign: the chosen event is announced as '${heard}'`);
      const label = await page.locator(".timeline canvas").first().getAttribute("aria-label");
      check(label.startsWith(`${shown.length} events`), `campaign: ${label}, not ${shown.length}`);
      const [zero, rows] = await Promise.all([page.locator(".chart svg text", { hasText: /^0 %$/ }).boundingBox(), page.locator(".picture").boundingBox()]);
      check(zero.x - rows.x > 100, "campaign: the chart begins left of the rows of events");
    },
  },
  {
    name: "campaign by a date",
    command: "campaign llama-3-8b-64xh800 --set run.tokens=1e12 --seeds 3 --no-interval --finish-by 30d",
    shows: ({ campaign: { finish_by, days } }) => [`${grouped(finish_by.gpus)} GPUs are the fewest that end within 30.0 days`, `On 64 GPUs the training takes ${days.p50.toFixed(1)} days`, "1 spare "],
  },
  {
    name: "serve",
    command: "serve llama-3-70b-8xh100",
    shows: ({ serving: { middle, bound_by } }) => [
      duration(middle.tpot_s),
      duration(middle.ttft_s),
      duration(middle.ttft_unloaded_s),
      `$${middle.usd_per_million_output_tokens.toFixed(3)}`,
      bound_by,
      "An instance that serves at least a request fits with",
      "from components alone, for 64 tokens · 8 GPUs, 1 instance ·",
    ],
  },
  {
    name: "chunk",
    command: "compare deepseek-v3-2048xh800 h800_dualpipe_chunk",
    shows: ({ comparison: { chunk, totals, classes } }) => [chunk, ...[...totals, ...classes].flatMap((row) => [row.name, duration(row.predicted_s), duration(row.measured_s)])],
  },
  {
    name: "trace",
    // What was recorded is a step that was predicted with other links.
    before: ["simulate", "llama-3-8b-64xh800", "--set", "cluster.nic_gbps=200", "--trace-ranks", "0", "--trace", "trace-of-a-rank.json.gz"],
    command: "compare llama-3-8b-64xh800 trace-of-a-rank.json.gz",
    shows: ({ comparison: { totals, classes, worst } }) => [
      ...[...totals, ...classes].flatMap((row) => [row.name, duration(row.measured_s)]),
      ...worst.map((row) => row.advice),
      "reduce_scatter",
    ],
  },
  {
    name: "validate",
    command: "validate deepseek-v3-2048xh800 h800-dualpipe-chunk",
    shows: ({ cases }) => cases.flatMap((one) => ["Predictions compared with published measurements", one.name, ...one.figures.map((figure) => figure.name)]),
  },
  {
    name: "validate ledger",
    command: "validate --ledger",
    shows: ({ entries }) => ["Inside", ...entries.map((entry) => entry.plan)],
  },
  {
    name: "simulate",
    command: "simulate deepseek-v3-2048xh800 --draws 16",
    shows: ({ step, interval, bound, memory, run }) => [
      duration(interval.time_s.p50),
      `${duration(step.time_s)} from components alone`,
      percent(step.mfu),
      percent((step.mfu * interval.tokens_per_s.p50) / step.tokens_per_s),
      `${(interval.tokens_per_s.p50 / 1e6).toFixed(3)} M`,
      duration(bound.flops_at_peak_s),
      ...bound.lost.slice(0, 8).map((part) => part.cause),
      ...memory.stages.map((rank) => gigabytes(rank.peak_bytes)),
      `as clusters run it ${duration(interval.time_s.p50)}`,
      `${grouped(run.steps)} steps take ${interval.days.p50.toFixed(1)} days`,
      ...run.phases.flatMap((phase) => [phase.source, grouped(phase.kind === "predicted" ? interval.gpu_hours.p50 : phase.gpu_hours)]),
      grouped(interval.gpu_hours.p50 + run.total_gpu_hours - run.gpu_hours),
      `${(interval.peak_bytes.p10 / 1e9).toFixed(1)} to ${gigabytes(interval.peak_bytes.p90)} in eight of ten cases${interval.peak_bytes.p90 > memory.capacity_bytes ? ", on a device without limit" : ""}`,
      "An overlapped pair, kernel by kernel",
      "How close is this to reality?",
      "step time, as clusters run it",
      "What is left: by how much",
      `takes ${interval.days.p50.toFixed(1)} days (${interval.days.p10.toFixed(1)} to ${interval.days.p90.toFixed(1)} days) and costs $${million(interval.cost_usd.p50)} M ($${million(interval.cost_usd.p10)} to $${million(interval.cost_usd.p90)} M), without failures.`,
      "power is the mean of each 200th of the step",
    ],
    also: async (page, result, check) => {
      await timeline(page, check, "simulate");
      check((await page.locator(".timeline").count()) === 2, "simulate: there is no picture of an overlapped pair");
      check((await page.locator("td.number", { hasText: /^[\d.]+ 1$/ }).count()) === 0, "simulate: a number without a dimension has the unit 1");
      const stored = await page.evaluate(() => JSON.parse(document.querySelector('script[data-block="extra"]').textContent).timelines[0].count);
      check(stored > 1e5, `simulate: the timeline has only ${stored} spans`);
      await printed(page, check, 4);
    },
  },
  {
    name: "simulate measured",
    command: "simulate llama-3-8b-64xh800 --draws 16 --measured 200TFLOP/s",
    shows: ({ measured, assumed, step }) => [`${Number((step.energy_j / 1e6).toPrecision(4))} MJ a step`, measured.sentence, ...measured.causes.map((one) => one.cause), ...assumed.flatMap((one) => [one.name, `--set ${one.set}`])],
  },
  {
    name: "simulate reinforcement learning",
    command: "simulate dapo-qwen3-32b-128xh100 --draws 16",
    shows: ({ step, interval, rollout }) => [
      `takes ${duration(rollout.middle.time_s)} (`,
      "in eight of ten cases); its longest part is generation",
      `${duration(rollout.step_s)} from components alone`,
      `${rollout.middle.days.toFixed(1)} days`,
      ...rollout.parts.flatMap((part) => [part.name, duration(part.seconds), percent(part.seconds / rollout.step_s)]),
      `${duration(rollout.generation_tail_s)} after nine of ten answers`,
      gigabytes(rollout.memory.generation_bytes),
      `One update of the policy on 128 h100-sxm (h100-dgx) takes ${duration(interval.time_s.p50)}`,
      `${duration(step.time_s)} from components alone`,
    ],
    also: (page, result, check) => printed(page, check, 4),
  },
  {
    name: "plan reinforcement learning",
    command: "plan dapo-qwen3-32b-128xh100 --set search.tensor=1 --set search.context=8 --set search.micro_batch_size=1 --set search.pipeline=1 --set cluster.gpus=96 --set rollout.placement=split --set rollout.gpus=32",
    shows: ({ sites }) => sites.flatMap(({ plans }) => plans.flatMap(({ placement, rollout }) => [placement, duration(rollout.interval_s?.p50 ?? rollout.step_s), percent(rollout.training_idle_share)])),
    also: (page, result, check) => printed(page, check, 4),
  },
  {
    name: "simulate adapters",
    command: "simulate llama-3-70b-lora-8xh100 --draws 16",
    shows: ({ step }) => ["FSDP over 8, lora of rank 16, bf16", `${(step.trained_parameters / 1e6).toFixed(1)} M`, "of adapters; the others are frozen"],
  },
  {
    name: "run",
    command: "run host-dualpipe --backend host --clock profile --steps 2",
    shows: ({ step, training }) => [duration(step.time_s), `${training.loss.length} steps`],
    also: async (page, result, check) => {
      const heard = await timeline(page, check, "run");
      const { columns, spans } = result.timeline;
      const [rank, stream, depth, start] = ["rank", "stream", "depth", "start_ps"].map((name) => columns.indexOf(name));
      const first = Math.min(...spans.filter((row) => row[rank] === 0 && row[stream] === 0 && row[depth] === 0).map((row) => row[start]));
      check(heard.includes(`start ${(first / 1e12).toFixed(6)} s`), `run: the first span does not start at ${first} ps: ${heard}`);
    },
  },
  {
    name: "compare in the middle",
    command: "compare llama-3-8b-64xh800 llama-3-8b-fsdp-64xh100 --set run.tokens=1e12",
    shows: ({ subjects: [a, b] }) => {
      const [before, after] = [a, b].map((subject) => subject.interval.time_s.p50);
      const more = after / before - 1;
      const run = ({ interval: { days, cost_usd, gpu_hours } }) => `${days.p50.toFixed(1)} $${(cost_usd.p50 / gpu_hours.p50).toFixed(3)}`;
      return [`${b.name} takes ${duration(after)}, ${more < 0 ? "-" : "+"}${percent(Math.abs(more))} against ${duration(before)} of ${a.name}`, run(a), run(b)];
    },
    also: async (page, result, check) => {
      const legend = await page.locator(".timeline").last().locator(".legend").innerText();
      check(legend.includes("transfer") && !legend.includes("optimizer"), `compare in the middle: gathers of parameters are called '${legend}'`);
    },
  },
  {
    name: "compare reinforcement learning",
    command: "compare dapo-qwen3-32b-128xh100 --fidelity closed-form --no-interval --cluster h200-hgx",
    shows: ({ subjects, waterfalls }) => [...subjects.flatMap(({ name, rollout }) => [name, duration(rollout.step_s)]), ...waterfalls[0].rows.filter((row) => row.to_s !== row.from_s).map((row) => row.name), waterfalls[0].reasons],
  },
  {
    name: "compare deployments",
    command: "compare deepseek-67b-8xh800 deepseek-v2-8xh800 --no-interval",
    shows: ({ subjects: [a, b], waterfalls }) => {
      const [before, after] = [a, b].map(({ serving }) => serving.usd_per_million_tokens_all_in);
      return [`${b.name} serves a million output tokens with their prompts for $${after.toFixed(3)}, -${percent(1 - after / before)} against $${before.toFixed(3)}`, waterfalls[0].reasons];
    },
  },
  {
    name: "compare",
    command: "compare llama-3-8b-64xh800 llama-3-8b-fsdp-64xh100 --no-interval",
    shows: ({ subjects, waterfalls }) => [
      ...subjects.flatMap((subject) => [subject.name, duration(subject.step.time_s), gigabytes(subject.memory.peak_bytes)]),
      ...waterfalls[0].rows.filter((row) => Math.abs(row.to_s - row.from_s) > 0.01 * waterfalls[0].to_s).map((row) => row.name),
      waterfalls[0].reasons,
    ],
    also: async (page, result, check) => {
      await timeline(page, check, "compare");
      check((await page.locator("th", { hasText: "From components" }).count()) === 0, "compare: without an interval components make the step time, which is there twice");
      const outputs = page.locator(".timeline output");
      await page.locator(".timeline button", { hasText: "+" }).first().click();
      const [first, , second] = await outputs.allInnerTexts();
      check(first === second, `compare: the timelines do not move together: ${first}, ${second}`);
    },
  },
  ...planKinds,
];
