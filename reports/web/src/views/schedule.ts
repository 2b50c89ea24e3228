// Pipeline schedules: one as a picture with its idle times, or all of them compared.
import { h, name } from "../dom";
import { fixed, none, number, percent, short } from "../format";
import { outputOf, type Json, type Result } from "../result";
import { bars } from "../parts/bars";
import { figures } from "../parts/figures";
import { answer, section } from "../parts/section";
import { slotWords } from "../parts/slots";
import { amount, pairs, table } from "../parts/table";
import { timesIn } from "../timeline/axis";
import { batches, ground, plainTimeline, type Form, type Timeline } from "../timeline/data";
import { kinds, withKinds } from "../timeline/kinds";
import { rankRows } from "../timeline/rows";
import { TimelineView } from "../timeline/timeline";
import type { Page, View } from "../view";
import { line } from "./subject";

/** An op of the page's data: rank, type, start, end, micro-batches ("3"; of an overlapped pair "12/3"). */
type Op = [number, string, number, number, string];

/** Schedules are in units of cost. */
const form: Form = {
  ...timesIn(""),
  whole: "schedule",
  shortest: 0.1,
  kinds,
  ground,
  describe: ({ names, spans }, i) => ({
    title: slotWords[names[spans.name[i]]] ?? names[spans.name[i]],
    rows: [["start", number(spans.start[i])], ["end", number(spans.end[i])], ["rank", `${spans.rank[i]}`], ["micro-batch", batches(spans, i)]],
  }),
};

const rowHeight = 16; // in which numbers can be read

function opTimeline(ops: Op[], ranks: number, makespan: number): Timeline {
  const names = [...new Set(ops.map(([, type]) => type))];
  const rows = ops.map(([rank, type, start, end, batches]) => {
    const [batch, backward = -1] = batches.split("/").map(Number);
    return { rank, name: names.indexOf(type), start, end, micro_batch: batch, backward_micro_batch: backward };
  });
  return withKinds(plainTimeline(form, Array.from({ length: ranks }, (_, rank) => `rank ${rank}`), makespan, names, rows));
}

const hint = "A row is a rank, time goes to the right; numbers are micro-batches. Drag to move; pinch, or turn the wheel with Ctrl, to zoom.";

function picture(page: Page, ops: Op[], ranks: number, makespan: number): HTMLElement {
  const timeline = opTimeline(ops, ranks, makespan);
  const label = `${ops.length} ops of ${ranks} ranks over time. Arrow keys move, plus and minus zoom, full stop and comma choose ops.`;
  const view = new TimelineView(page, timeline, { label, rows: rankRows(timeline, rowHeight), keys: true });
  return section("The schedule", hint, view.element);
}

function renderOne(result: Result, root: HTMLElement, page: Page): void {
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
  if (ops?.length) root.append(picture(page, ops, one.ranks, one.makespan));
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
  render(result, root, page) {
    if (outputOf(result) === "schedule") renderOne(result, root, page);
    else renderAll(result.json, root);
  },
};
