// The data blocks of a page: what made it, and its results.

/** A document that `--json` writes. Its form is what `plumbline show schema` prints; a view narrows what it reads. */
export type Json = any; // eslint-disable-line @typescript-eslint/no-explicit-any

export interface Result {
  json: Json;
  /** What only pages carry, such as spans; null for a stored result. */
  extra: Json | null;
  /** The file of a stored result; empty for the answer of the verb that wrote the page. */
  name: string;
}

export interface MadeBy {
  command: string;
  version: string;
  revision: string;
  date: string;
}

/** The name of the output, which is that of its schema: simulate, plan-deployments, sweep-tornado. */
export const outputOf = (result: Result): string => String(result.json?.plumbline?.output ?? "");

function blocks(name: string): Json[] {
  const found = document.querySelectorAll<HTMLScriptElement>(`script[data-block="${name}"]`);
  return Array.from(found, (element) => JSON.parse(element.textContent ?? "null"));
}

export const readMadeBy = (): MadeBy => blocks("made-by")[0];

export function readResults(): Result[] {
  const names = blocks("name");
  const extras = blocks("extra");
  return blocks("result").map((json, i) => ({ json, extra: extras[i], name: names[i] }));
}
