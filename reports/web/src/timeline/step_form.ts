// How the timelines of steps are written and read out: their times are nanoseconds.
import { duration, scaled } from "../format";
import { ground, slotDepth, streamNames, type Form, type Timeline } from "./data";
import { kinds } from "./kinds";

const units: [number, string][] = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];

function moment(ns: number, length: number): string {
  const digits = Math.min(9, Math.max(2, Math.ceil(-Math.log10(length / 1e9)) + 3));
  return `${(ns / 1e9).toFixed(digits)} s`;
}

function offset(ns: number, step: number): string {
  const [scale, unit] = units.find(([scale]) => step >= scale) ?? units[3];
  return `+${Number((ns / scale).toFixed(3))} ${unit}`;
}

function axisTime(time: number, step: number): string {
  if (time === 0) return "0";
  const [scale, unit] = units.find(([scale]) => step >= scale * 0.05) ?? units[3];
  return `${Number((time / scale).toFixed(3))} ${unit}`;
}

// Where ticks are close together, those after the first count from it.
function axis(times: number[], step: number, start: number): string[] {
  const close = step < 1e8 && start > 20 * step;
  return times.map((time, i) => (close && i > 0 ? offset(time - times[0], step) : close ? moment(time, step) : axisTime(time, step)));
}

function layers(timeline: Timeline, stage: number): string {
  const own = (timeline.stageLayers[stage] ?? []).filter((layer) => layer >= 0);
  if (own.length === 0) return "";
  const first = Math.min(...own);
  const last = Math.max(...own);
  return first === last ? ` (layer ${first})` : ` (layers ${first}–${last})`;
}

function place(timeline: Timeline, i: number): [string, string][] {
  const { spans } = timeline;
  const list: [string, string][] = [["rank", (timeline.ranks[spans.rank[i]] ?? `${spans.rank[i]}`).replace(/^rank /, "")]];
  const add = (key: string, value: number, more = ""): void => void (value >= 0 && list.push([key, `${value}${more}`]));
  const slot = spans.depth[i] === slotDepth;
  add("stage", spans.stage[i], slot ? layers(timeline, spans.stage[i]) : "");
  add("layer", spans.layer[i]);
  add("micro-batch", spans.micro_batch[i]);
  add("backward stage", spans.backward_stage[i], layers(timeline, spans.backward_stage[i]));
  add("backward micro-batch", spans.backward_micro_batch[i]);
  add("to rank", spans.peer[i]);
  if (!slot) list.push(["stream", streamNames[spans.stream[i]] ?? ""]);
  return list;
}

function work(timeline: Timeline, i: number): [string, string][] {
  const { spans } = timeline;
  const seconds = (spans.end[i] - spans.start[i]) / 1e9;
  const kernel = timeline.kernels[spans.kernel[i]];
  const done = timeline.works[spans.work[i]] ?? kernel;
  const list: [string, string][] = [];
  if (kernel?.row) list.push(["class", kernel.row]);
  else if (done?.class) list.push(["class", done.class.replace(/_/g, " ")]);
  if (kernel?.gemm) list.push(["GEMM", kernel.gemm]);
  if (done?.flops && seconds > 0) list.push(["work", `${scaled(done.flops)} FLOP, ${(done.flops / seconds / 1e12).toFixed(1)} TFLOP/s`]);
  if (done?.bytes && seconds > 0) list.push(["data", `${scaled(done.bytes)} bytes, ${(done.bytes / seconds / 1e9).toFixed(1)} GB/s`]);
  if (kernel?.note) list.push(["note", kernel.note]);
  return list;
}

function describe(timeline: Timeline, i: number): { title: string; rows: [string, string][] } {
  const { spans } = timeline;
  const own = timeline.names[spans.name[i]];
  const title = spans.depth[i] === slotDepth ? kinds[spans.kind[i]].name : own;
  const times: [string, string][] = [
    ["start", `${(spans.start[i] / 1e9).toFixed(6)} s`],
    ["duration", duration((spans.end[i] - spans.start[i]) / 1e9)],
  ];
  return { title, rows: [...times, ...place(timeline, i), ...work(timeline, i)] };
}

export const stepForm: Form = { whole: "step", shortest: 200, kinds, ground, moment, axis, describe };
