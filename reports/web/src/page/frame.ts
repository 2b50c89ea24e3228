// The frame of every page: heading, theme, keyboard help, what made it.
import { h, name } from "../dom";
import type { MadeBy, Result } from "../result";
import type { Page, View } from "../view";

type Theme = "auto" | "light" | "dark";

export class Frame implements Page {
  private readonly drawn: (() => void)[] = [];
  private readonly keys = new Map<string, { help: string; action: () => void }>();
  private readonly help = h("dialog", { "aria-label": "Keyboard" });
  private readonly voice = h("div", { class: "unseen", "aria-live": "polite" });

  constructor() {
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
    window.matchMedia("print").addEventListener("change", () => this.redraw());
    document.addEventListener("keydown", (event) => this.press(event));
    document.body.append(this.voice, this.help);
    this.key("t", "light, dark, or as the system", () => this.nextTheme());
    this.key("?", "this help", () => this.showHelp());
  }

  themed(draw: () => void): void {
    this.drawn.push(draw);
    draw();
  }

  color(property: string): string {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${property}`).trim();
  }

  key(key: string, help: string, action: () => void): void {
    this.keys.set(key, { help, action });
  }

  announce(text: string): void {
    this.voice.textContent = text;
  }

  tools(): HTMLElement {
    const choices = (["auto", "light", "dark"] as const).map((theme) => {
      const input = h("input", { type: "radio", name: "theme", value: theme, checked: theme === "auto" });
      input.addEventListener("change", () => this.setTheme(theme));
      return h("label", {}, input, h("span", {}, theme));
    });
    const keys = h("button", { type: "button", "aria-label": "Keyboard help" }, "?");
    keys.addEventListener("click", () => this.showHelp());
    return h("div", { class: "tools" }, h("fieldset", { "aria-label": "Colours" }, ...choices), keys);
  }

  private setTheme(theme: Theme): void {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    this.redraw();
  }

  private nextTheme(): void {
    const inputs = Array.from(document.querySelectorAll<HTMLInputElement>("input[name=theme]"));
    const next = inputs[(inputs.findIndex((input) => input.checked) + 1) % inputs.length];
    next.checked = true;
    this.setTheme(next.value as Theme);
    this.announce(`colours: ${next.value}`);
  }

  private redraw(): void {
    for (const draw of this.drawn) draw();
  }

  private press(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target instanceof HTMLElement && event.target.matches("input[type=text], input[type=search], textarea, select")) return;
    const known = this.keys.get(event.key);
    if (!known) return;
    event.preventDefault();
    known.action();
  }

  private showHelp(): void {
    const list = h("dl", { class: "keys" });
    for (const [key, { help }] of this.keys) list.append(h("dt", {}, h("kbd", {}, key)), h("dd", {}, help));
    const close = h("button", { type: "button" }, "Close");
    close.addEventListener("click", () => this.help.close());
    this.help.replaceChildren(h("h2", {}, "Keyboard"), list, close);
    if (!this.help.open) this.help.showModal();
  }
}

/** Returns a button that copies the text, and says so for a while. */
export function copyButton(label: string, text: () => string): HTMLElement {
  const button = h("button", { type: "button" }, label);
  button.addEventListener("click", () => {
    void navigator.clipboard?.writeText(text()).then(() => {
      button.textContent = "Copied";
      window.setTimeout(() => (button.textContent = label), 1500);
    });
  });
  return button;
}

function heading(result: Result, view: View): HTMLElement {
  const subtitle = [view.subtitle?.(result), result.name].filter(Boolean).join(" · ");
  return h("div", {}, h("h1", {}, name(view.title(result))), subtitle ? h("p", { class: "soft" }, name(subtitle)) : null);
}

function madeBy(origin: MadeBy): HTMLElement {
  const version = `plumbline ${origin.version}${origin.revision ? ` (${origin.revision})` : ""}`;
  return h(
    "footer",
    {},
    h("div", { class: "command" }, h("code", {}, h("bdi", {}, ...origin.command.split(" ").flatMap((word) => [h("span", {}, word), " "]))), copyButton("Copy", () => origin.command)),
    h("div", {}, `Made by ${version}, ${origin.date}. This file loads nothing from elsewhere.`),
  );
}

/** Draws the results, each with its view. */
export function showPage(results: Result[], origin: MadeBy, viewOf: (result: Result) => View): void {
  const page = new Frame();
  const frame = h("div", { class: "frame" });
  document.body.prepend(frame);
  document.title = `plumbline: ${results.map((result) => viewOf(result).title(result)).join(", ")}`;
  const main = h("main");
  const index = h("nav", { class: "results", "aria-label": "Results" });
  results.forEach((result, i) => {
    const view = viewOf(result);
    const article = h("article", { id: `result-${i + 1}` });
    const head = heading(result, view);
    article.append(i === 0 ? h("header", { class: "top" }, head, page.tools()) : h("header", {}, head));
    index.append(h("a", { href: `#result-${i + 1}` }, name(result.name || view.title(result))));
    if (i === 0 && results.length > 1) article.append(index);
    main.append(article);
    view.render(result, article, page);
  });
  frame.append(main, madeBy(origin));
}
