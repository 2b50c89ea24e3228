// Lines and points over two axes, drawn by ECharts.
import { LineChart, ScatterChart } from "echarts/charts";
import { GridComponent, MarkLineComponent, TooltipComponent } from "echarts/components";
import * as echarts from "echarts/core";
import { SVGRenderer } from "echarts/renderers";
import { h } from "../dom";
import { short } from "../format";
import { legend, legendItem } from "./bars";
import type { Viewport } from "../timeline/viewport";
import type { Page } from "../view";

echarts.use([GridComponent, LineChart, MarkLineComponent, ScatterChart, SVGRenderer, TooltipComponent]);

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
  lines?: { name: string; y: number }[];
  /** The part of x that is shown; default: all. */
  viewport?: Viewport;
}

type Option = Parameters<ReturnType<typeof echarts.init>["setOption"]>[0];

function axisOption(axis: Axis, page: Page, vertical: boolean, ends = true): object {
  return {
    type: "value",
    scale: !axis.zero,
    minInterval: axis.integer ? 1 : undefined,
    name: axis.title,
    nameLocation: vertical ? "end" : "middle",
    nameGap: vertical ? 12 : 30,
    nameTextStyle: { color: page.color("soft"), fontSize: 12, align: vertical ? "left" : "center" },
    axisLabel: { color: page.color("soft"), fontSize: 12, formatter: (value: number) => short(axis.format(value)), hideOverlap: true, showMaxLabel: ends ? undefined : false },
    axisLine: { show: !vertical, lineStyle: { color: page.color("line") } },
    axisTick: { show: false },
    splitLine: { show: vertical, lineStyle: { color: page.color("line") } },
  };
}

const colorOf = (series: Series, i: number): string => series.color ?? `c${(i % 8) + 1}`;

function seriesOption(series: Series, i: number, options: ChartOptions, page: Page): object {
  const color = page.color(colorOf(series, i));
  const lines = i === 0 ? (options.lines ?? []) : [];
  return {
    name: series.name,
    type: series.scattered ? "scatter" : "line",
    data: series.points,
    symbol: "circle",
    symbolSize: series.scattered ? 9 : 5,
    showSymbol: !series.stack && series.points.length <= 60,
    lineStyle: { width: series.stack ? 0 : 2 },
    itemStyle: { color },
    color,
    stack: series.stack,
    areaStyle: series.stack ? { color, opacity: 0.85 } : undefined,
    animation: false,
    markLine: lines.length
      ? {
          silent: true,
          symbol: "none",
          lineStyle: { color: page.color("bad"), type: "solid" },
          data: lines.map((line) => ({
            yAxis: line.y,
            label: { formatter: line.name, position: "insideEndTop", color: page.color("bad"), backgroundColor: page.color("card"), padding: [1, 4], borderRadius: 3 },
          })),
        }
      : undefined,
  };
}

// An axis ends with its values, which need not reach a line across.
function topOf(options: ChartOptions): ((values: { max: number }) => number | null) | undefined {
  const line = Math.max(...(options.lines ?? []).map((one) => one.y));
  return options.lines?.length ? ({ max }) => (line > max ? line * 1.02 : null) : undefined;
}

const shownPart = ({ viewport }: ChartOptions): object => viewport ? { min: viewport.start, max: viewport.end } : { max: "dataMax" };

function optionOf(options: ChartOptions, page: Page): Option {
  return {
    animation: false,
    textStyle: { fontFamily: getComputedStyle(document.body).fontFamily },
    grid: { left: 8, right: 20, top: 34, bottom: 34, containLabel: true },
    tooltip: {
      trigger: options.series.every((series) => series.scattered) ? "item" : "axis",
      backgroundColor: page.color("card"),
      borderColor: page.color("line"),
      textStyle: { color: page.color("text"), fontSize: 13 },
      confine: true,
      formatter: (hovered: unknown) => tooltip(hovered, options),
    },
    xAxis: { ...axisOption(options.x, page, false, !options.viewport), ...shownPart(options) },
    yAxis: { ...axisOption(options.y, page, true, !options.lines?.length), max: topOf(options) },
    series: options.series.map((series, i) => seriesOption(series, i, options, page)),
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
  const names = options.series.length > 1 ? legend(...options.series.map((one, i) => legendItem(colorOf(one, i), one.name))) : null;
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
  return h("figure", {}, place, names);
}
