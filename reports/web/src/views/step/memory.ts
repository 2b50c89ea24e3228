// What each rank's GPU holds at its fullest, and memory and power of a rank over the step.
import { h } from "../../dom";
import { duration, gigabytes } from "../../format";
import { chart, type Series } from "../../parts/chart";
import { rankBars } from "../../parts/memory";
import { section } from "../../parts/section";
import type { Json } from "../../result";
import type { Counter, Timeline } from "../../timeline/data";
import type { Page } from "../../view";

export function memorySection(json: Json): HTMLElement | null {
  const { memory } = json;
  if (!memory?.stages?.length) return null;
  const fullest = memory.stages[memory.fullest_rank ?? 0];
  const where = fullest?.peak_operator ? ` Rank ${fullest.stage} is the fullest, at ${fullest.peak_operator}.` : "";
  return section(
    "Memory",
    `What each rank's GPU holds at its fullest moment (1 GB is 10⁹ bytes).${where}`,
    rankBars(memory),
  );
}

const powerParts = 200;

// A step function as points of lines: `before` until the first value, each value until the next one.
function steps(counter: Counter, values: ArrayLike<number>, end: number, before = values[0]): [number, number][] {
  const points: [number, number][] = [[0, before], [counter.time[0] / 1e9, before]];
  for (let i = 0; i < counter.time.length; ++i) {
    const until = i + 1 < counter.time.length ? counter.time[i + 1] : end;
    points.push([counter.time[i] / 1e9, values[i]], [until / 1e9, values[i]]);
  }
  return points;
}

// The means of a step function over equal parts of the step, which keep its energy: gaps between slots are too short to see.
function means(counter: Counter, end: number): [number, number][] {
  const length = end / powerParts;
  const sums = new Float64Array(powerParts);
  counter.time.forEach((time, i) => {
    const until = counter.time[i + 1] ?? end;
    for (let part = Math.floor(time / length), from = time; from < until && part < powerParts; ++part) {
      const to = Math.min(until, (part + 1) * length);
      sums[part] += (to - from) * counter.values[0][i];
      from = to;
    }
  });
  return [...sums].flatMap((sum, part): [number, number][] => [part, part + 1].map((edge) => [(edge * length) / 1e9, sum / length]));
}

const memoryColors: Record<string, string> = {
  state: "memory-parameters", activations: "memory-activations", temporary: "memory-temporary", communication: "memory-communication",
};

function memoryChart(page: Page, counter: Counter, timeline: Timeline, json: Json): HTMLElement {
  const series: Series[] = counter.series.map((name, i) => ({
    name: name === "state" ? "parameters, gradients, optimizer, reserve" : name,
    points: steps(counter, counter.values[i], timeline.end, name === "state" ? undefined : 0),
    color: memoryColors[name],
    stack: "memory",
  }));
  return chart(page, {
    label: `Memory of rank ${counter.rank} over the step, stacked`,
    x: { title: "time", format: duration, zero: true },
    y: { title: "memory", format: gigabytes, zero: true },
    series,
    lines: [{ name: "capacity", value: json.memory.capacity_bytes }],
  });
}

function powerChart(page: Page, counter: Counter, timeline: Timeline, json: Json): HTMLElement {
  const mean = json.step.gpu_power_w;
  return chart(page, {
    label: `Power of the GPU of rank ${counter.rank} over the step`,
    x: { title: "time", format: duration, zero: true },
    y: { title: "power", format: (watts) => `${watts.toFixed(0)} W`, zero: true },
    series: [{ name: "power", points: means(counter, timeline.end), color: "c2" }],
    lines: mean ? [{ name: "mean of all GPUs", value: mean }] : [],
  });
}

/** Memory and power of one rank over time, chosen from all of them. */
export function levelsSection(page: Page, timeline: Timeline, json: Json): HTMLElement | null {
  const levels = timeline.counters.filter((counter) => /^(memory|power)/.test(counter.name));
  if (levels.length === 0) return null;
  const ranks = [...new Set(levels.map((counter) => counter.rank))];
  const choice = h("select", { "aria-label": "Rank" }, ...ranks.map((rank) => h("option", { value: rank }, timeline.ranks[rank])));
  const place = h("div", { class: "levels" });
  const show = (): void => {
    const own = levels.filter((counter) => counter.rank === Number(choice.value));
    place.replaceChildren(
      ...own.map((counter) => (counter.name.startsWith("memory") ? memoryChart : powerChart)(page, counter, timeline, json)),
    );
  };
  choice.value = String(json.memory?.fullest_rank ?? ranks[0]);
  choice.addEventListener("change", show);
  show();
  return section("Memory and power over the step", `Memory holds from one slot to the next; power is the mean of each ${powerParts}th of the step.`, choice, place);
}
