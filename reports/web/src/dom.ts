// Elements without markup: text is always set as text, so that no name of a result can become an element.

export type Child = Node | string | number | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined>;

/** Appends children; what is missing is left out. */
export function append(parent: Element, ...children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : String(child));
  }
}

function setAttributes(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

/** Returns an HTML element: h("p", { class: "soft" }, "text", h("b", {}, name)). */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  setAttributes(element, attributes);
  append(element, ...children);
  return element;
}

/** Returns a key such as gemm.fp8.k_time, which breaks between its words only. */
export const identifier = (text: unknown): HTMLElement =>
  h("bdi", { class: "identifier" }, ...(String(text ?? "").match(/[^._/]*[._/]|[^._/]+$/g) ?? []).flatMap((word, i) => (i > 0 ? [h("wbr"), word] : [word])));

/** Returns a name of the user's, whose direction of writing stays its own. */
export const name = (text: unknown): HTMLElement => h("bdi", {}, String(text ?? ""));
