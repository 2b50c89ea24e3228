// What stands next to a span that is pointed at.
import { h, name, type Child } from "../dom";

export function tipOf(title: string, rows: [string, string][]): Child[] {
  const list = h("dl", {}, ...rows.flatMap(([key, value]) => [h("dt", {}, key), h("dd", {}, name(value))]));
  return [h("b", {}, name(title)), list];
}
