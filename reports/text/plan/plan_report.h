// What `plumbline plan` prints and writes.
#pragma once

#include <string>
#include <vector>

#include "reports/text/table.h"
#include "sim/search/plan_answer.h"

namespace plumbline::reports {

std::string plan_text(const sim::PlanAnswer& answer, bool color);
std::string plan_json(const sim::PlanAnswer& answer);
std::string plan_svg(const sim::PlanAnswer& answer);  // days against USD; needs an option with both

// Tables, and below them why each row loses to the one above. They need a ranked answer with a plan.
std::string options_table(const sim::PlanAnswer& answer, Style style);
std::string plans_table(const sim::PlanAnswer& answer, Style style);  // of the first option

std::string option_name(const sim::ClusterOption& option);  // "h100-dgx, 2,048 GPUs"

// What nobody stated of a recipe: sentences without full stop.
std::vector<std::string> assumptions(const sim::Recipe& recipe);

// Share of the step that rests on measured, fitted or published constants.
double measured_share(const model::StepResult& result);
bool only_datasheet(const model::StepResult& result);  // that share is below a tenth

// Why the plan loses to the one above it on the same cluster, or "tie: ...".
std::string reason_on_option(const sim::RankedPlan& above, const sim::RankedPlan& row);
// What differs between the hardware of two options, what it does to the step, and the prices.
std::string reason_between(const sim::ClusterOption& above, const sim::ClusterOption& option, sim::Objective objective);
// The rule that removed the last candidates, with its closest plan; "" when nothing was removed.
std::string last_rule(const sim::SearchResult& search);
// Why an option has no plan.
std::string why_empty(const sim::ClusterOption& option);
// Why the limits cannot be met: which option is the closest, and how far it is.
std::string unmet_limits(const sim::PlanAnswer& answer);
// The alternatives of a section by name: "plan 2", "h100-dgx, 1,024 GPUs".
std::vector<std::string> alternative_names(const sim::PlanAnswer& answer, const sim::BreakEvenSection& section);

}  // namespace plumbline::reports
