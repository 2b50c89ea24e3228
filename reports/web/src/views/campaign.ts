// A whole training with its failures: days, cost, goodput, where time goes, checkpoints, spares, GPUs by a date.
import { append, type Child, h, name } from "../dom";
import { aboutUsd, counted, days, duration, fixed, grouped, long, number, percent, scaled, span } from "../format";
import type { Json, Result } from "../result";
import { bars, intervals } from "../parts/bars";
import { basis, constantsTable } from "../parts/basis";
import { lostParts } from "../parts/campaign";
import { chart } from "../parts/chart";
import { figures } from "../parts/figures";
import { phasesTable } from "../parts/phases";
import { answer, fold, foldedSection, notice, section } from "../parts/section";
import { amount, table } from "../parts/table";
import { leftSentence, sourcesTable } from "../parts/uncertainty";
import { chance } from "../plan/ranges";
import { timesIn } from "../timeline/axis";
import { plainTimeline, type Form, type Kind } from "../timeline/data";
import type { SpanRow } from "../timeline/rows";
import { TimelineView } from "../timeline/timeline";
import { Viewport } from "../timeline/viewport";
import type { Page, View } from "../view";
import { degrees, hardware, line, modelName } from "./subject";

const secondsOfDay = 86400;

function whereTimeGoes(campaign: Json): HTMLElement {
  const times = campaign.mean_time_s;
  const rows = lostParts(campaign)
    .filter((part) => part.value > 0)
    .sort((a, b) => b.value - a.value)
    .map((part) => ({ label: part.name, parts: [part], text: h("span", {}, long(part.value), h("small", {}, `  ${percent(part.value / times.total_s)}`)) }));
  const lead = `${percent(times.useful_s / times.total_s)} of the time are steps that count. The rest, mean of ${campaign.seeds} simulated campaigns:`;
  return section("Where time is lost", lead, bars(rows, { legend: false, format: long }));
}

/** What happens to a campaign, by the first word of its events; restarts follow failures, and the end is that of the axis. */
const eventKinds: Kind[] = [
  { name: "failure", color: "c5" },
  { name: "slow", color: "c8" },
  { name: "evicted", color: "c4" },
  { name: "planned stop", color: "c7" },
  { name: "waits for nodes", color: "c6" },
  { name: "never finishes", color: "bad" },
];
/** Failures with a row of their own; the rarer ones share a row. */
const mostFailures = 7;
/** The shortest part of a campaign that can be shown. */
const shortestDays = 0.01;
const asDay = (value: number): string => `${number(value)}\u00a0d`;

/** A row of events. */
interface EventRow {
  label: string;
  kind: number;
  events: Json[];
}

function eventRows(events: Json[]): EventRow[] {
  const rows = new Map<string, EventRow>();
  for (const event of events) {
    const [word, cause] = String(event.what).split(": ");
    const kind = eventKinds.findIndex((one) => one.name === word);
    if (kind < 0) continue;
    const label = word === "evicted" ? `evicted ${cause}` : (cause ?? word);
    if (!rows.has(label)) rows.set(label, { label, kind, events: [] });
    rows.get(label)?.events.push(event);
  }
  const ordered = [...rows.values()].sort((a, b) => b.events.length - a.events.length);
  const failing = ordered.filter((row) => row.kind === 0);
  const rest = failing.splice(failing.length > mostFailures + 1 ? mostFailures : failing.length);
  const shared = { label: `${rest.length} rarer failures`, kind: 0, events: rest.flatMap((row) => row.events) };
  return [...failing, ...(rest.length ? [shared] : []), ...ordered.filter((row) => row.kind !== 0)];
}

/** The events of a campaign over its days, a row for each sort. */
function eventTimeline(page: Page, rows: EventRow[], viewport: Viewport): HTMLElement {
  const all = rows.flatMap((row, rank) => row.events.map((event) => ({ event, rank }))).sort((a, b) => a.rank - b.rank || a.event.time_s - b.event.time_s);
  const form: Form = {
    ...timesIn(" d"),
    whole: "campaign",
    shortest: shortestDays,
    kinds: eventKinds,
    describe: (_, i) => {
      const { time_s, what, lost_s, progress } = all[i].event;
      const list: [string, string][] = [["at", `${fixed(time_s / secondsOfDay, 3)} d`], ["tokens trained", percent(progress)]];
      if (lost_s > 0) list.push(["work lost", long(lost_s)]);
      return { title: what, rows: list };
    },
  };
  const spans = all.map(({ event, rank }) => ({ rank, name: -1, kind: rows[rank].kind, start: event.time_s / secondsOfDay, end: event.time_s / secondsOfDay }));
  const timeline = plainTimeline(form, rows.map((row) => row.label), viewport.whole, [], spans);
  const label = `${all.length} events over ${days(viewport.whole)}. Arrow keys move, plus and minus zoom, full stop and comma choose events.`;
  const drawn = timeline.lanes.map((lane): SpanRow => ({ kind: "spans", label: `${rows[lane.rank].label}: ${grouped(rows[lane.rank].events.length)}`, rank: lane.rank, lanes: [lane], height: 18 }));
  return new TimelineView(page, timeline, { label, rows: drawn, viewport, keys: true }).element;
}

