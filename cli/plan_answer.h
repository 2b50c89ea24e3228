// What `plumbline plan` found, and its output forms.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/plan_question.h"
#include "cli/plan_ranking.h"
#include "model/base/provenance.h"
#include "model/economics/ownership.h"
#include "model/result/result.h"
#include "sim/search/flip.h"
#include "sim/search/search.h"

namespace plumbline::cli {

struct PlanRow {
  model::Plan plan;
  model::StepResult result;  // by events
  Offer offer;
};

// One cluster of one size: what was searched there and the plans found, the fastest first.
struct Site {
  std::string cluster;
  std::int64_t gpus = 0;
  sim::Inputs inputs;              // its plan says what is not searched
  std::vector<std::string> notes;  // what was changed for this cluster
  std::optional<model::Error> error;
  std::optional<model::Parameter> uncertainty;  // of a step predicted with the profile
  sim::SearchResult search;
  std::vector<PlanRow> rows;  // that fit in memory
};

// Changes that would overturn the choice among other plans of the first site, or between it and other sites.
struct FlipSection {
  bool hardware = false;           // other sites
  std::vector<std::string> names;  // of the alternatives: "plan 2", "h100-dgx, 1,024 GPUs"
  std::vector<sim::Flip> flips;
};

struct PlanAnswer {
  std::string name;  // of the model or plan
  std::vector<std::string> assumptions;
  std::vector<std::string> overrides;  // of --set
  Objective objective = Objective::time;
  Limits limits;
  std::size_t top = 10;
  bool has_tokens = false;
  std::vector<Site> sites;
  bool complete = true;      // false: stopped before everything was looked at
  bool every_value = false;  // of each key, not only those that usually win
  // Over the sites that have a plan, each with its best one.
  std::vector<std::size_t> order;              // sites, the best first
  std::vector<std::size_t> empty;              // sites without a plan
  std::vector<std::optional<bool>> dominated;  // as `order`
  Verdict verdict;                             // of sites
  std::vector<FlipSection> flips;

  const Site& first() const { return sites[order.front()]; }
  const PlanRow& best(std::size_t place) const { return sites[order[place]].rows.front(); }
};

// Fills order, dominated and verdict.
void rank(PlanAnswer& answer);

// Of a GPU-hour on the site, rented or owned as its plan says; or what is missing to know it.
model::Known<model::HourlyPrice> price_of(const Site& site);
std::string site_name(const Site& site);  // "h100-dgx, 2,048 GPUs"
// Share of the step that rests on measured, fitted or published constants.
double measured_share(const model::StepResult& result);
bool only_datasheet(const model::StepResult& result);  // that share is below a tenth

// Why the row loses to the one above it on the same cluster, or "tie: ...".
std::string reason_on_site(const PlanRow& above, const PlanRow& row);
// What differs between the hardware of two sites, what it does to the step, and the prices.
std::string reason_between(const Site& above, const Site& site, Objective objective);

// The rule that removed the last candidates, with its closest plan; "" when nothing was removed.
std::string last_rule(const sim::SearchResult& search);

// Why a site has no plan.
std::string why_empty(const Site& site);

// Why the limits cannot be met: which is the closest, and how far it is.
std::string shortfall(const PlanAnswer& answer);

std::string plan_text(const PlanAnswer& answer, bool colour);
std::string plan_json(const PlanAnswer& answer);
std::string plan_svg(const PlanAnswer& answer);  // days against USD; needs a site with both

}  // namespace plumbline::cli
