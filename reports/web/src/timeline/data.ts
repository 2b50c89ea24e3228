// A timeline as typed arrays: spans by column, in lanes of spans that follow one another.
export const slotDepth = 0;
export const phaseDepth = 1;
export const kernelDepth = 2;

export const streamNames = [
  "compute", "communication", "weight gradient", "collective", "to host", "from host", "pipeline", "data parallelism",
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
  time: Float64Array;
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

/** Values of spans; -1: none. Times are in the unit of the timeline's form, since its beginning. */
export interface Spans {
  kind: Int32Array; // position in the kinds of the form
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

/** What work a span is, or what happened, which gives it its colour. */
export interface Kind {
  name: string;
  color: string; // of style.css
}

/** The ground of rows whose spans are work. */
export const ground: Kind = { name: "idle", color: "idle" };

/** How timelines of a sort are drawn and read out. */
export interface Form {
  /** What the whole is, in a word: "step". */
  whole: string;
  /** The shortest part that can be shown. */
  shortest: number;
  kinds: readonly Kind[];
  /** What the ground of a row means; none: spans are moments, which are drawn as marks. */
  ground?: Kind;
  /** A time, as exact as a picture of `length` needs. */
  moment(time: number, length: number): string;
  /** The texts of ticks that are `step` apart, of a part that begins at `start`. */
  axis(times: number[], step: number, start: number): string[];
  /** The heading of a span and its rows. */
  describe(timeline: Timeline, span: number): { title: string; rows: [string, string][] };
}

export interface Timeline {
  form: Form;
  label: string;
  ranks: string[];
  end: number;
  names: string[];
  stageLayers: number[][];
  count: number;
  spans: Spans;
  lanes: Lane[]; // ordered by rank, stream, depth
  kernels: KernelData[];
  works: Work[];
  counters: Counter[];
}

export function emptySpans(count: number): Spans {
  const whole = (): Int32Array => new Int32Array(count).fill(-1);
  return {
    kind: whole(), name: whole(), rank: whole(), stream: whole(), depth: whole(), start: new Float64Array(count),
    end: new Float64Array(count), layer: whole(), micro_batch: whole(), stage: whole(), backward_stage: whole(),
    backward_micro_batch: whole(), peer: whole(), kernel: whole(), work: whole(),
  };
}

/** Returns the lanes of spans in order of rank, stream, depth and time. */
export function lanesOf(spans: Spans): Lane[] {
  const lanes: Lane[] = [];
  for (let i = 0; i < spans.name.length; ++i) {
    const lane = lanes[lanes.length - 1];
    if (lane && lane.rank === spans.rank[i] && lane.stream === spans.stream[i] && lane.depth === spans.depth[i]) lane.last = i + 1;
    else lanes.push({ rank: spans.rank[i], stream: spans.stream[i], depth: spans.depth[i], first: i, last: i + 1 });
  }
  return lanes;
}

type SpanRow = Pick<Record<keyof Spans, number>, "rank" | "name" | "start" | "end"> & Partial<Record<keyof Spans, number>>;

/** Returns a timeline of spans that have one lane for each rank, and no kernels. */
export function plainTimeline(form: Form, ranks: string[], end: number, names: string[], rows: SpanRow[]): Timeline {
  const ordered = [...rows].sort((a, b) => a.rank - b.rank || a.start - b.start);
  const spans = emptySpans(rows.length);
  ordered.forEach((row, i) => {
    for (const [column, value] of Object.entries({ stream: computeStream, depth: slotDepth, ...row })) spans[column as keyof Spans][i] = value;
  });
  return { form, label: "", ranks, end, names, count: rows.length, kernels: [], works: [], counters: [], spans, stageLayers: [], lanes: lanesOf(spans) };
}

/** The micro-batches of a slot: "3"; of an overlapped pair "12/3". */
export const batches = (spans: Spans, i: number): string =>
  [spans.micro_batch[i], spans.backward_micro_batch[i]].filter((batch) => batch >= 0).join("/");

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
