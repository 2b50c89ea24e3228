// What kind of work a span is, which gives it its colour. The same colours mean the same thing in every chart.
import { slotWords } from "../parts/slots";
import { isOptimizer, kernelDepth, type Kind, type Lane, type Timeline } from "./data";

export const kinds: Kind[] = [
  { name: "other", color: "slot-other" },
  ...Object.entries(slotWords).map(([slot, name]) => ({ name, color: `slot-${slot}` })),
  { name: "transfer", color: "span-transfer" },
  { name: "wait for other ranks", color: "span-wait" },
  { name: "optimizer", color: "slot-other" },
];
const slotKinds: Record<string, number> = Object.fromEntries(Object.keys(slotWords).map((slot, i) => [slot, i + 1]));
const transfer = 6;
const wait = 7;
const optimizer = 8;
const collective = /gather|reduce|scatter/;

function kindOfName(name: string): number {
  if (name in slotKinds) return slotKinds[name];
  const phase = /\(([A-Z]+)\)$/.exec(name);
  if (phase && phase[1] in slotKinds) return slotKinds[phase[1]];
  if (name === "notify") return wait;
  if (/wgrad$/.test(name)) return slotKinds.W;
  if (/(_grad|dgrad)$|^d_/.test(name)) return slotKinds.B;
  return 0;
}

/** Sets the kind of every span. A kernel without a name that shows it has that of the phase in which it runs. */
export function withKinds(timeline: Timeline): Timeline {
  const { spans } = timeline;
  const byName = timeline.names.map(kindOfName);
  let phases: Lane | null = null;
  for (const lane of timeline.lanes) {
    let phase = phases?.first ?? 0;
    for (let i = lane.first; i < lane.last; ++i) {
      let kind = byName[spans.name[i]];
      if (isOptimizer(lane)) kind = collective.test(timeline.names[spans.name[i]]) ? transfer : optimizer;
      else if (lane.stream === 1 && kind !== wait) kind = transfer;
      else if (lane.stream >= 3) kind = transfer;
      else if (kind === 0 && lane.depth === kernelDepth && phases && phases.rank === lane.rank && phases.stream === lane.stream) {
        while (phase < phases.last - 1 && spans.end[phase] <= spans.start[i]) ++phase;
        kind = spans.kind[phase];
      }
      spans.kind[i] = kind;
    }
    if (lane.depth !== kernelDepth) phases = lane;
  }
  return timeline;
}
