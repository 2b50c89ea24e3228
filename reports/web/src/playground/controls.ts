// The choices of the reader: one control for each key of the plan that matters most, and a field for all others.
import { h } from "../dom";
import { grouped } from "../format";
import type { Json } from "../result";
import type { Shipped } from "./protocol";
import { ownModel, type State } from "./state";

interface Choice {
  key: string;
  label: string;
  /** Values of a slider. */
  values?: number[];
  /** Words of a list; default: those of the key. */
  words?: (shipped: Shipped) => string[];
  /** A number that is typed. */
  typed?: boolean;
  unit?: string;
}

const powers = (first: number, last: number): number[] => {
  const list = [];
  for (let value = first; value <= last; value *= 2) list.push(value);
  return list;
};
const steps = (first: number, last: number, step: number): number[] =>
  Array.from({ length: (last - first) / step + 1 }, (_, i) => first + i * step);

const groups: [string, Choice[]][] = [
  ["Model and cluster", [
    { key: "model.config", label: "Model", words: (shipped) => shipped.models },
    { key: "cluster.topology", label: "Cluster", words: (shipped) => shipped.topologies },
    { key: "cluster.gpus", label: "GPUs", values: powers(8, 32768) },
    { key: "precision.gemm", label: "GEMMs in" },
  ]],
  ["Batch", [
    { key: "batch.sequence_length", label: "Sequence length", values: powers(1024, 131072), unit: "tokens" },
    { key: "batch.micro_batch_size", label: "Micro-batch", values: powers(1, 16), unit: "sequences" },
    { key: "batch.global_batch_size", label: "Global batch", values: powers(64, 32768), unit: "sequences" },
  ]],
  ["Parallelism", [
    { key: "parallelism.tensor", label: "Tensor", values: powers(1, 16) },
    { key: "parallelism.context", label: "Context", values: powers(1, 32) },
    { key: "parallelism.pipeline", label: "Pipeline", values: powers(1, 32) },
    { key: "schedule.virtual_stages", label: "Virtual stages", values: powers(1, 8) },
    { key: "parallelism.expert", label: "Expert", values: powers(1, 128) },
    { key: "parallelism.zero_stage", label: "ZeRO stage", values: [0, 1, 2, 3] },
    { key: "schedule.kind", label: "Schedule" },
  ]],
  ["Memory and overlap", [
    { key: "recompute.policy", label: "Recomputation" },
    { key: "overlap.communication_sms", label: "SMs for communication", values: steps(0, 64, 4) },
  ]],
  ["Run", [
    { key: "run.tokens", label: "Tokens", typed: true },
    { key: "run.price_usd_per_gpu_hour", label: "Price", typed: true, unit: "USD per GPU-hour" },
  ]],
];
const known = new Set(groups.flatMap(([, choices]) => choices.map((choice) => choice.key)));

/** Keys after whose change the plan's own numbers of layers no longer fit. */
const respread = new Set(["model.config", "parallelism.pipeline", "schedule.kind", "schedule.virtual_stages"]);
const layers = "schedule.layers_per_stage";

const valueAt = (plan: Json, key: string): Json => key.split(".").reduce((at, part) => at?.[part], plan) ?? null;

