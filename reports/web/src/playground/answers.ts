// What the predictor answers: figures first, then the interval, where the time goes, memory and the pipeline.
import { h } from "../dom";
import { days, duration, fixed, gigabytes, grouped, number, percent, scaled, signedPercent, span, usd, type Quantiles } from "../format";
import { assumedSection } from "../parts/basis";
import { bars, intervals } from "../parts/bars";
import { figures, type Figure } from "../parts/figures";
import { type Fit, fitOf, fitTone } from "../parts/fit";
import { rankBars } from "../parts/memory";
import { notice, section } from "../parts/section";
import type { Json } from "../result";
import type { Page } from "../view";
import { Pipeline } from "./pipeline";
import type { Failure, Slots } from "./protocol";

const within = (quantiles: Quantiles | undefined, format: (value: number) => string): string =>
  quantiles ? `as clusters run it ${format(quantiles.p50)}; eight of ten: ${span(quantiles, format)}` : "interval follows";

const fitNotes: Record<Fit, string> = { fits: "of", "at the edge": "at the edge of", "does not fit": "does not fit in" };

/** The figures of a step, with their interval where it is known, against another one where one is kept. */
function figuresOf(json: Json, interval: Json | null, kept: Json | null = null): HTMLElement {
  const { step, memory, run } = json;
  const against = kept ? `${signedPercent(step.time_s / kept.step.time_s - 1)} against the kept; ` : "";
  const list: (Figure | null)[] = [
    { name: "Step", value: duration(step.time_s), note: `${against}from components; ${within(interval?.time_s, duration)}` },
    { name: "Tokens/s", value: scaled(step.tokens_per_s), note: `${grouped(step.tokens_per_s_per_gpu)} a GPU` },
    { name: "MFU", value: percent(step.mfu), note: `${number(step.model_tflops_per_gpu)} TFLOP/s a GPU` },
    {
      name: "Memory", value: gigabytes(memory.peak_bytes), tone: fitTone(memory),
      note: `${fitNotes[fitOf(memory)]} ${gigabytes(memory.capacity_bytes)}, rank ${memory.fullest_rank}`,
    },
    run && { name: "Training", value: days(run.days), note: interval ? within(interval.days, days) : `${scaled(run.tokens)} tokens` },
    run?.cost_usd != null
      ? { name: "Cost", value: usd(run.cost_usd), note: within(interval?.cost_usd ?? undefined, usd) }
      : null,
  ];
  return figures(list);
}

/** From the arithmetic at the device's peak to the step: what is lost to what. */
function losses(json: Json): HTMLElement {
  const lost = (json.bound.lost as Json[]).filter((one) => one.seconds > 0).slice(0, 10);
  const row = (label: string, seconds: number, color: string, note = ""): Json => ({
    label: note ? h("span", { title: note }, label) : label,
    parts: [{ name: label, value: seconds, color }],
    text: h("span", {}, duration(seconds), h("span", { class: "share" }, percent(seconds / json.step.time_s))),
  });
  const rows = lost.map((one) => row(one.cause, one.seconds, "c2", one.remedy));
  return bars([row("lower bound", json.bound.time_s, "accent", `what ${json.bound.binds} takes at least`), ...rows], { whole: json.step.time_s, legend: false });
}

export class Answers {
  /** The figures, and what is wrong. */
  readonly headline = h("div", { class: "headline" });
  /** What explains them. */
  readonly root = h("div", { class: "answers" });
  private readonly problem = h("div", { role: "status" });
  private readonly top = h("div", {});
  private readonly shelf = h("div", { class: "shelf" });
  private readonly spread = section("How sure", "Eight of ten such predictions lie within the bar.", h("div", {}));
  private readonly assumed = h("div", {});
  private readonly time = section("Where the time goes", "The proven lower bound of the step, and the largest losses against it; point at a name for its remedy.", h("div", {}));
  private readonly memory = section("Memory", "The peak of each pipeline rank.", h("div", {}));
  private readonly pipeline: Pipeline;
  private readonly speed = h("p", { class: "soft" });
  private last: Json | null = null;
  private interval: Json | null = null;
  private kept: Json | null = null;

  constructor(page: Page) {
    this.pipeline = new Pipeline(page);
    const slots = section("Pipeline", "Every slot of every rank; grey is the bubble.", this.pipeline.root);
    this.headline.append(this.problem, this.top);
    this.root.append(this.shelf, this.spread, this.assumed, this.time, this.memory, slots, this.speed);
    for (const part of [this.spread, this.time, this.memory]) part.lastElementChild?.classList.add("content");
  }

  show(json: Json, seconds: number): void {
    this.last = json;
    this.interval = null;
    this.mark(false);
    const warnings = (json.basis.warnings as string[]).map((text) => notice(false, text));
    this.problem.replaceChildren(...warnings);
    this.showFigures();
    for (const part of [this.spread, this.assumed]) part.classList.add("stale");
    this.time.lastElementChild?.replaceChildren(losses(json));
    this.memory.lastElementChild?.replaceChildren(rankBars(json.memory));
    this.speed.textContent = `Predicted in ${fixed(seconds * 1e3, 0)} ms.`;
  }

  showInterval(json: Json): void {
    if (!this.last || !json.interval) return;
    this.interval = json.interval;
    this.showFigures();
    for (const part of [this.spread, this.assumed]) part.classList.remove("stale");
    this.assumed.replaceChildren(assumedSection(json.assumed) ?? "");
    const { time_s: time } = json.interval;
    const row = { label: "step", ...time, point: json.step.time_s, text: span(time, duration) };
    const sources = (json.interval.parts as Json[]).slice(0, 3).map((part) => `${part.source} ${percent(part.share)}`);
    this.spread.lastElementChild?.replaceChildren(
      intervals([row], { format: duration, pointName: "this prediction" }),
      h("p", { class: "soft" }, `Most of it: ${sources.join(", ")}.`),
    );
  }

  private showFigures(): void {
    this.top.replaceChildren(figuresOf(this.last, this.interval, this.kept));
  }

  /** Keeps the present figures below those that follow; `command` says what they are of. */
  keep(command: string): void {
    if (!this.last) return;
    const drop = h("button", { type: "button" }, "Drop the kept");
    drop.addEventListener("click", () => {
      this.kept = null;
      this.shelf.replaceChildren();
      this.showFigures();
    });
    this.kept = this.last;
    this.shelf.replaceChildren(h("p", { class: "soft" }, "Kept: ", h("code", {}, command)), figuresOf(this.last, this.interval), drop);
    this.showFigures();
  }

  showPipeline(slots: Slots): void {
    this.pipeline.show(slots);
  }

  /** Marks all answers as those of an earlier plan. */
  private mark(stale: boolean): void {
    this.root.classList.toggle("stale", stale);
    this.top.classList.toggle("stale", stale);
  }

  fail(failure: Failure): void {
    this.mark(true);
    const where = failure.key ? `${failure.key}: ` : failure.line ? `line ${failure.line}: ` : "";
    this.problem.replaceChildren(notice(true, h("bdi", {}, `${where}${failure.message}`), failure.hint ? h("span", { class: "soft" }, ` – ${failure.hint}`) : null));
  }
}
