// Sections of a page: an answer, boxes that explain it, and folded detail.
import { h, type Child } from "../dom";

/** Returns a box with a heading and, if it is not empty, a sentence below it. */
export function section(title: string, lead: Child, ...children: Child[]): HTMLElement {
  return h("section", {}, h("h2", {}, title), lead ? h("p", {}, lead) : null, ...children);
}

/** Returns the sentence that answers the question of the page. */
export const answer = (...children: Child[]): HTMLElement => h("p", { class: "answer" }, ...children);

/** Returns a sentence that the reader must not miss. */
export const notice = (bad: boolean, ...children: Child[]): HTMLElement =>
  h("p", { class: bad ? "notice bad" : "notice" }, ...children);

/** Returns detail behind a summary. The content is built when it is first opened. */
export function fold(summary: Child, build: () => Node): HTMLDetailsElement {
  const details = h("details", {}, h("summary", {}, summary));
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) details.append(build());
  });
  return details;
}

/** Returns a box that is folded as a whole. */
export const foldedSection = (title: string, note: string, build: () => Node): HTMLElement =>
  h("section", { class: "folded" }, fold(h("span", {}, title, note ? h("span", { class: "soft" }, ` – ${note}`) : null), build));
