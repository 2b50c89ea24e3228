// A timeline as typed arrays: spans by column, in lanes of spans that follow one another.
import { gunzipSync } from "fflate";
import { bytesOf } from "../base64";
import type { Json } from "../result";

export const slotDepth = 0;
export const phaseDepth = 1;
export const kernelDepth = 2;

export const streamNames = [
  "compute", "communication", "weight gradient", "collective", "to host", "from host", "pipeline", "optimizer",
] as const;
const computeStream = 0;
const optimizerStream = 7;

/** Spans of one rank, stream and depth, in order of time: positions first to last - 1. */
export interface Lane {
  rank: number;
  stream: number;
  depth: number;
  first: number;
  last: number;
}

/** A quantity of a rank over time; a value holds until the next one. */
export interface Counter {
  rank: number;
  name: string; // with its unit: "memory (bytes)"
  series: string[];
  time: Float64Array; // ns
  values: Float64Array[]; // by series
}

export interface Work {
  class: string;
  flops: number;
  bytes: number;
}

export interface KernelData extends Work {
  row: string;
  gemm: string;
  section: string;
  note: string;
}

/** Values of spans; -1: none. Times are nanoseconds since the step began. */
export interface Spans {
  name: Int32Array;
  rank: Int32Array;
  stream: Int32Array;
  depth: Int32Array;
  start: Float64Array;
  end: Float64Array;
  layer: Int32Array;
  micro_batch: Int32Array;
  stage: Int32Array;
  backward_stage: Int32Array;
  backward_micro_batch: Int32Array;
  peer: Int32Array;
  kernel: Int32Array;
  work: Int32Array;
}

export interface Timeline {
  label: string;
  ranks: string[];
  end: number; // ns
  names: string[];
  stageLayers: number[][];
  count: number;
  spans: Spans;
  lanes: Lane[]; // ordered by rank, stream, depth
  kernels: KernelData[];
  works: Work[];
  counters: Counter[];
}

/** Reads columns of integers as reports/html/page.h packs them. */
class Unpacker {
  private at = 0;
  private readonly bytes: Uint8Array;

  constructor(packed: string) {
    this.bytes = gunzipSync(bytesOf(packed));
  }

  read<Column extends Int32Array | Float64Array>(column: Column): Column {
    let last = 0;
    for (let i = 0; i < column.length; ++i) column[i] = last += this.integer();
    return column;
  }

  // Integers may be longer than the 32 bits of shifts.
  private integer(): number {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = this.bytes[this.at++];
      value += (byte & 127) * scale;
      if (byte < 128) break;
      scale *= 128;
    }
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }
}

function emptySpans(count: number): Spans {
  const whole = (): Int32Array => new Int32Array(count).fill(-1);
  return {
    name: whole(), rank: whole(), stream: whole(), depth: whole(), start: new Float64Array(count),
    end: new Float64Array(count), layer: whole(), micro_batch: whole(), stage: whole(), backward_stage: whole(),
    backward_micro_batch: whole(), peer: whole(), kernel: whole(), work: whole(),
  };
}

function lanesOf(spans: Spans): Lane[] {
  const lanes: Lane[] = [];
  for (let i = 0; i < spans.name.length; ++i) {
    const lane = lanes[lanes.length - 1];
    if (lane && lane.rank === spans.rank[i] && lane.stream === spans.stream[i] && lane.depth === spans.depth[i]) lane.last = i + 1;
    else lanes.push({ rank: spans.rank[i], stream: spans.stream[i], depth: spans.depth[i], first: i, last: i + 1 });
  }
  return lanes;
}

/** Returns a timeline of the block `extra` of a page. */
export function readTimeline(json: Json): Timeline {
  const packed = new Unpacker(json.packed);
  const spans = emptySpans(json.count);
  for (const column of json.columns as (keyof Spans)[]) packed.read(spans[column]);
  const counters = (json.counters as Counter[]).map((counter: Json) => ({
    ...counter,
    time: packed.read(new Float64Array(counter.count)),
    values: counter.series.map(() => packed.read(new Float64Array(counter.count))),
  }));
  const { label, ranks, end, names, count, kernels, works } = json;
  return { label, ranks, end, names, count, kernels, works, counters, spans, stageLayers: json.stage_layers, lanes: lanesOf(spans) };
}

/** Returns the timeline that `run --json` writes as rows. */
export function readTimelineRows(json: Json, label: string): Timeline {
  const at = Object.fromEntries((json.columns as string[]).map((column, i) => [column, i]));
  const rows = (json.spans as number[][]).slice();
  const order = ["rank", "stream", "depth", "start_ps"].map((column) => at[column]);
  rows.sort((a, b) => order.reduce((sign, column) => sign || a[column] - b[column], 0));
  const spans = emptySpans(rows.length);
  rows.forEach((row, i) => {
    for (const column of ["name", "rank", "stream", "depth", "layer", "micro_batch"] as const) spans[column][i] = row[at[column]];
    spans.start[i] = row[at.start_ps] / 1000;
    spans.end[i] = (row[at.start_ps] + row[at.duration_ps]) / 1000;
  });
  const ranks = Array.from({ length: json.ranks }, (_, rank) => `rank ${rank}`);
  return {
    label, ranks, end: json.end_ps / 1000, names: json.names, count: rows.length, kernels: [], works: [], counters: [],
    spans, stageLayers: [], lanes: lanesOf(spans),
  };
}

export const isSlots = (lane: Lane): boolean => lane.depth === slotDepth && lane.stream === computeStream;
export const isOptimizer = (lane: Lane): boolean => lane.stream === optimizerStream;

/** Returns the position of the first span of a lane that ends after `time`; lane.last where there is none. */
export function firstAfter(timeline: Timeline, lane: Lane, time: number): number {
  const { end } = timeline.spans;
  let low = lane.first;
  let high = lane.last;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (end[middle] > time) high = middle;
    else low = middle + 1;
  }
  return low;
}
