// Lines and points over two axes, drawn by ECharts.
import { LineChart } from "echarts/charts";
import { GridComponent, TooltipComponent } from "echarts/components";
import * as echarts from "echarts/core";
import { SVGRenderer } from "echarts/renderers";
import { h } from "../dom";
import { short } from "../format";
import { legend, legendItem, lineItem, type Line } from "./bars";
import type { Viewport } from "../timeline/viewport";
import type { Page } from "../view";

echarts.use([GridComponent, LineChart, SVGRenderer, TooltipComponent]);

export interface Axis {
  title: string;
  format: (value: number) => string;
  /** Whether the axis begins at zero; default: near the smallest value. */
  zero?: boolean;
  /** Whether only whole numbers have a tick. */
  integer?: boolean;
}

export interface Series {
  name: string;
  points: [number, number][];
  /** A colour of style.css; default: the next categorical one. */
  color?: string;
  /** Points without a line between them. */
  scattered?: boolean;
  /** Areas of series with the same name are stacked. */
  stack?: string;
}

export interface ChartOptions {
  /** What the picture shows, for screen readers. */
  label: string;
  x: Axis;
  y: Axis;
  series: Series[];
  /** Lines across: a capacity, a limit. */
  lines?: Line[];
  /** The part of x that is shown, below which a timeline is drawn; default: all. */
  viewport?: Viewport;
}

type Option = Parameters<ReturnType<typeof echarts.init>["setOption"]>[0];

/** The smallest power of ten by which values about as large as `near` differ in words: closer ticks would have equal labels. */
function resolution(format: (value: number) => string, near: number): number {
  const finest = Math.floor(Math.log10(Math.abs(near) || 1)) - 6;
  for (let power = finest; power < finest + 12; ++power) {
    const labels = Array.from({ length: 10 }, (_, i) => format(near + i * 10 ** power));
    if (new Set(labels).size === labels.length) return 10 ** power;
  }
  return 0;
}

/** An axis over values of which `largest` has the largest amount. */
function axisOption(axis: Axis, largest: number, page: Page, vertical: boolean, viewport?: Viewport): object {
  const inside = vertical && viewport?.gutter === 0;
  const fits = (value: number): boolean => vertical || !viewport || value < viewport.end - viewport.length / 20;
  return {
    type: "value",
    scale: !axis.zero,
    minInterval: Math.max(axis.integer ? 1 : 0, resolution(axis.format, largest)),
    name: axis.title,
    nameLocation: vertical ? "end" : "middle",
    nameGap: vertical ? 12 : 30,
    nameTextStyle: { color: page.color("soft"), fontSize: 12, align: vertical ? "left" : "center" },
    axisLabel: { color: page.color("soft"), fontSize: 12, inside, formatter: (value: number) => (fits(value) ? short(axis.format(value)) : ""), hideOverlap: true, showMinLabel: inside ? false : undefined, alignMinLabel: vertical ? undefined : "left" },
    axisLine: { show: !vertical, lineStyle: { color: page.color("line") } },
    axisTick: { show: false },
    splitLine: { show: vertical, lineStyle: { color: page.color("line") } },
  };
}

const colorOf = (series: Series, i: number): string => series.color ?? `c${(i % 8) + 1}`;

function seriesOption(series: Series, i: number, page: Page): object {
  const color = page.color(colorOf(series, i));
  return {
    name: series.name,
    type: "line",
    data: series.points,
    symbol: "circle",
    symbolSize: series.scattered ? 9 : 5,
    showSymbol: series.scattered || (!series.stack && series.points.length <= 60),
    lineStyle: { width: series.stack || series.scattered ? 0 : 2 },
    itemStyle: { color },
    color,
    stack: series.stack,
    areaStyle: series.stack ? { color, opacity: 0.85 } : undefined,
    animation: false,
  };
}

// A line across from the first to the last value.
function lineOption(line: Line, { x, series }: ChartOptions, page: Page): object {
  const places = series.flatMap((one) => one.points.map(([place]) => place));
  const color = page.color("bad");
  const data = [x.zero ? 0 : Math.min(...places), Math.max(...places)].map((place) => [place, line.value]);
  return { type: "line", data, color, showSymbol: false, silent: true, lineStyle: { width: 1 }, tooltip: { show: false } };
}

const shownPart = ({ viewport }: ChartOptions): object => viewport ? { min: viewport.start, max: viewport.end } : { max: "dataMax" };

// A chart that moves with a timeline begins and ends where that does; labels lie inside where that has none beside its rows.
function optionOf(options: ChartOptions, page: Page): Option {
  const { viewport } = options;
  const largest = (i: 0 | 1): number => options.series.flatMap((one) => one.points).reduce((most, point) => Math.max(most, Math.abs(point[i])), 0);
  return {
    animation: false,
    textStyle: { fontFamily: getComputedStyle(document.body).fontFamily },
    grid: viewport ? { left: viewport.gutter, right: 0, top: 34, bottom: 52, outerBoundsMode: "none" } : { left: 8, right: 20, top: 34, bottom: 34, containLabel: true },
    tooltip: {
      trigger: "axis",
      backgroundColor: page.color("card"),
      borderColor: page.color("line"),
      textStyle: { color: page.color("text"), fontSize: 13 },
      confine: true,
      formatter: (hovered: unknown) => tooltip(hovered, options),
    },
    xAxis: { ...axisOption(options.x, largest(0), page, false, viewport), ...shownPart(options) },
    yAxis: axisOption(options.y, largest(1), page, true, viewport),
    series: [...options.series.map((series, i) => seriesOption(series, i, page)), ...(options.lines ?? []).map((line) => lineOption(line, options, page))],
  } as Option;
}

function tooltip(hovered: unknown, options: ChartOptions): HTMLElement {
  const items = (Array.isArray(hovered) ? hovered : [hovered]) as { seriesName: string; value: [number, number] }[];
  const lines = items.map((item) => h("div", {}, h("bdi", {}, item.seriesName), ": ", h("b", {}, options.y.format(item.value[1]))));
  return h("div", {}, h("div", { class: "soft" }, `${options.x.title} ${options.x.format(items[0].value[0])}`), ...lines);
}

/** Returns a chart that follows the width of its place and the theme of the page. */
export function chart(page: Page, options: ChartOptions): HTMLElement {
  const place = h("div", { class: "chart", role: "img", "aria-label": options.label });
  const lines = options.lines ?? [];
  const names = options.series.map((one, i) => legendItem(colorOf(one, i), one.name)).concat(lines.map((line) => lineItem(line, options.y.format)));
  let drawn: ReturnType<typeof echarts.init> | null = null;
  const draw = (): void => {
    if (!place.clientWidth) return;
    drawn ??= echarts.init(place, null, { renderer: "svg" });
    drawn.resize();
    drawn.setOption(optionOf(options, page), true);
  };
  page.themed(draw);
  options.viewport?.onChange(() => drawn?.setOption({ xAxis: shownPart(options) }, { lazyUpdate: true }));
  new ResizeObserver(draw).observe(place);
  return h("figure", {}, place, names.length > 1 ? legend(...names) : null);
}
