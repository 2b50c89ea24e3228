// The output of `plumbline plan`.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "reports/text/table.h"
#include "sim/deployment/deployment_answer.h"
#include "sim/rollout/rollout.h"
#include "sim/search/plan_answer.h"

namespace plumbline::reports {

std::string plan_text(const sim::PlanAnswer& answer, bool color);
std::string plan_json(const sim::PlanAnswer& answer);
std::string plan_csv(const sim::PlanAnswer& answer);  // a row for each plan; for a cluster without one, why
std::string plan_svg(const sim::PlanAnswer& answer);  // days against USD; needs an option with both

// Tables, each followed by why every row ranks below the one above. They need a ranked answer with a plan. Below that
// of the cluster options stands what of each does not fit into 80 columns.
std::string options_table(const sim::PlanAnswer& answer, Style style);
std::string plans_table(const sim::PlanAnswer& answer, Style style);  // of the recommended option, and at its edge

std::string option_name(const sim::ClusterOption& option);  // "h100-dgx, 2,048 GPUs"

// Returns the same with the cost profile, "h100-dgx, 2,048 GPUs by h100-torch", or with the offered price, where
// another option of the answer has that cluster and size with another one.
std::string option_name(const sim::PlanAnswer& answer, const sim::ClusterOption& option);
// Returns the degrees and settings of a plan as one cell: "t 8s, p 16, e 64, 1f1b, ZeRO 1, mb 1"; degrees of 1 and what
// is off are left out.
std::string plan_words(const sim::RankedPlan& row);
// Returns the offer to take in sentences: with which plan, what it takes and how sure that is; by what the next best
// loses; what would overturn the choice. Where nothing meets the limits it is the nearest one, with what it lacks.
// Needs a ranked answer with a plan.
std::vector<std::string> recommendation(const sim::PlanAnswer& answer);
// Returns what the best plan at a place of the ranking takes, by its steps and with failures, in one paragraph.
std::string option_words(const sim::PlanAnswer& answer, std::size_t place);
// Returns the interval of what the objective measures (sim::measure()).
std::optional<model::Quantiles> objective_interval(const sim::RankedPlan& row, sim::Objective objective);
std::string chance(std::optional<double> probability);  // "46 %", "> 99 %", "-"
std::string usd_text(double usd);                       // "4.33"; from a hundred on "579,959", "2.949 M"; "never"
// Returns the ends of an interval with one unit, "19.84-25.10 s"; the texts of the ends have the unit after a space.
std::string span(const std::string& low, const std::string& high);

// Returns the assumptions of a recipe that neither its source states nor an override "KEY=VALUE" replaces: sentences
// without full stop.
std::vector<std::string> assumptions(const sim::Recipe& recipe, const std::vector<std::string>& overrides);

// Returns the share of the step that depends on measured, fitted or published constants. The bubble counts like the
// rest of the step, whose slots make it.
double measured_share(const model::StepResult& result);
bool only_datasheet(const model::StepResult& result);  // whether that share is below a tenth

// The part of a step that depends on the constants of one family.
struct FamilyShare {
  std::string name;     // "GEMMs", "attention", ...
  double share = 0;     // of the step's time
  double measured = 0;  // of the step's time: on measured, fitted or published constants
};
// Returns every family, the largest first; those that the step does not use have no share.
std::vector<FamilyShare> family_shares(const model::StepResult& result);
// Returns which families of a hundredth of the step or more are measured and which are assumed or by datasheet:
// "measured: GEMMs (45.0 %); ...".
std::string family_words(const model::StepResult& result);

// Returns by how much the plan is slower than the one above it on the same cluster, with what probability it is worse
// (slower, or does not fit), and why.
std::string reason_on_option(const sim::RankedPlan& above, const sim::RankedPlan& row);
// Returns the differences in hardware between two options, their effect on the step, and the prices.
std::string reason_between(const sim::ClusterOption& above, const sim::ClusterOption& option, sim::Objective objective);
// Returns the price of a GPU-hour with its range, kind and source, or why none is known.
std::string price_words(const sim::ClusterOption& option);
// Returns the rule that removed the last candidates, with its closest plan; "" when nothing was removed.
std::string last_rule(const sim::SearchResult& search);
// Returns why an option has no plan.
std::string why_empty(const sim::ClusterOption& option);
// Returns by how much a value exceeds its limit: "3.4 % longer than", with `more`, and from twice it on "15.2 times".
std::string excess(double value, double limit, const char* more);
// Returns why the limits cannot be met: the option that comes closest, and by how much it fails.
std::string unmet_limits(const sim::PlanAnswer& answer);
// Returns the names of a section's alternatives: "plan 2", "h100-dgx, 1,024 GPUs".
std::vector<std::string> alternative_names(const sim::PlanAnswer& answer, const sim::BreakEvenSection& section);

// The output of `plumbline plan` about deployments that serve.
std::string deployment_text(const sim::DeploymentAnswer& answer, bool color);
std::string deployment_json(const sim::DeploymentAnswer& answer);
std::string deployment_csv(const sim::DeploymentAnswer& answer);  // a row for each; for a cluster without one, why
// Draws the frontier of each option: tokens/s of a user against tokens/s of a GPU.
std::string deployment_svg(const sim::DeploymentAnswer& answer);

// The output of `plumbline plan` about a plan with [rollout]; text has `top` splits.
std::string rollout_plans_text(const sim::RolloutAnswer& answer, std::size_t top, bool color);
std::string rollout_plans_json(const sim::RolloutAnswer& answer);
std::string rollout_plans_csv(const sim::RolloutAnswer& answer);  // a row for each split

// Returns why an option has no deployment.
std::string why_none(const sim::DeploymentOption& option);

}  // namespace plumbline::reports
