// Whether a plan fits in memory: by its probability where it was drawn, else by its peak.
import { chance } from "../plan/ranges";
import type { Json } from "../result";
import type { Figure } from "./figures";

export type Fit = "fits" | "at the edge" | "does not fit";

export const fitOf = (memory: Json): Fit => memory.verdict ?? (memory.fits ? "fits" : "does not fit");

/** fits with 71 %; empty where nothing was drawn */
export const fitWords = (memory: Json): string =>
  typeof memory.fits_probability === "number" ? `fits with ${chance(memory.fits_probability)}` : "";

const tones: Record<Fit, Figure["tone"]> = { fits: undefined, "at the edge": "warn", "does not fit": "bad" };
export const fitTone = (memory: Json): Figure["tone"] => tones[fitOf(memory)];
