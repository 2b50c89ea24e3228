// Eight of ten cases of a quantity, written as one would say it: "54 days (48–61)".
import { none, type Quantiles } from "../format";
import type { Json } from "../result";

export interface Range {
  low: number;
  middle: number;
  high: number;
}

const finite = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value);

/** Returns the range of quantiles of a result; null where one of them is not known. */
export function rangeOf(quantiles: Quantiles | null | undefined): Range | null {
  if (!quantiles || !finite(quantiles.p10) || !finite(quantiles.p50) || !finite(quantiles.p90)) return null;
  return { low: quantiles.p10, middle: quantiles.p50, high: quantiles.p90 };
}

/** What a training takes that never ends. */
export const endless: Range = { low: Infinity, middle: Infinity, high: Infinity };

/** Returns the range of trainings of which some never end: quantiles of these are null. */
export function rangeOfTrainings(quantiles: Quantiles | null | undefined): Range | null {
  const end = (value: number): number => (finite(value) ? value : Infinity);
  return quantiles ? { low: end(quantiles.p10), middle: end(quantiles.p50), high: end(quantiles.p90) } : null;
}

/** Returns the range of an interval's quantity, else the value alone. */
export function rangeAround(interval: Json, key: string, value: unknown): Range | null {
  const range = rangeOf(interval?.[key]);
  if (range) return range;
  return finite(value) ? { low: value, middle: value, high: value } : null;
}

export interface Unit {
  factor: number;
  before: string;
  after: string;
}

const unit = (factor: number, after: string, before = ""): Unit => ({ factor, before, after });

export function daysUnit(days: number): Unit {
  if (days >= 2) return unit(1, "\u00a0days");
  return days * 24 >= 2 ? unit(24, "\u00a0hours") : unit(1440, "\u00a0minutes");
}

export function usdUnit(usd: number): Unit {
  if (usd >= 1e6) return unit(1e-6, "\u00a0M", "$");
  return usd >= 1e3 ? unit(1e-3, "\u00a0k", "$") : unit(1, "", "$");
}

export function secondsUnit(seconds: number): Unit {
  if (seconds >= 1) return unit(1, "\u00a0s");
  return seconds >= 1e-3 ? unit(1e3, "\u00a0ms") : unit(1e6, "\u00a0us");
}

export function tokensUnit(tokens: number): Unit {
  if (tokens >= 1e12) return unit(1e-12, "\u00a0T");
  return tokens >= 1e9 ? unit(1e-9, "\u00a0B") : unit(1e-6, "\u00a0M");
}

export const plainUnit = (after: string): Unit => unit(1, after);

const withCommas = (number: string): string => number.replace(/\d+/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ","));

/** Two significant digits of a headline or three of a table, and all digits before the point. */
export function rounded(value: number, digits: number): string {
  if (value === 0) return "0";
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value))));
  return withCommas(value.toFixed(decimals));
}

const noEnd = "no end";

/** 54 days; no end of what is infinite */
export function valueIn(value: number | null | undefined, in_: Unit, digits = 3): string {
  if (value === Infinity) return noEnd;
  return finite(value) ? `${in_.before}${rounded(value * in_.factor, digits)}${in_.after}` : none;
}

/** 60 days, $6 M: an amount that was given, without zeros that nobody wrote. */
export const givenIn = (value: number, in_: Unit): string =>
  `${in_.before}${withCommas(String(Number((value * in_.factor).toPrecision(6))))}${in_.after}`;

/** 48–61: the ends alone, with as many decimals as the middle has; a word joiner keeps them on a line. */
export function endsIn(range: Range, in_: Unit, digits = 3): string {
  const decimals = (/\.(\d+)/.exec(rounded(range.middle * in_.factor, digits))?.[1] ?? "").length;
  const end = (value: number): string => (finite(value) ? withCommas((value * in_.factor).toFixed(decimals)) : noEnd);
  return `${end(range.low)}–\u2060${end(range.high)}`;
}

/** 54 days (48–61); the value alone where nothing was drawn. */
export function rangeIn(range: Range | null, in_: Unit, digits = 3): string {
  if (!range) return none;
  const value = valueIn(range.middle, in_, digits);
  return range.low === range.high || range.middle === Infinity ? value : `${value} (${endsIn(range, in_, digits)})`;
}

/** 46 %, and > 99 % or < 1 % beyond what the draws of an interval resolve. */
export function chance(probability: number | null | undefined): string {
  if (!finite(probability)) return none;
  if (probability < 0.01) return "<\u00a01\u00a0%";
  if (probability > 0.99) return ">\u00a099\u00a0%";
  return `${Math.round(probability * 100)}\u00a0%`;
}
