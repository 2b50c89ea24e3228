// The playground: a plan and its changes, and what the predictor answers while they change.
import { h } from "../dom";
import { copyButton, Frame } from "../page/frame";
import { planToml } from "../parts/basis";
import type { Json } from "../result";
import { Answers } from "./answers";
import { Controls } from "./controls";
import { compile, Engine } from "./engine";
import type { Failure, Shipped, Slots } from "./protocol";
import { commandOf, fragmentOf, questionOf, stateOf } from "./state";

const quiet = 350; // ms without a change, after which what takes longer is asked
const draws = 64; // as the command's

const failureOf = (answer: unknown): Failure | undefined => (answer as { error?: Failure }).error;

function open(shipped: Shipped): void {
  const module = compile();
  const figures = new Engine(module);
  figures.start();
  const page = new Frame();
  const slow = new Engine(module);
  let state = stateOf(location.hash, shipped);
  const answers = new Answers(page);
  const command = h("code", {});
  let plan: Json = {};
  let timer = 0;

  const askSlowly = (): void => {
    const question = questionOf(state, shipped);
    slow.ask({ kind: "pipeline", question }, (answer) => {
      if (!failureOf(answer)) answers.showPipeline(answer as Slots);
    });
    slow.ask({ kind: "simulate", question, draws }, (answer) => {
      if (!failureOf(answer)) answers.showInterval(answer);
    });
  };
  const changed = (): void => {
    history.replaceState(null, "", `#${fragmentOf(state)}`);
    command.textContent = commandOf(state);
    slow.forget();
    window.clearTimeout(timer);
    figures.ask({ kind: "simulate", question: questionOf(state, shipped), draws: 0 }, (answer, seconds) => {
      const failure = failureOf(answer);
      if (failure) return answers.fail(failure);
      answers.show(answer, seconds);
      plan = (answer as Json).plan;
      controls.show(plan);
      document.documentElement.dataset.answered = String(Number(document.documentElement.dataset.answered ?? 0) + 1);
      window.clearTimeout(timer);
      timer = window.setTimeout(askSlowly, quiet);
    });
  };
  let controls = new Controls(shipped, state, changed);
  window.addEventListener("hashchange", () => {
    state = stateOf(location.hash, shipped);
    const next = new Controls(shipped, state, changed);
    controls.root.replaceWith(next.root);
    controls = next;
    changed();
  });

  const lead = "Choose a model, a cluster and degrees; step, memory, cost and interval follow. Nothing leaves this page.";
  const head = h("header", { class: "top" }, h("div", {}, h("h1", {}, "plumbline playground"), h("p", { class: "soft" }, lead)), page.tools());
  const keep = h("button", { type: "button" }, "Keep to compare");
  keep.addEventListener("click", () => answers.keep(commandOf(state)));
  const copies = [copyButton("Copy as command", () => commandOf(state)), copyButton("Copy as plan", () => planToml(plan)), copyButton("Copy link", () => location.href)];
  const links = h("div", { class: "links" }, ...copies, keep);
  answers.headline.append(links);
  const footer = h("footer", {}, h("div", { class: "command" }, command), h("div", {}, `Made by plumbline ${shipped.version}, which is in this file. The command prints the same figures.`));
  const main = h("main", { class: "playground" }, controls.root, answers.headline, answers.root);
  document.body.prepend(h("div", { class: "frame wide" }, head, main, footer));
  changed();
}

open(JSON.parse(document.getElementById("shipped")?.textContent ?? "{}") as Shipped);
