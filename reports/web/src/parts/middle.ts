// Deployments that serve, in the middle of their intervals: half of the cases are faster.
import type { Json } from "../result";

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
