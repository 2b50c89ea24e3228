// What a plan is about, in words: its model, its hardware, how it is split.
import { grouped } from "../format";
import type { Json } from "../result";

const base = (path: unknown): string => String(path ?? "").replace(/^.*\//, "").replace(/\.(json|toml)$/, "");

export const modelName = (plan: Json): string => base(plan?.model?.config);

/** "2,048 h800-sxm (h800-rail-fat-tree)" */
export function hardware(plan: Json, device?: string | null): string {
  const cluster = plan?.cluster ?? {};
  const topology = base(cluster.topology);
  return `${grouped(cluster.gpus)} ${device || topology}${device ? ` (${topology})` : ""}`;
}

/** "tensor 8, pipeline 4, data 64": the degrees above one. */
export function degrees(plan: Json): string {
  const parallel = plan?.parallelism ?? {};
  const names = ["tensor", "context", "pipeline", "expert", "expert_tensor"];
  const list = names.filter((key) => parallel[key] > 1).map((key) => `${key.replace("_", " ")} ${parallel[key]}`);
  if (plan?.schedule?.kind && parallel.pipeline > 1) list.push(plan.schedule.kind);
  return list.join(", ");
}

/** Joins what is not empty: "2,048 h800-sxm · pipeline 16 · profile h800". */
export const line = (...parts: (string | null | undefined | false)[]): string => parts.filter(Boolean).join(" · ");
