// What the page and its workers say to each other, and what the command says to the page.

/** A plan in TOML and KEY=VALUE changes to it; files that it names, by their name. */
export interface Question {
  plan: string;
  changes: string[];
  files: Record<string, string>;
}

export type Request =
  | { kind: "start"; module: WebAssembly.Module }
  | { id: number; kind: "simulate"; question: Question; draws: number }
  | { id: number; kind: "pipeline"; question: Question };

/** The JSON that answers, and how long it took; `start` has no answer. */
export interface Reply {
  id: number;
  text: string;
  seconds: number;
}

/** What a reader can choose, and what keys of plans mean; cli/playground.cc writes it. */
export interface Shipped {
  version: string;
  plans: Record<string, string>;
  models: string[];
  topologies: string[];
  profiles: string[];
  keys: Record<string, { unit: string; meaning: string; words: string[] }>;
}

export interface Failure {
  kind: "input" | "infeasible";
  key: string;
  line: number;
  message: string;
  hint: string;
}

/** The slots of a step by column. */
export interface Slots {
  ranks: number;
  end_s: number;
  names: string[];
  rank: number[];
  start_s: number[];
  duration_s: number[];
  name: number[];
  micro_batch: number[];
}
