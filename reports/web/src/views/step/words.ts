// What a step is, in words.
import { line } from "../subject";
import type { Json } from "../../result";

/** "fidelity step · profile h800 · stack deepseek-v3" */
export function basisWords(json: Json): string {
  const { fidelity, profile, stack } = json.basis ?? {};
  return fidelity === "measured" ? fidelity : line(`fidelity ${fidelity}`, `profile ${profile}`, stack && `stack ${stack}`);
}

export const tokensOf = (plan: Json): number => (plan?.batch?.global_batch_size ?? 0) * (plan?.batch?.sequence_length ?? 0);

/** The interval of a prediction; null where there is none, as for a measured step. */
export const intervalOf = (json: Json): Json | null => (typeof json.interval?.time_s?.p50 === "number" ? json.interval : null);
