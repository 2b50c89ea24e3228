// Pipeline schedules: one as a picture with its idle times, or all of them compared.
import { h, name, svg } from "../dom";
import { fixed, none, number, percent, short } from "../format";
import { outputOf, type Json, type Result } from "../result";
import { bars, legend, legendItem, ticks } from "../parts/bars";
import { figures } from "../parts/figures";
import { answer, section } from "../parts/section";
import { slotWords } from "../parts/slots";
import { amount, pairs, table } from "../parts/table";
import type { View } from "../view";
import { line } from "./subject";

/** An op of the page's data: rank, type, start, end, micro-batches. */
type Op = [number, string, number, number, string];

function picture(ops: Op[], ranks: number, makespan: number): HTMLElement {
  const row = 24;
  const width = 1000;
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${ranks * row + 20}`, width: "100%", role: "img", "aria-label": `${ops.length} ops of ${ranks} ranks over time`, style: "display:block;min-width:640px" });
  for (let rank = 0; rank < ranks; ++rank)
    drawing.append(svg("rect", { x: 0, y: rank * row, width, height: row - 3, style: "fill:var(--idle)" }));
  for (const [rank, type, start, end, batches] of ops) {
    const x = (start / makespan) * width;
    const wide = ((end - start) / makespan) * width;
    const block = svg("rect", { x, y: rank * row, width: wide, height: row - 3, style: `fill:var(--slot-${type});stroke:var(--card);stroke-width:${Math.min(0.6, wide / 8)}` });
    block.append(svg("title", {}, `rank ${rank}, ${slotWords[type]}, micro-batch ${batches}: ${number(start)} to ${number(end)}`));
    drawing.append(block);
    if (wide > 9 * batches.length) drawing.append(svg("text", { x: x + wide / 2, y: rank * row + 15, "text-anchor": "middle", style: "font-size:11px;fill:#fff;pointer-events:none" }, batches));
  }
  for (const tick of ticks(0, makespan, 8))
    drawing.append(svg("text", { x: (tick / makespan) * width, y: ranks * row + 15, "text-anchor": tick === 0 ? "start" : tick > makespan * 0.97 ? "end" : "middle", style: "font-size:11px;fill:var(--soft)" }, short(number(tick))));
  const types = Object.keys(slotWords).filter((type) => ops.some((op) => op[1] === type));
  return h("div", {}, h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "The schedule over time" }, drawing), legend(...types.map((type) => legendItem(`slot-${type}`, slotWords[type])), legendItem("idle", "idle")));
}

function renderOne(result: Result, root: HTMLElement): void {
  const one = result.json.schedule;
  const over = one.lower_bound > 0 ? `${percent(one.makespan / one.lower_bound - 1)} above the lower bound ${number(one.lower_bound)}` : null;
  const idle = one.idle.reduce((sum: number, value: number) => sum + value, 0) / (one.makespan * one.ranks);
  root.append(
    answer("All micro-batches pass in ", h("b", {}, number(one.makespan)), ` units of cost; ranks are idle ${percent(idle)} of the time.`),
    figures([
      { name: "Makespan", value: number(one.makespan), note: over },
      { name: "Exact form", value: number(one.exact_makespan), note: one.exact_makespan === null ? "none for this shape" : null },
      { name: "Idle, mean of ranks", value: percent(idle) },
      { name: "Peak activations", value: String(Math.max(...one.peak_activations)), note: "chunks on the fullest rank" },
    ]),
  );
  const ops: Op[] | undefined = result.extra?.ops;
  if (ops?.length) root.append(section("The schedule", "One row per rank, time to the right; numbers are micro-batches.", picture(ops, one.ranks, one.makespan)));
  const rows = one.busy.map((busy: number, rank: number) => ({
    label: `rank ${rank}`,
    parts: [{ name: "busy", value: busy, color: "accent" }, { name: "idle", value: one.idle[rank], color: "idle" }],
    text: h("span", {}, `${number(one.idle[rank])} idle`, h("small", {}, `  ${one.peak_activations[rank]} activations`)),
  }));
  root.append(section("Ranks", "Busy and idle until the last rank ends.", bars(rows, { format: number })));
}

function renderAll(json: Json, root: HTMLElement): void {
  const possible = json.schedules.filter((one: Json) => one.possible).sort((a: Json, b: Json) => a.makespan - b.makespan);
  const best = possible[0];
  root.append(
    best
      ? answer("The shortest of ", String(possible.length), " schedules is ", h("b", {}, name(best.kind)), `: makespan ${number(best.makespan)}, ${percent(best.average_bubble)} idle.`)
      : answer("No schedule exists for this shape."),
    section("Makespan", null, bars(possible.map((one: Json) => ({ label: name(one.kind), parts: [{ name: "makespan", value: one.makespan, color: one === best ? "accent" : "accent-soft" }], text: number(one.makespan) })), { legend: false, format: number })),
    section("All schedules", "The same work in every schedule.",
      table<Json>(
        [
          { title: "Schedule", value: (row) => row.kind },
          amount("Makespan", (row) => row.makespan, number),
          amount("Idle", (row) => row.average_bubble, percent),
          amount("Idle, worst rank", (row) => row.worst_bubble, percent),
          { title: "Peak activations", value: (row) => row.peak_activations, show: (row) => fixed(row.peak_activations, 1), number: true },
          { title: "Copies of parameters", value: (row) => row.parameter_copies, number: true },
          { title: "Messages waited for", value: (row) => row.exposed_hops, show: (row) => (row.exposed_hops === null ? none : fixed(row.exposed_hops, 1)), number: true },
          { title: "Above the bound", value: (row) => row.makespan_over_lower_bound, show: (row) => (row.makespan_over_lower_bound === null ? none : percent(row.makespan_over_lower_bound - 1)), number: true },
        ],
        possible,
        { rowClass: (row) => (row === best ? "best" : null) },
      )),
  );
  const others = json.schedules.filter((one: Json) => !one.possible);
  if (others.length) root.append(section("Not possible here", null, pairs(others.map((one: Json) => [one.kind, name(one.reason)]))));
}

const costs = (json: Json): string => Object.entries<Json>(json.schedule.costs).filter(([, value]) => typeof value === "number").map(([key, value]) => `${key} = ${short(number(value))}`).join(", ");

export const schedule: View = {
  kinds: ["schedule", "schedule-all"],
  title: (result) => (outputOf(result) === "schedule" ? `Schedule ${result.json.schedule.kind}` : "Pipeline schedules compared"),
  subtitle: (result) => line(`${result.json.schedule.ranks} ranks`, `${result.json.schedule.micro_batches} micro-batches`, costs(result.json)),
  render(result, root) {
    if (outputOf(result) === "schedule") renderOne(result, root);
    else renderAll(result.json, root);
  },
};
