// The phases of a training: predicted ones, and those that the plan states.
import { grouped, usd } from "../format";
import type { Json } from "../result";
import { linked } from "./basis";
import { amount, table } from "./table";

/** Returns the phases with their sum; `longer` is the middle of what is predicted over what its components add up to. */
export function phasesTable(run: Json, longer: number): HTMLElement {
  const phases = run.phases.map((phase: Json) => (phase.kind === "predicted" ? { ...phase, gpu_hours: phase.gpu_hours * longer } : phase));
  const total = { name: "total", gpu_hours: phases.reduce((sum: number, phase: Json) => sum + phase.gpu_hours, 0), kind: "", source: "" };
  const price = run.total_cost_usd ? run.total_cost_usd / run.total_gpu_hours : null;
  return table<Json>(
    [
      { title: "Phase", value: (phase) => phase.name.replace(/_/g, " ") },
      amount("GPU-hours", (phase) => phase.gpu_hours, grouped),
      amount("Cost", (phase) => (price ? phase.gpu_hours * price : null), usd),
      { title: "Kind", value: (phase) => phase.kind },
      { title: "Source", value: (phase) => phase.source, show: (phase) => linked(phase.source ?? ""), wide: true },
    ],
    [...phases, total],
    { sortable: false, rowClass: (phase) => (phase === total ? "best" : null) },
  );
}
