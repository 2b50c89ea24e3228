// The whole training, and what an executed step learned.
import { h } from "../../dom";
import { days, duration, fixed, grouped, number, scaled } from "../../format";
import { chart } from "../../parts/chart";
import { phasesTable } from "../../parts/phases";
import { section } from "../../parts/section";
import type { Json } from "../../result";
import type { Page } from "../../view";
import { intervalOf } from "./words";

export function runSection(json: Json): HTMLElement | null {
  const { run } = json;
  if (!run) return null;
  const middle = intervalOf(json);
  const longer = middle?.gpu_hours && run.gpu_hours > 0 ? middle.gpu_hours.p50 / run.gpu_hours : 1;
  const lead = `${scaled(run.tokens)} tokens in ${grouped(run.steps)} steps take ${days(middle?.days?.p50 ?? run.days)} at goodput ${fixed(run.goodput, 3)}, ${run.goodput_source}.`;
  return section("The whole training", lead, phasesTable(run, longer));
}

export function trainingSection(page: Page, json: Json): HTMLElement | null {
  const { training } = json;
  if (!training) return null;
  const first = training.first_step ?? 1;
  const points = (values: number[]): [number, number][] => values.map((value, i) => [first + i, value]);
  const step = { title: "step", format: (value: number) => value.toFixed(0), integer: true };
  const draw = training.loss?.length > 1;
  const loss = chart(page, {
    label: "Loss by step",
    x: step,
    y: { title: "loss", format: number },
    series: [{ name: "loss", points: points(training.loss ?? []) }],
  });
  const seconds = chart(page, {
    label: "Seconds of each step",
    x: step,
    y: { title: "step time", format: duration, zero: true },
    series: [{ name: "step time", points: points(training.seconds ?? []), color: "c3" }],
  });
  const last = training.loss?.[training.loss.length - 1];
  const lead = `${training.loss?.length ?? 0} steps on a ${training.clock} clock, ${training.date}; loss ${number(last)} at the end. The step time is the median of ${training.measured_seconds?.length ?? 0}.`;
  return section("What was executed", lead, draw ? h("div", { class: "columns" }, loss, seconds) : null);
}
