// The page of how the GPUs of reinforcement learning are divided between generation and training.
import { h, name } from "../dom";
import { days, duration, grouped, percent, signedPercent, usd } from "../format";
import { bars } from "../parts/bars";
import { answer, notice, section } from "../parts/section";
import { amount, table } from "../parts/table";
import type { Json, Result } from "../result";
import type { View } from "../view";
import { middleRollout, partsOf, rolloutFigures, rolloutSection } from "./step/rollout";

interface Split {
  site: Json;
  json: Json;
  middle: Json; // of its step
}

const gpusOf = (split: Json): string =>
  split.placement === "colocated" ? grouped(split.training_gpus) : `${grouped(split.training_gpus)} + ${grouped(split.engine_gpus)}`;

function splitTable(splits: Split[]): HTMLElement {
  const first = splits[0].middle.time_s;
  return table<Split>(
    [
      { title: "Placement", value: (row) => row.json.placement },
      { title: "Cluster", value: (row) => row.site.cluster },
      { title: "GPUs that train + generate", value: (row) => row.json.training_gpus, show: (row) => gpusOf(row.json), number: true },
      amount("Step", (row) => row.middle.time_s, duration),
      { title: "Against the first", value: (row) => row.middle.time_s, show: (row) => signedPercent(row.middle.time_s / first - 1), number: true },
      amount("Tokens/s/GPU", (row) => row.middle.tokens_per_s_per_gpu, grouped),
      amount("Idle, training", (row) => row.json.rollout.training_idle_share, percent),
      amount("Idle, engines", (row) => row.json.rollout.engines_idle_share, percent),
      amount("Run", (row) => row.middle.days, days),
      amount("Cost", (row) => row.middle.cost_usd, usd),
    ],
    splits,
    { rowClass: (row) => (row.json.within_limits ? null : "quiet") },
  );
}

export const rollouts: View = {
  kinds: ["plan-rollouts"],
  title: (result: Result) => `GPUs of ${result.json.question.subject}`,
  subtitle: () => "how they are divided between generation and training",
  render(result, root) {
    const { json } = result;
    const splits: Split[] = json.sites.flatMap((site: Json) => site.plans.map((split: Json) => ({ site, json: split, middle: middleRollout(split.rollout) })));
    if (!json.complete) root.append(notice(true, "The search was stopped: this is the best that was found until then."));
    if (splits.length > 0) {
      const { site, json: best, middle } = splits[0];
      root.append(
        answer(
          json.question.objective === "time" ? "The step is the shortest" : "The run is the cheapest", " with the halves ", h("b", {}, name(best.placement)), " on ", name(site.cluster), `, ${gpusOf(best)} GPUs: `,
          h("b", {}, duration(middle.time_s)), middle.days ? `; the run takes ${days(middle.days)}.` : ".",
        ),
      );
      if (!json.limits_met) root.append(notice(true, "No split meets the limits."));
      root.append(
        rolloutFigures(best.rollout),
        rolloutSection(best.rollout),
        section(
          "Splits",
          "Steps are in the middle of their intervals; bars are the parts that components add up to, of which asynchronous halves run at once.",
          bars(
            splits.slice(0, 12).map((split) => ({
              label: h("span", {}, name(split.json.placement), " ", h("small", {}, gpusOf(split.json))),
              parts: partsOf(split.json.rollout),
              text: duration(split.middle.time_s),
            })),
          ),
          splitTable(splits),
        ),
      );
    }
    const refused = json.sites.flatMap((site: Json) => site.refused);
    if (refused.length > 0)
      root.append(
        section(
          "Splits without a plan",
          null,
          table<Json>(
            [
              { title: "Placement", value: (row) => row.placement },
              { title: "GPUs", value: (row) => row.training_gpus, show: gpusOf, number: true },
              { title: "Why", value: (row) => row.reason, wide: true },
            ],
            refused,
          ),
        ),
      );
  },
};
