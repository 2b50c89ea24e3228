// Numbers as the command prints them (reports/quantities.h), which no line break parts from their units. What was not
// computed is a dash.

export const none = "–";
export type Maybe = number | null | undefined;

const missing = (value: Maybe): value is null | undefined =>
  value === null || value === undefined || Number.isNaN(value);

/** 2.50 */
export const fixed = (value: Maybe, digits: number): string => (missing(value) ? none : value.toFixed(digits));

/** Rounded to an integer: 2,664,000. */
export function grouped(value: Maybe): string {
  if (missing(value)) return none;
  const digits = Math.abs(value).toFixed(0).replace(/\B(?=(\d{3})+$)/g, ",");
  return (value <= -0.5 ? "-" : "") + digits;
}

/** 1 GPU, 2,048 GPUs */
export const counted = (count: number, noun: string): string => `${grouped(count)}\u00a0${noun}${count === 1 ? "" : "s"}`;

/** Four significant digits. */
function fourDigits(value: number): string {
  const magnitude = Math.abs(value);
  if (magnitude >= 999.95) return value.toFixed(0);
  if (magnitude >= 99.995) return value.toFixed(1);
  if (magnitude >= 9.9995) return value.toFixed(2);
  return value.toFixed(3);
}

/** Four digits, grouped: 20.00, 1,320, 2,664,000. */
export function number(value: Maybe): string {
  if (missing(value)) return none;
  const magnitude = Math.abs(value);
  if (magnitude >= 1e12 || (magnitude > 0 && magnitude < 1)) return String(Number(value.toPrecision(4)));
  return magnitude >= 999.95 ? grouped(value) : fourDigits(value);
}

/** Four digits with the fitting unit: 19.93 s, 129.0 ms, 12.00 us. */
export function duration(seconds: Maybe): string {
  if (missing(seconds)) return none;
  const magnitude = Math.abs(seconds);
  if (magnitude >= 1 || magnitude === 0) return `${fourDigits(seconds)}\u00a0s`;
  if (magnitude >= 1e-3) return `${fourDigits(seconds * 1e3)}\u00a0ms`;
  return `${fourDigits(seconds * 1e6)}\u00a0us`;
}

/** 1 GB = 1e9 B, one decimal: 84.9 GB. */
export const gigabytes = (bytes: Maybe): string => (missing(bytes) ? none : `${(bytes / 1e9).toFixed(1)}\u00a0GB`);

/** 0.438 -> 43.8 % */
export const percent = (fraction: Maybe): string => (missing(fraction) ? none : `${(fraction * 100).toFixed(1)}\u00a0%`);

/** 0.012 -> +1.2 % */
export const signedPercent = (fraction: Maybe): string =>
  missing(fraction) ? none : `${fraction < 0 ? "-" : "+"}${Math.abs(fraction * 100).toFixed(1)}\u00a0%`;

/** 14.80 T, 2.664 M, 512 */
export function scaled(value: Maybe): string {
  if (missing(value)) return none;
  const units: [number, string][] = [[1e12, "T"], [1e9, "B"], [1e6, "M"]];
  for (const [factor, unit] of units) if (Math.abs(value) >= factor) return `${fourDigits(value / factor)}\u00a0${unit}`;
  return grouped(value);
}

/** Dollars of a million tokens, or of an hour: $0.521 */
export const perMillion = (value: Maybe): string => (missing(value) ? none : `$${value < 1000 ? value.toFixed(3) : grouped(value)}`);
/** $5.329 M, and $4.33 below a hundred */
export const usd = (value: Maybe): string => (missing(value) ? none : `$${Math.abs(value) < 100 ? value.toFixed(2) : scaled(value)}`);
/** Three digits, as no predicted cost is known to more: $5.33 M, $89,000 */
export const aboutUsd = (value: Maybe): string => usd(missing(value) ? value : Number(value.toPrecision(3))).replace(/\.?\d(?=\s)/, "");

/** The label of a tick, without zeros that say nothing: 50.00 s -> 50 s. */
export const short = (text: string): string => text.replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");

/** 42.3 s, 30.8 min, 13.0 h: lengths of which nobody needs the seconds. */
export function long(seconds: Maybe): string {
  if (missing(seconds) || seconds < 120) return duration(seconds);
  return seconds < 7200 ? `${(seconds / 60).toFixed(1)}\u00a0min` : `${(seconds / 3600).toFixed(1)}\u00a0h`;
}

/** 57.2 days, and 0.058 days of a fine-tuning of an hour or two */
export const days = (value: Maybe): string =>
  missing(value) ? none : `${value.toFixed(value < 1 ? 3 : 1)}\u00a0days`;

export interface Quantiles {
  p10: number;
  p50: number;
  p90: number;
}

/** "19.31 to 22.75 s": both ends, the unit once where it is the same. */
export function span(quantiles: Quantiles | null | undefined, format: (value: number) => string): string {
  if (!quantiles) return none;
  const low = format(quantiles.p10);
  const high = format(quantiles.p90);
  const unit = /(\s[^\s\d]+)$/.exec(high)?.[1] ?? "";
  return `${unit && low.endsWith(unit) ? low.slice(0, -unit.length) : low} to ${high}`;
}