/** One campaign over its days: what it has trained, and what happened to it. */
function oneCampaign(page: Page, campaign: Json): HTMLElement | null {
  const events: Json[] = campaign.events ?? [];
  if (events.length === 0) return null;
  const waits = events.filter((event) => event.what === "waits for nodes").length;
  const rows = eventRows(events);
  const viewport = new Viewport(events[events.length - 1].time_s / secondsOfDay, shortestDays);
  const lead = `The first of ${campaign.seeds} simulated campaigns, with ${grouped(events.filter((event) => event.what.startsWith("failure")).length)} failures. A checkpoint is written every ${long(campaign.checkpoint.interval_s)}; ${waits ? `${grouped(waits)} times no spare node was left` : "a spare node was left each time"}. Drag the events to move; pinch, or turn the wheel with Ctrl, to zoom.`;
  const timeline = rows.length ? eventTimeline(page, rows, viewport) : null;
  return section(
    "Day by day",
    lead,
    chart(page, {
      label: "Share of all tokens that are trained, over the days of a campaign",
      x: { title: "time", format: asDay, zero: true },
      y: { title: "tokens trained", format: (share) => `${(share * 100).toFixed(0)} %`, zero: true },
      series: [{ name: "trained", points: [[0, 0], ...events.map((event): [number, number] => [event.time_s / secondsOfDay, event.progress])], color: "c3" }],
      viewport,
    }),
    timeline,
    rows.length ? fold("As a table", () => eventTable(rows)) : null,
  );
}

function eventTable(rows: EventRow[]): HTMLElement {
  return table<EventRow>(
    [
      { title: "What happens", value: (row) => row.label },
      { title: "Times", value: (row) => row.events.length, number: true },
      amount("First at", (row) => Math.min(...row.events.map((event) => event.time_s)) / secondsOfDay, (value) => `${fixed(value, 1)} d`),
    ],
    rows,
  );
}

function checkpoints(campaign: Json): HTMLElement {
  const checkpoint = campaign.checkpoint;
  const lead = `Best every ${long(checkpoint.interval_s)} (Young: ${long(checkpoint.young_s)}, Daly: ${long(checkpoint.daly_s)}). Writing one stops the training for ${duration(checkpoint.stall_s)}.`;
  return section(
    "Checkpoints",
    lead,
    intervals(
      checkpoint.intervals.map((one: Json) => ({ label: h("span", {}, `${one.name} `, h("small", {}, long(one.interval_s))), ...one.days, text: `goodput ${percent(one.goodput)}` })),
      { format: asDay },
    ),
  );
}

function spares(campaign: Json): HTMLElement | null {
  if (!campaign.spares?.length) return null;
  return section(
    "Spare nodes",
    `The plan has ${campaign.spare_nodes}.`,
    intervals(
      campaign.spares.map((one: Json) => ({ label: counted(one.spare_nodes, "spare"), ...one.days, text: `goodput ${percent(one.goodput)}` })),
      { format: asDay },
    ),
  );
}

/** The answer to --finish-by. */
function finishWords({ gpus, days: limit, tried }: Json): Child[] {
  if (!gpus) return [h("b", {}, "No number of GPUs"), ` that was tried ends within ${days(limit)} in nine of ten cases.`];
  const found = tried.find((row: Json) => row.gpus === gpus);
  return [h("b", {}, counted(gpus, "GPU")), ` are the fewest that end within ${days(limit)} in nine of ten cases: after ${span(found.days, days)} in eight of ten, in time with ${chance(found.in_time)}.`];
}

