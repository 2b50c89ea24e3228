// What the reader has chosen: a plan, and changes to its keys. The fragment of the page's address holds all of it.
import type { Question, Shipped } from "./protocol";

export interface State {
  /** The name of a shipped plan, or null for one of the reader's own. */
  plan: string | null;
  /** The text of the reader's own plan. */
  toml: string;
  /** The config.json of the reader's own model; empty: none. */
  config: string;
  changes: Record<string, string>;
}

const firstPlan = "llama-3-8b-64xh800";
export const ownModel = "model.json";

function encode(text: string): string {
  const bytes = Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
  return btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function decode(text: string): string {
  const bytes = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return new TextDecoder().decode(Uint8Array.from(bytes, (char) => char.charCodeAt(0)));
}

export function fragmentOf(state: State): string {
  const parts = new URLSearchParams();
  if (state.plan) parts.set("plan", state.plan);
  else parts.set("toml", encode(state.toml));
  if (state.config) parts.set("config", encode(state.config));
  for (const [key, value] of Object.entries(state.changes)) parts.set(key, value);
  return parts.toString();
}

/** Returns the state of a fragment; what it lacks or what cannot be read is as at first. */
export function stateOf(fragment: string, shipped: Shipped): State {
  const state: State = { plan: firstPlan, toml: "", config: "", changes: {} };
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  const text = (name: string): string => {
    try {
      return decode(given.get(name) ?? "");
    } catch {
      return "";
    }
  };
  const plan = given.get("plan");
  if (plan && Object.keys(shipped.plans).includes(plan)) state.plan = plan;
  state.toml = text("toml");
  if (state.toml) state.plan = null;
  state.config = text("config");
  for (const [key, value] of given) if (key.includes(".")) state.changes[key] = value;
  return state;
}

const changesOf = (state: State): string[] => Object.entries(state.changes).map(([key, value]) => `${key}=${value}`);

export const questionOf = (state: State, shipped: Shipped): Question => ({
  plan: state.plan ? shipped.plans[state.plan] : state.toml,
  changes: changesOf(state),
  files: state.config ? { [ownModel]: state.config } : {},
});

const quoted = (word: string): string => (/^[\w.,=/:@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/** Returns the command that prints the same figures. */
export function commandOf(state: State): string {
  const words = ["plumbline", "simulate", state.plan ?? "plan.toml", "--fidelity", "closed-form"];
  for (const change of changesOf(state)) words.push("--set", change);
  return words.map(quoted).join(" ");
}