/** What the plan's value is among the words of a list: the name of a model is that of its file. */
const wordOf = (value: Json): string => String(value ?? "").replace(/^.*\//, "").replace(/\.json$/, "");

export class Controls {
  readonly root = h("form", { class: "controls", "aria-label": "Plan" });
  private readonly showing: ((plan: Json) => void)[] = [];

  constructor(
    private readonly shipped: Shipped,
    private readonly state: State,
    private readonly changed: () => void,
  ) {
    this.root.addEventListener("submit", (event) => event.preventDefault());
    this.root.append(this.start());
    for (const [title, choices] of groups)
      this.root.append(h("fieldset", {}, h("legend", {}, title), ...choices.map((choice) => this.control(choice))));
    this.root.append(this.others());
  }

  /** Shows the values of the effective plan. */
  show(plan: Json): void {
    for (const show of this.showing) show(plan);
  }

  private set(key: string, value: string): void {
    this.state.changes[key] = value;
    if (respread.has(key)) this.state.changes[layers] = "balanced";
    this.changed();
  }

  private control(choice: Choice): HTMLElement {
    const about = this.shipped.keys[choice.key];
    const id = `key-${choice.key.replace(".", "-")}`;
    const unit = choice.unit ? h("span", { class: "soft" }, ` ${choice.unit}`) : null;
    const label = h("label", { for: id, title: `${choice.key}: ${about?.meaning ?? ""}` }, choice.label, unit);
    if (choice.values) return h("div", { class: "control" }, label, ...this.slider(id, choice));
    if (choice.typed) return h("div", { class: "control" }, label, this.typed(id, choice));
    return h("div", { class: "control" }, label, this.list(id, choice));
  }

  /** A slider over usual values, beside a field for any value. */
  private slider(id: string, choice: Choice): HTMLElement[] {
    let values = choice.values ?? [];
    const range = h("input", { type: "range", min: 0, max: values.length - 1, step: 1, "aria-label": `${choice.label}, usual values` });
    const field = this.typed(id, choice);
    range.addEventListener("input", () => {
      const value = values[Number(range.value)];
      field.value = grouped(value);
      range.setAttribute("aria-valuetext", grouped(value));
      this.set(choice.key, String(value));
    });
    this.showing.push((plan) => {
      const value = Number(valueAt(plan, choice.key) ?? 0);
      if (!values.includes(value)) values = [...(choice.values ?? []), value].sort((a, b) => a - b);
      if (document.activeElement === range) return;
      range.max = String(values.length - 1);
      range.value = String(values.indexOf(value));
      range.setAttribute("aria-valuetext", grouped(value));
    });
    return [field, range];
  }

  private typed(id: string, choice: Choice): HTMLInputElement {
    const field = h("input", { type: "text", inputmode: "decimal", id, autocomplete: "off", spellcheck: "false" });
    field.addEventListener("change", () => {
      const text = field.value.replaceAll(",", "").trim();
      if (text === "") delete this.state.changes[choice.key];
      if (text === "") this.changed();
      else this.set(choice.key, text);
    });
    this.showing.push((plan) => {
      if (document.activeElement === field) return;
      const value = valueAt(plan, choice.key);
      if (value === null) field.value = "";
      else field.value = value >= 1e9 ? `${value / 1e12}e12` : Number.isInteger(value) ? grouped(value) : String(value);
    });
    return field;
  }

  private list(id: string, choice: Choice): HTMLSelectElement {
    const select = h("select", { id });
    const words = choice.words?.(this.shipped) ?? this.shipped.keys[choice.key]?.words ?? [];
    select.append(...words.map((word) => h("option", { value: word }, word)));
    select.addEventListener("change", () => this.set(choice.key, select.value));
    this.showing.push((plan) => {
      const word = wordOf(valueAt(plan, choice.key));
      if (word && !Array.from(select.options).some((option) => option.value === word))
        select.append(h("option", { value: word === wordOf(ownModel) ? ownModel : word }, word));
      select.value = word === wordOf(ownModel) ? ownModel : word;
    });
    return select;
  }

  /** Where to start from: a shipped plan, or texts of the reader's own. */
  private start(): HTMLElement {
    const select = h("select", { id: "start" });
    select.append(...Object.keys(this.shipped.plans).map((name) => h("option", { value: name }, name)));
    select.append(h("option", { value: "" }, "a plan of your own"));
    const toml = h("textarea", { rows: 12, spellcheck: "false", "aria-label": "Your plan in TOML" });
    const config = h("textarea", { rows: 6, spellcheck: "false", "aria-label": "config.json of your model" });
    const own = h(
      "details", {}, h("summary", {}, "Paste a plan or a model"),
      h("p", { class: "soft" }, "A plan in TOML:"), toml,
      h("p", { class: "soft" }, "The config.json of a model, as on Hugging Face:"), config,
    );
    const show = (): void => {
      select.value = this.state.plan ?? "";
      toml.value = this.state.plan ? this.shipped.plans[this.state.plan] : this.state.toml;
      config.value = this.state.config;
    };
    select.addEventListener("change", () => {
      this.state.toml = toml.value;
      this.state.plan = select.value || null;
      this.state.changes = {};
      this.state.config = "";
      if (!this.state.plan) own.open = true;
      show();
      this.changed();
    });
    toml.addEventListener("input", () => {
      this.state.plan = null;
      this.state.toml = toml.value;
      select.value = "";
      this.changed();
    });
    config.addEventListener("input", () => {
      this.state.config = config.value.trim();
      if (this.state.config) this.set("model.config", ownModel);
      else delete this.state.changes["model.config"];
      this.changed();
    });
    show();
    return h("fieldset", {}, h("legend", {}, "Start from"), h("div", { class: "control" }, h("label", { for: "start" }, "Plan"), select), own);
  }

  /** Any other key, a line each. */
  private others(): HTMLElement {
    const field = h("textarea", { rows: 4, id: "others", spellcheck: "false", placeholder: "offload.optimizer=true" });
    const rest = (): [string, string][] => Object.entries(this.state.changes).filter(([key]) => !known.has(key));
    field.addEventListener("change", () => {
      for (const [key] of rest()) delete this.state.changes[key];
      for (const line of field.value.split("\n")) {
        const [key, value] = [line.slice(0, line.indexOf("=")).trim(), line.slice(line.indexOf("=") + 1).trim()];
        if (key) this.state.changes[key] = value;
      }
      this.changed();
    });
    this.showing.push(() => {
      if (document.activeElement !== field) field.value = rest().map(([key, value]) => `${key}=${value}`).join("\n");
    });
    const reset = h("button", { type: "button" }, "Undo all changes");
    reset.addEventListener("click", () => {
      this.state.changes = this.state.config ? { "model.config": ownModel } : {};
      this.changed();
    });
    return h("fieldset", {}, h("legend", {}, "Any other key"), h("label", { for: "others", class: "soft" }, "KEY=VALUE, a line each"), field, reset);
  }
}