function finishBy(campaign: Json): HTMLElement | null {
  const wanted = campaign.finish_by;
  if (!wanted) return null;
  return section(
    "GPUs by the date",
    null,
    table<Json>(
      [
        { title: "GPUs", value: (row) => row.gpus, show: (row) => grouped(row.gpus) },
        amount("Step", (row) => row.step_s, duration),
        { title: "Days, P10 to P90", value: (row) => row.days?.p50, show: (row) => (row.days ? span(row.days, days) : "–"), number: true },
        amount("In time", (row) => row.in_time, chance),
        { title: "Why not", value: (row) => row.reason, show: (row) => row.reason ?? "", wide: true },
      ],
      wanted.tried,
      { rowClass: (row) => (row.gpus === wanted.gpus ? "best" : null) },
    ),
  );
}

function failures(campaign: Json): HTMLElement {
  return table<Json>(
    [
      { title: "Failure", value: (row) => row.name },
      { title: "Times in the campaign", value: (row) => row.mean_times, show: (row) => fixed(row.mean_times, 2), number: true },
      { title: "Per million GPU-hours", value: (row) => row.per_gpu_hour, show: (row) => number(row.per_gpu_hour * 1e6), number: true },
      amount("Detected after", (row) => row.detect_s, long),
      amount("Repaired after", (row) => row.repair_s, long),
    ],
    [...campaign.failures].sort((a: Json, b: Json) => (b.mean_times ?? 0) - (a.mean_times ?? 0)),
  );
}

/** What the reader must not miss of memory; empty where the plan fits. */
const fitWarning = (fit: Json): string => {
  if (!fit || fit.verdict === "fits") return "";
  return fit.verdict === "does not fit" ? " Memory does not suffice." : ` Memory is not certain to suffice: it does with ${chance(fit.probability)}.`;
};

function head(json: Json): HTMLElement[] {
  const { campaign, run } = json;
  const parts: HTMLElement[] = [];
  const { days: taken, cost_usd: cost, finish_by: wanted } = campaign;
  const ends = typeof taken?.p50 === "number";
  if (wanted && !ends) parts.push(answer(...finishWords(wanted), fitWarning(json.fit)));
  if (ends)
    parts.push(
      answer(...(wanted ? [...finishWords(wanted), ` On ${counted(json.plan.cluster.gpus, "GPU")} the training takes `] : ["The training takes "]), h("b", {}, days(taken.p50)), ` (${span(taken, days)} in eight of ten cases)`,
        ...(cost?.p50 ? [" and costs ", h("b", {}, aboutUsd(cost.p50)), ` (${span(cost, aboutUsd)}).`] : ["."]), fitWarning(json.fit)),
    );
  if (campaign.never) parts.push(notice(true, name(campaign.never)));
  parts.push(
    figures([
      { name: "Goodput", value: percent(campaign.goodput?.p50), note: `of the time are steps that count; ${span(campaign.goodput, percent)} in eight of ten cases` },
      { name: "Failures", value: fixed(campaign.interruptions?.p50, 0), note: campaign.hours_between_failures ? `one every ${number(campaign.hours_between_failures)} hours` : null },
      { name: "GPU-hours", value: scaled(campaign.gpu_hours?.p50), note: span(campaign.gpu_hours, scaled) },
      run?.total_cost_usd ? { name: "All phases", value: aboutUsd(run.total_cost_usd), note: `${scaled(run.total_gpu_hours)} GPU-hours, stated phases included` } : null,
      { name: "Campaigns that finish", value: `${grouped(campaign.finished * campaign.seeds)}\u00a0of\u00a0${grouped(campaign.seeds)}`, note: "simulated", tone: campaign.finished < 1 ? "bad" : undefined },
    ]),
  );
  return parts;
}

export const campaign: View = {
  kinds: ["campaign"],
  title: (result: Result) => `The whole training of ${modelName(result.json.plan)}`,
  subtitle: (result) => line(hardware(result.json.plan), degrees(result.json.plan), result.json.campaign.start && `from ${result.json.campaign.start}`),
  render(result, root, page) {
    const { json } = result;
    const { campaign: answered, interval, run } = json;
    append(
      root,
      ...head(json),
      finishBy(answered),
      oneCampaign(page, answered),
      whereTimeGoes(answered),
      checkpoints(answered),
      spares(answered),
      interval?.parts?.length ? section("How sure is the step?", `A step takes ${span(interval.time_s, duration)} in eight of ten cases.`, sourcesTable(interval.parts), leftSentence(interval)) : null,
      run?.phases?.length ? section("Phases", null, phasesTable(run, 1)) : null,
      foldedSection("What fails", answered.reliability, () => failures(answered)),
      foldedSection("Rates behind it", `${json.reliability.length} with their sources`, () => constantsTable(json.reliability)),
      ...basis(json),
    );
  },
};
