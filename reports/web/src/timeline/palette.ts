// The colours of a picture on canvas, read from the style sheet.
import type { Page } from "../view";
import type { Kind } from "./data";

export interface Palette {
  kinds: string[];
  kindTexts: string[]; // readable on the colour of the kind
  idle: string;
  line: string;
  soft: string;
  text: string;
  card: string;
  accent: string;
  font: string;
  color: (name: string) => string;
  /** A colour as ImageData holds it. */
  pixel: (color: string) => number;
}

const parts = (hex: string): number[] => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

// The luminance of a colour of WCAG 2.
function luminance(hex: string): number {
  const [r, g, b] = parts(hex).map((part) => (part <= 10 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function pixel(hex: string): number {
  const [r, g, b] = parts(hex);
  return new Uint32Array(new Uint8ClampedArray([r, g, b, 255]).buffer)[0];
}

// Black and white are equally readable on a colour of this luminance.
const middleLuminance = 0.179;

// A property may refer to another one: "var(--c1)".
function resolved(page: Page, name: string): string {
  const value = page.color(name);
  const other = /^var\(--([^)]+)\)$/.exec(value);
  return other ? resolved(page, other[1]) : value;
}

export function palette(page: Page, kinds: readonly Kind[]): Palette {
  const color = (name: string): string => resolved(page, name);
  const colors = kinds.map((kind) => color(kind.color));
  return {
    kinds: colors,
    kindTexts: colors.map((one) => (luminance(one) > middleLuminance ? "#0d1117" : "#ffffff")),
    idle: color("idle"),
    line: color("line"),
    soft: color("soft"),
    text: color("text"),
    card: color("card"),
    accent: color("accent"),
    font: getComputedStyle(document.body).fontFamily,
    color,
    pixel,
  };
}
