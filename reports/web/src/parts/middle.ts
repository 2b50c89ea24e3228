// Deployments that serve, in the middle of their intervals: half of the cases are faster.
import type { Maybe } from "../format";
import type { Json } from "../result";
import { amount, type Column } from "./table";

/** Whether some of these subjects or points are deployments, which have no step. */
export const deployments = (list: Json[]): boolean => list.some((one) => one.serving);

export const middleOf = (one: Json): Json => ({ ...one.serving, ...one.serving?.middle });

/** Returns a column of what deployments serve. */
export const served = (title: string, key: string, format: (value: Maybe) => string): Column<Json> =>
  amount(title, (row) => middleOf(row)[key], format);

/** Returns how a deployment, or a point of its frontier, is scaled by the middle of one over its components. */
export function towardsMiddle(serving: Json): (values: Json) => Json {
  const { middle } = serving;
  if (!middle) return (values) => values;
  const keys = Object.keys(middle).filter((key) => serving[key] > 0 && middle[key] !== null);
  return (values) => {
    const scaled = keys.filter((key) => typeof values[key] === "number");
    return { ...values, ...Object.fromEntries(scaled.map((key) => [key, (values[key] * middle[key]) / serving[key]])) };
  };
}

/** What binds a part of a step, in words. */
export const boundBy = (kind: string | null | undefined): string => (kind === "kv" ? "KV cache" : (kind ?? ""));
