// The few figures that matter most, large: in one row, or in rows of about equal length where they do not fit.
import { h, type Child } from "../dom";

export interface Figure {
  name: string;
  value: string;
  note?: Child;
  tone?: "good" | "warn" | "bad";
}

export function figures(list: (Figure | null)[]): HTMLElement {
  const shown = list.filter((figure): figure is Figure => figure !== null);
  const half = Math.ceil(shown.length / 2);
  return h(
    "dl",
    { class: "figures", style: `--wide:${shown.length > 7 ? half : shown.length};--middle:${shown.length > 4 ? half : shown.length}` },
    ...shown.map((figure) =>
      h(
        "div",
        {},
        h("dt", {}, figure.name),
        h("dd", { class: figure.tone ?? null }, figure.value, figure.note ? h("small", {}, figure.note) : null),
      ),
    ),
  );
}
