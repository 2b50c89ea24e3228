// Timelines of steps, in nanoseconds, as pages and `run --json` store them.
import { gunzipSync } from "fflate";
import { bytesOf } from "../base64";
import type { Json } from "../result";
import { emptySpans, lanesOf, type Counter, type Spans, type Timeline } from "./data";
import { withKinds } from "./kinds";
import { stepForm } from "./step_form";

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
  return withKinds({ form: stepForm, label, ranks, end, names, count, kernels, works, counters, spans, stageLayers: json.stage_layers, lanes: lanesOf(spans) });
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
  return withKinds({
    form: stepForm, label, ranks, end: json.end_ps / 1000, names: json.names, count: rows.length, kernels: [], works: [], counters: [],
    spans, stageLayers: [], lanes: lanesOf(spans),
  });
}
