// What draws a kind of result.
import type { Result } from "./result";

export interface View {
  /** The outputs that it draws (plumbline.output of the JSON). */
  kinds: readonly string[];
  /** The heading of the page, plain text. */
  title(result: Result): string;
  /** A line below it: hardware, parallelism, fidelity. */
  subtitle?(result: Result): string;
  /** Adds sections (parts/section.ts) to the root: the answer first, then why, then detail that is folded. */
  render(result: Result, root: HTMLElement, page: Page): void;
}

/** What the frame of the page offers to its views. */
export interface Page {
  /** Calls `draw` now, and again whenever colours change (theme, print); for what CSS does not colour. */
  themed(draw: () => void): void;
  /** The colour of a custom property of style.css: color("accent"). */
  color(name: string): string;
  /** Adds a key to the keyboard help: key("+", "zoom in", zoomIn). Keys are ignored while text is entered. */
  key(key: string, help: string, action: () => void): void;
  /** Says something to screen readers. */
  announce(text: string): void;
}
