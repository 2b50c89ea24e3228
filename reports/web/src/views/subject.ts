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

/** "FSDP over 128", "HSDP of 2 x 64" (replicas and ranks of a group), "ZeRO-1"; empty where all is replicated. */
function sharding(parallel: Json, gpus: number): string {
  if (!parallel.zero_stage) return "";
  if (parallel.zero_stage < 3) return `ZeRO-${parallel.zero_stage}`;
  const ranks = Math.floor(gpus / (parallel.tensor * parallel.pipeline));
  const group = parallel.shard_group || ranks;
  return group === ranks ? `FSDP over ${grouped(ranks)}` : `HSDP of ${ranks / group} x ${group}`;
}

/** "dualpipe, pipeline 16, expert 64, data 128, ZeRO-1, fp8": what the command's first lines say of a plan. */
export function degrees(plan: Json): string {
  const { parallelism = {}, cluster = {}, schedule, training, optimizer, precision } = plan ?? {};
  const names = ["pipeline", "tensor", "context", "expert"];
  const data = Math.floor(cluster.gpus / (parallelism.tensor * parallelism.context * parallelism.pipeline));
  return [
    parallelism.pipeline > 1 && schedule?.kind,
    ...names.map((key) => parallelism[key] > 1 && `${key} ${parallelism[key]}`),
    data > 1 && `data ${grouped(data)}`,
    sharding(parallelism, cluster.gpus),
    training && training.method !== "full" && `${training.method} of rank ${training.rank}`,
    optimizer?.kind === "muon" && "Muon",
    precision?.gemm,
  ]
    .filter(Boolean)
    .join(", ");
}

/** Joins what is not empty: "2,048 h800-sxm · pipeline 16 · profile h800". */
export const line = (...parts: (string | null | undefined | false)[]): string => parts.filter(Boolean).join(" · ");
