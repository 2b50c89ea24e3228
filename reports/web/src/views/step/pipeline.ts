// The timeline of a step: all ranks, and one overlapped pair of chunks kernel by kernel.
import { duration, percent } from "../../format";
import { fold, foldedSection, section } from "../../parts/section";
import { amount, table } from "../../parts/table";
import { isSlots, kernelDepth, type Timeline } from "../../timeline/data";
import { TimelineView } from "../../timeline/timeline";
import { Viewport } from "../../timeline/viewport";
import type { Page } from "../../view";

const hint =
  "A row is a pipeline rank; coloured is work, grey is waiting. Where spans are narrower than a pixel, the height of a colour is its share of the time. " +
  "Drag to move; pinch, or turn the wheel with Ctrl, to zoom; double-click a rank for its streams and kernels.";

interface Busy {
  rank: string;
  slots: number;
  busy: number; // seconds in slots
}

function busyOf(timeline: Timeline): Busy[] {
  const rows = timeline.ranks.map((rank): Busy => ({ rank, slots: 0, busy: 0 }));
  const { start, end } = timeline.spans;
  for (const lane of timeline.lanes) {
    const row = rows[lane.rank];
    if (!row || !isSlots(lane)) continue;
    row.slots += lane.last - lane.first;
    for (let i = lane.first; i < lane.last; ++i) row.busy += (end[i] - start[i]) / 1e9;
  }
  return rows.filter((row) => row.slots > 0);
}

function busyTable(timeline: Timeline): HTMLElement {
  const whole = timeline.end / 1e9;
  return table<Busy>(
    [
      { title: "Rank", value: (row) => row.rank },
      { title: "Slots", value: (row) => row.slots, number: true },
      amount("In slots", (row) => row.busy, duration),
      amount("Share of the step", (row) => row.busy / whole, percent),
    ],
    busyOf(timeline),
  );
}

const titled = (title: string, { label }: Timeline): string => (label ? `${title}: ${label.replace(/:$/, "")}` : title);

/** The first timeline of a page has the keys, and explains itself. */
export function pipelineSection(page: Page, timeline: Timeline, first: boolean, shared?: Viewport): HTMLElement {
  const label = `Timeline of ${timeline.ranks.length} pipeline ranks over ${duration(timeline.end / 1e9)}. Arrow keys move, plus and minus zoom, full stop and comma choose spans.`;
  const view = new TimelineView(page, timeline, { label, counters: ["SMs", "links", "memory", "power"], keys: first, viewport: shared });
  const busy = busyOf(timeline);
  return section(titled("The pipeline", timeline), first ? hint : null, view.element, busy.length ? fold("As a table", () => busyTable(timeline)) : null);
}

interface Slot {
  rank: number;
  start: number;
  end: number;
  name: string;
}

// The slot with the most compute kernels on a rank in the middle; an overlapped pair where there is one.
function slotWithKernels(timeline: Timeline): Slot | null {
  const { spans, names, lanes } = timeline;
  const middle = timeline.ranks.length / 2;
  let best: { slot: Slot; score: number } | null = null;
  for (const lane of lanes.filter(isSlots)) {
    const kernels = lanes.find((other) => other.rank === lane.rank && other.stream === 0 && other.depth === kernelDepth);
    if (!kernels) continue;
    let k = kernels.first;
    for (let i = lane.first; i < lane.last; ++i) {
      while (k < kernels.last && spans.start[k] < spans.start[i]) ++k;
      const first = k;
      while (k < kernels.last && spans.end[k] <= spans.end[i]) ++k;
      if (k === first) continue;
      const name = names[spans.name[i]];
      const score = (name === "FB" ? 1e6 : 0) + (k - first) - Math.abs(lane.rank - middle) / 1e3;
      if (!best || score > best.score) best = { slot: { rank: lane.rank, start: spans.start[i], end: spans.end[i], name }, score };
    }
  }
  return best?.slot ?? null;
}

/** One slot kernel by kernel, with its streams, the SMs that it uses and the rates on its links. */
export function pairSection(page: Page, timeline: Timeline): HTMLElement | null {
  const slot = slotWithKernels(timeline);
  if (!slot) return null;
  const title = titled(slot.name === "FB" ? "An overlapped pair, kernel by kernel" : `A slot ${slot.name}, kernel by kernel`, timeline);
  const viewport = new Viewport(timeline.end, timeline.form.shortest, slot);
  const view = new TimelineView(page, timeline, { label: title, rank: slot.rank, counters: ["SMs", "links"], viewport });
  const lead = `${timeline.ranks[slot.rank]}, ${duration((slot.end - slot.start) / 1e9)}: streams with their phases and kernels, SMs by use, and what flows over the links.`;
  return section(title, lead, view.element);
}

interface Kernel {
  name: string;
  count: number;
  seconds: number;
}

/** The kernels of a slot as a table, the longest first. */
export function kernelsSection(timeline: Timeline): HTMLElement | null {
  const slot = slotWithKernels(timeline);
  if (!slot) return null;
  const totals = new Map<string, Kernel>();
  const { spans, names } = timeline;
  for (const lane of timeline.lanes.filter((lane) => lane.rank === slot.rank && lane.depth === kernelDepth))
    for (let i = lane.first; i < lane.last; ++i) {
      if (spans.start[i] < slot.start || spans.end[i] > slot.end) continue;
      const name = names[spans.name[i]];
      const row = totals.get(name) ?? { name, count: 0, seconds: 0 };
      row.count += 1;
      row.seconds += (spans.end[i] - spans.start[i]) / 1e9;
      totals.set(name, row);
    }
  const rows = [...totals.values()].sort((a, b) => b.seconds - a.seconds);
  const whole = (slot.end - slot.start) / 1e9;
  return foldedSection(`Kernels of that slot`, `${rows.length} by name, the longest first`, () =>
    table<Kernel>(
      [
        { title: "Kernel", value: (row) => row.name },
        { title: "Count", value: (row) => row.count, number: true },
        amount("Together", (row) => row.seconds, duration),
        amount("Each", (row) => row.seconds / row.count, duration),
        amount("Of the slot", (row) => row.seconds / whole, percent),
      ],
      rows,
    ),
  );
}
