// The search on one site, and the events of its finalists.
#pragma once

#include "cli/plan_answer.h"
#include "cli/recipe.h"

namespace plumbline::cli {

// The site's inputs: the recipe on that cluster, the overrides of --set put over it. What the recipe's own [cluster]
// says beside its topology, and its price, hold for that topology alone; FP8 becomes BF16 where the GPU has none,
// unless --set asks for it. Errors are input errors; a cluster that cannot be wired as large is infeasible.
model::Result<Site> load_site(const Recipe& recipe, const SiteName& name, const std::vector<std::string>& overrides);

// Searches and simulates the best 2 * top plans; fills search, rows and, where that fails, error. Rows beyond `top`
// are dropped. Wrong input is returned.
model::Result<void> fill_site(Site& site, const sim::SearchOptions& options);

// Days, GPU-hours and money of a step on a site.
Offer offer_of(const Site& site, const model::StepResult& result);

}  // namespace plumbline::cli
