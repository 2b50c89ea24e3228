// Any result, as names and values: what a kind without a view of its own gets.
import { h, name, type Child } from "../dom";
import { none, number } from "../format";
import { outputOf, type Json, type Result } from "../result";
import { basis } from "../parts/basis";
import { foldedSection, section } from "../parts/section";
import { pairs, table, type Column } from "../parts/table";
import type { View } from "../view";

const simple = (value: Json): boolean => value === null || typeof value !== "object";
const words = (key: string): string => key.replace(/_/g, " ");

function text(value: Json): Child {
  if (value === null) return none;
  if (typeof value === "number") return number(value);
  if (Array.isArray(value)) return value.every(simple) ? value.map((one) => (typeof one === "number" ? number(one) : String(one))).join(", ") : `${value.length} entries`;
  return typeof value === "object" ? JSON.stringify(value) : name(value);
}

function rowsTable(rows: Json[]): HTMLElement {
  const keys = Array.from(new Set(rows.flatMap((row) => Object.keys(row))));
  const columns: Column<Json>[] = keys.map((key) => ({
    title: words(key),
    value: (row) => (simple(row[key]) ? row[key] : JSON.stringify(row[key])),
    show: (row) => text(row[key] ?? null),
    number: rows.every((row) => row[key] === null || row[key] === undefined || typeof row[key] === "number"),
  }));
  return table(columns, rows);
}

function body(value: Json): HTMLElement {
  if (Array.isArray(value)) return value.length && value.every((one) => one && typeof one === "object" && !Array.isArray(one)) ? rowsTable(value) : h("p", {}, text(value));
  const root = h("div");
  const plain = Object.entries<Json>(value).filter(([, one]) => simple(one) || (Array.isArray(one) && one.every(simple)));
  if (plain.length) root.append(pairs(plain.map(([key, one]) => [words(key), text(one)])));
  for (const [key, one] of Object.entries<Json>(value))
    if (!plain.some(([known]) => known === key)) root.append(h("h3", {}, words(key)), body(one));
  return root;
}

export const any: View = {
  kinds: [],
  title: (result: Result) => `plumbline ${words(outputOf(result))}`,
  render(result, root) {
    const shared = ["plumbline", "plan", "provenance"];
    const own = Object.entries<Json>(result.json).filter(([key]) => !shared.includes(key));
    const plain = own.filter(([, value]) => simple(value));
    if (plain.length) root.append(section("Answer", null, pairs(plain.map(([key, value]) => [words(key), text(value)]))));
    for (const [key, value] of own) {
      if (simple(value)) continue;
      const long = Array.isArray(value) && value.length > 40;
      root.append(long ? foldedSection(words(key), `${value.length} rows`, () => body(value)) : section(words(key), null, body(value)));
    }
    root.append(...basis(result.json));
  },
};
