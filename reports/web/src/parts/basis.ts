// What an answer rests on: constants with their sources, and the plan with every default.
import { h, identifier, name } from "../dom";
import { none, number, percent, signedPercent } from "../format";
import type { Json } from "../result";
import { foldedSection, section } from "./section";
import { amount, table } from "./table";

interface Constant {
  parameter: string;
  value: number;
  unit: string;
  kind: string;
  source: string;
  share_of_step?: number | null; // of constants of a step
}

const unproven = (kind: string): boolean => kind === "assumed" || kind === "datasheet";

export const kindBadge = (kind: string): HTMLElement =>
  h("span", { class: unproven(kind) ? "kind unproven" : "kind" }, kind);

/** Returns the text with addresses as links. */
export function linked(text: string): HTMLElement {
  const out = h("bdi");
  let end = 0;
  for (const match of text.matchAll(/https?:\/\/[^\s;,)"<>]+/g)) {
    out.append(text.slice(end, match.index), h("a", { href: match[0], rel: "noreferrer" }, match[0]));
    end = (match.index ?? 0) + match[0].length;
  }
  out.append(text.slice(end));
  return out;
}

/** Returns a table of constants, those of the largest share of a step first. */
export function constantsTable(constants: Constant[]): HTMLElement {
  const ordered = [...constants].sort((a, b) => (b.share_of_step ?? 0) - (a.share_of_step ?? 0));
  return table<Constant>(
    [
      { title: "Constant", value: (row) => row.parameter, show: (row) => identifier(row.parameter) },
      { title: "Value", value: (row) => row.value, show: (row) => (row.unit === "1" ? number(row.value) : `${number(row.value)}\u00a0${row.unit}`.trim()), number: true },
      amount("Share of step", (row) => row.share_of_step, percent),
      { title: "Kind", value: (row) => row.kind, show: (row) => kindBadge(row.kind) },
      { title: "Source", value: (row) => row.source, show: (row) => linked(row.source), wide: true },
    ],
    ordered,
  );
}

/** Returns how much of the answer rests on each kind of evidence: "measured 61.0 %, fitted 12.0 %". */
export function evidence(constants: Constant[]): string {
  const shares = new Map<string, number>();
  for (const one of constants) shares.set(one.kind, (shares.get(one.kind) ?? 0) + (one.share_of_step ?? 0));
  return [...shares]
    .filter(([, share]) => share > 0.0005)
    .sort((a, b) => b[1] - a[1])
    .map(([kind, share]) => `${kind} ${percent(share)}`)
    .join(", ");
}

function tomlValue(value: Json): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(tomlValue).join(", ")}]`;
  return String(value);
}

/** Returns the plan as TOML. */
export function planToml(plan: Json, table = ""): string {
  const own: string[] = [];
  const inner: string[] = [];
  for (const [key, value] of Object.entries<Json>(plan ?? {})) {
    const path = table ? `${table}.${key}` : key;
    if (value === null) continue;
    if (Array.isArray(value) && value.some((one) => one !== null && typeof one === "object" && !Array.isArray(one)))
      for (const one of value) inner.push(`[[${path}]]\n${planToml(one)}`);
    else if (typeof value === "object" && !Array.isArray(value)) inner.push(planToml(value, path));
    else own.push(`${key} = ${tomlValue(value)}`);
  }
  const head = own.length ? (table ? `[${table}]\n` : "") + own.join("\n") + "\n" : "";
  return [head, ...inner].filter(Boolean).join("\n");
}

/** Returns what the plan leaves open of the software and moves the prediction, or null where nothing does. */
export function assumedSection(assumed: Json[] | undefined): HTMLElement | null {
  if (!assumed?.length) return null;
  return section(
    "What was assumed of the software",
    "The plan leaves these open, and with another usual value the prediction changes by more than 5\u00a0%.",
    table<Json>(
      [
        { title: "What", value: (row) => row.name },
        { title: "Predicted with", value: (row) => row.value ?? none },
        { title: "By", value: (row) => row.given_by ?? "default" },
        { title: "With", value: (row) => row.other },
        amount("Change", (row) => row.time_ratio - 1, signedPercent),
        { title: "To set it", value: (row) => row.set, show: (row) => name(`--set ${row.set}`) },
      ],
      assumed,
      { sortable: false },
    ),
  );
}

/** Returns the folded sections that end a page: constants and the plan, where the result has them. */
export function basis(json: Json): HTMLElement[] {
  const parts: HTMLElement[] = [];
  if (json.provenance?.length) {
    const note = evidence(json.provenance);
    parts.push(foldedSection(`${json.provenance.length} constants behind it`, note, () => constantsTable(json.provenance)));
  }
  if (json.plan) parts.push(foldedSection("The effective plan", "every default written out", () => h("pre", {}, planToml(json.plan))));
  return parts;
}
