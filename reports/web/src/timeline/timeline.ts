// A timeline with its tools: choice of ranks, zoom, the map of the whole, a legend.
import { h } from "../dom";
import { legend, legendItem } from "../parts/bars";
import type { Page } from "../view";
import { firstAfter, type Timeline } from "./data";
import { keyActions, listen } from "./input";
import { WholeMap } from "./map";
import { Painter } from "./paint";
import { Picture } from "./picture";
import { rankRows, streamRows, type Part, type Row, type SpanRow } from "./rows";
import { Viewport } from "./viewport";

export interface TimelineOptions {
  /** What the picture shows, for screen readers. */
  label: string;
  /** The streams of this rank only; default: all ranks, and each of them by choice. */
  rank?: number;
  /** These rows only, such as those of ranks without streams. */
  rows?: SpanRow[];
  /** Counters below the streams of a rank, by the beginnings of their names. */
  counters?: readonly string[];
  /** Default: its own, which shows the whole. */
  viewport?: Viewport;
  /** Whether the keys of the page act on it. */
  keys?: boolean;
}

const rowHeight = (rows: number): number => Math.max(3, Math.min(22, Math.floor(460 / rows)));

export class TimelineView {
  readonly element: HTMLElement;
  readonly viewport: Viewport;
  private readonly picture: Picture;
  private readonly colors = h("div");
  private readonly ranks = h("select", { "aria-label": "Rank" });
  private readonly range = h("output", { class: "soft" });

  constructor(
    page: Page,
    private readonly timeline: Timeline,
    private readonly options: TimelineOptions,
  ) {
    const { form, end } = timeline;
    this.viewport = options.viewport ?? new Viewport(end, form.shortest);
    const painter = new Painter(timeline);
    this.picture = new Picture(page, timeline, this.viewport, painter, options.label);
    const map = options.rank === undefined ? new WholeMap(page, form, painter, options.rows ?? rankRows(timeline, 3), this.viewport).element : null;
    this.element = h("div", { class: "timeline" }, this.tools(), this.picture.element, map, this.colors);
    this.viewport.onChange(() => this.showRange());
    listen(this.picture, { open: (x, y) => this.open(x, y) });
    this.addKeys(page);
    this.showRank(options.rank ?? -1);
    this.showRange();
  }

  // Whether one chooses between all ranks and the streams of one.
  private get chooses(): boolean {
    return this.options.rank === undefined && !this.options.rows;
  }

  private tools(): HTMLElement {
    const whole = `whole ${this.options.rank === undefined ? this.timeline.form.whole : "slot"}`;
    const button = (text: string, label: string, action: () => void): HTMLElement => {
      const element = h("button", { type: "button", "aria-label": label, title: label }, text);
      element.addEventListener("click", action);
      return element;
    };
    this.ranks.append(h("option", { value: -1 }, "all ranks"));
    this.timeline.ranks.forEach((name, rank) => this.ranks.append(h("option", { value: rank }, name)));
    this.ranks.addEventListener("change", () => this.showRank(Number(this.ranks.value)));
    return h(
      "div",
      { class: "timeline-tools" },
      this.chooses ? this.ranks : null,
      button("+", "Zoom in", () => this.picture.zoom(2)),
      button("−", "Zoom out", () => this.picture.zoom(0.5)),
      button(whole, `Show the ${whole}`, () => this.viewport.home()),
      this.range,
    );
  }

  // Names the colours of the rows that are shown.
  private legendOf(rows: Row[]): HTMLElement {
    const { spans, form } = this.timeline;
    const part = this.ownPart();
    const used = new Set<number>();
    const levels: HTMLElement[] = [];
    for (const row of rows) {
      if (row.kind === "levels") levels.push(...row.counter.series.map((name, i) => legendItem(row.colors[i], `${row.label}: ${name}`)));
      else
        for (const lane of row.lanes)
          for (let i = firstAfter(this.timeline, lane, part.start); i < lane.last && spans.start[i] < part.end; ++i) used.add(spans.kind[i]);
    }
    const shown = form.kinds.filter((_, i) => used.has(i)).concat(form.ground ?? []);
    return legend(...shown.map((kind) => legendItem(kind.color, kind.name)), ...levels);
  }

  // The part that the picture is about: the whole step, or what a picture of one rank shows at first.
  private ownPart(): Part {
    return this.options.rank === undefined ? { start: 0, end: this.timeline.end } : this.viewport.first;
  }

  private rowsOf(rank: number): Row[] {
    if (this.options.rows) return this.options.rows;
    if (rank >= 0) return streamRows(this.timeline, rank, this.ownPart(), this.options.counters ?? []);
    return rankRows(this.timeline, rowHeight(this.timeline.ranks.length));
  }

  /** Shows the streams of a rank; -1: all ranks. */
  showRank(rank: number): void {
    const rows = this.rowsOf(rank);
    this.ranks.value = String(rank);
    this.picture.show(rows);
    this.colors.replaceChildren(this.legendOf(rows));
  }

  private showRange(): void {
    const { form } = this.timeline;
    const { start, end, length } = this.viewport;
    this.range.textContent = `${form.moment(start, length)} to ${form.moment(end, length)}`;
  }

  private open(x: number, y: number): void {
    const row = this.picture.rowAt(y);
    if (!this.chooses || !row || Number(this.ranks.value) >= 0) return this.viewport.zoom(2, this.picture.timeAt(x));
    this.showRank(row.rank);
  }

  private addKeys(page: Page): void {
    const rankOfChosen = (): number => (this.picture.chosen < 0 ? 0 : this.timeline.spans.rank[this.picture.chosen]);
    const actions = keyActions(
      this.picture,
      this.timeline.form.whole,
      () => this.chooses && this.showRank(rankOfChosen()),
      () => this.chooses && this.showRank(-1),
    );
    this.picture.canvas.addEventListener("keydown", (event) => {
      const known = event.ctrlKey || event.metaKey || event.altKey ? undefined : actions.find((action) => action.key === event.key);
      if (!known) return;
      event.preventDefault();
      event.stopPropagation();
      known.run();
    });
    // Other keys belong to whatever has the focus.
    if (this.options.keys) for (const { key, help, run } of actions) if (key.length === 1) page.key(key, help, run);
  }
}
