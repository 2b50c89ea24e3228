// A span in words, for people who point at it and for those who hear it.
import { h, name, type Child } from "../dom";
import { duration, scaled } from "../format";
import { slotDepth, streamNames, type Timeline } from "./data";
import { kinds } from "./kinds";

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

/** Returns the heading of a span and its rows. */
export function describeSpan(timeline: Timeline, kindOf: Uint8Array, i: number): { title: string; rows: [string, string][] } {
  const { spans } = timeline;
  const own = timeline.names[spans.name[i]];
  const title = spans.depth[i] === slotDepth ? kinds[kindOf[i]].name : own;
  const times: [string, string][] = [
    ["start", `${(spans.start[i] / 1e9).toFixed(6)} s`],
    ["duration", duration((spans.end[i] - spans.start[i]) / 1e9)],
  ];
  return { title, rows: [...times, ...place(timeline, i), ...work(timeline, i)] };
}

export function tipOf(title: string, rows: [string, string][]): Child[] {
  const list = h("dl", {}, ...rows.flatMap(([key, value]) => [h("dt", {}, key), h("dd", {}, name(value))]));
  return [h("b", {}, name(title)), list];
}
