// What a step achieves, of the same time that the page states for it.
import type { Json } from "../result";

export interface Speed {
  tokens: number;
  tokensPerGpu: number;
  mfu: number;
  mfuCausal: number;
}

/** Returns the speed in the middle of the interval, where steps take as long as clusters run them; without one, that of the step. */
export function speedOf(step: Json, interval: Json | null | undefined): Speed {
  const middle: unknown = interval?.tokens_per_s?.p50;
  const share = typeof middle === "number" && step.tokens_per_s > 0 ? middle / step.tokens_per_s : 1;
  return {
    tokens: step.tokens_per_s * share,
    tokensPerGpu: step.tokens_per_s_per_gpu * share,
    mfu: step.mfu * share,
    mfuCausal: step.mfu_causal * share,
  };
}
