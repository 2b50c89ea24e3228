// The rows of a picture: one for each rank, or the streams and counters of one rank.
import { firstAfter, isOptimizer, isSlots, kernelDepth, phaseDepth, slotDepth, streamNames, type Counter, type Lane, type Timeline } from "./data";

/** Part of a step, in nanoseconds. */
export interface Part {
  start: number;
  end: number;
}

/** A row of spans; lanes of one row lie over one another. */
export interface SpanRow {
  kind: "spans";
  label: string;
  rank: number;
  lanes: Lane[];
  height: number;
}

/** A row of a counter, its series stacked. */
export interface LevelRow {
  kind: "levels";
  label: string;
  rank: number;
  counter: Counter;
  colors: string[];
  most: number; // value at the top
  format: (value: number) => string;
  height: number;
}

export type Row = SpanRow | LevelRow;

// "rank 3" of "rank 3 (stages 3, 12)".
const shortName = (name: string): string => name.replace(/ \(.*$/, "");

/** Returns a row for each rank: its slots, and the optimizer after them. */
export function rankRows(timeline: Timeline, height: number): SpanRow[] {
  const rows: SpanRow[] = timeline.ranks.map((name, rank) => ({ kind: "spans", label: shortName(name), rank, lanes: [], height }));
  for (const lane of timeline.lanes) if (isSlots(lane) || isOptimizer(lane)) rows[lane.rank]?.lanes.push(lane);
  const filled = rows.filter((row) => row.lanes.length > 0);
  return filled.length > 0 ? filled : allRows(timeline, height);
}

// A timeline without slots, such as a trace of kernels, has a row for each lane.
function allRows(timeline: Timeline, height: number): SpanRow[] {
  return timeline.lanes.map((lane) => ({ kind: "spans", label: streamNames[lane.stream], rank: lane.rank, lanes: [lane], height }));
}

const gigabytes = (bytes: number): string => `${(bytes / 1e9).toFixed(1)} GB`;
const forms: Record<string, { label: string; colors: string[]; format: (value: number) => string }> = {
  SMs: { label: "SMs", colors: ["c1", "c5"], format: (value) => `${value.toFixed(0)} SMs` },
  "links (B/s)": { label: "links", colors: ["c7", "c5"], format: (value) => `${(value / 1e9).toFixed(1)} GB/s` },
  "memory (bytes)": {
    label: "memory",
    colors: ["memory-parameters", "memory-activations", "memory-temporary", "memory-communication"],
    format: gigabytes,
  },
  "power (W)": { label: "power", colors: ["c2"], format: (value) => `${value.toFixed(0)} W` },
};

function levelRow(counter: Counter): LevelRow {
  const form = forms[counter.name] ?? { label: counter.name, colors: ["c1", "c2", "c3", "c4"], format: (value: number) => `${value}` };
  let most = 0;
  for (let i = 0; i < counter.time.length; ++i) most = Math.max(most, counter.values.reduce((sum, series) => sum + series[i], 0));
  return { kind: "levels", rank: counter.rank, counter, most, height: 44, ...form };
}

const depthNames = ["slots", "", "kernels"];

function laneLabel(lane: Lane): string {
  if (isSlots(lane)) return depthNames[slotDepth];
  return lane.depth === kernelDepth && lane.stream < 3 ? depthNames[kernelDepth] : streamNames[lane.stream];
}

// Whether the counter is above zero in a part of the step.
const rises = (counter: Counter, part: Part): boolean =>
  counter.time.some((time, i) => time < part.end && (counter.time[i + 1] ?? Infinity) > part.start && counter.values.some((series) => series[i] > 0));

/** Returns the streams of a rank with work in a part of the step, phases above their kernels, and its counters. */
export function streamRows(timeline: Timeline, rank: number, part: Part, counters: readonly string[]): Row[] {
  const busy = (lane: Lane): boolean => {
    const first = firstAfter(timeline, lane, part.start);
    return first < lane.last && timeline.spans.start[first] < part.end;
  };
  const rows: Row[] = timeline.lanes
    .filter((lane) => lane.rank === rank && busy(lane))
    .map((lane) => ({ kind: "spans", label: laneLabel(lane), rank, lanes: [lane], height: lane.depth === phaseDepth ? 22 : 20 }));
  for (const counter of timeline.counters)
    if (counter.rank === rank && counters.some((name) => counter.name.startsWith(name)) && rises(counter, part)) rows.push(levelRow(counter));
  return rows;
}
