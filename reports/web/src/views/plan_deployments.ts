// The buyer's page of deployments that serve: which offer, what a token takes and costs.
import { append, h, name } from "../dom";
import { number } from "../format";
import { chart } from "../parts/chart";
import { figures } from "../parts/figures";
import { answer, notice, section } from "../parts/section";
import { answerOf, deploymentSection, questionOf, siteTable, sitesInFull, sitesOf, tilesOf } from "../plan/deployments";
import type { Site } from "../plan/offers";
import type { Json, Result } from "../result";
import type { Page, View } from "../view";

const label = (site: Site): string => `${site.cluster}, ${site.gpus} GPUs`;

/** What a user gets against what a GPU gives, over all deployments of each offer. */
function frontier(sites: Site[], page: Page): HTMLElement | null {
  const drawn = sites.filter((site) => site.json.frontier.length > 0);
  if (drawn.length === 0) return null;
  const series = drawn.map((site) => ({
    name: label(site),
    points: site.json.frontier.map((point: Json): [number, number] => [1 / point.tpot_s, point.output_tokens_per_s_per_gpu]),
  }));
  const picture = chart(page, {
    label: "Output tokens/s of a GPU over tokens/s of a user, a line for each offer",
    x: { title: "tokens/s of a user", format: number },
    y: { title: "output tokens/s of a GPU", format: number, zero: true },
    series,
  });
  return section("What a user gets against what a GPU gives", "No deployment is better in both than those on the line.", picture);
}

export const deployments: View = {
  kinds: ["plan-deployments"],
  title: (result: Result) => `Serving ${result.json.question.subject}`,
  subtitle: (result: Result) => questionOf(result.json),
  render(result, root, page) {
    const { json } = result;
    const sites = sitesOf(json);
    const first = sites.find((site) => site.plan);
    root.classList.add("plan");
    root.append(answer(...answerOf(json, sites)));
    if (!json.complete) root.append(notice(true, "The search was stopped: this is the best that was found until then."));
    for (const sentence of json.what_would) root.append(notice(!json.limits_met, name(sentence), "."));
    if (first) {
      const offers = section(sites.length > 1 ? "Offers" : "The offer", "Eight of ten cases in brackets.", siteTable(sites));
      append(root, figures(tilesOf(first)), offers, deploymentSection(first), frontier(sites, page));
    }
    const given: string[] = json.question.overrides;
    if (given.length > 0) root.append(section("What was given", null, h("ul", {}, ...given.map((line) => h("li", {}, h("code", {}, name(line)))))));
    root.append(sitesInFull(sites));
  },
};
