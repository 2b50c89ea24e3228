#include "cli/plan_sites.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "cli/inputs.h"
#include "model/base/data_type.h"
#include "sim/predict/routing_memo.h"
#include "sim/predict/schedule_tables.h"
#include "sim/search/finalists.h"

namespace plumbline::cli {
namespace {

using model::Error;
using model::ErrorKind;
using model::Precision;
using model::Result;

std::string assigned(const char* key, const std::string& value) {
  std::string text = fmt::format("{}=\"", key);
  for (const char c : value) text += (c == '"' || c == '\\') ? fmt::format("\\{}", c) : std::string(1, c);
  return text + '"';
}

// The plan that the recipe states for this site. The places of its keys: an option of the command line is "--set".
Result<model::Plan> plan_of(const Recipe& recipe, const SiteName& name, const std::vector<std::string>& overrides) {
  std::vector<std::string> changes;
  if (!name.cluster.empty()) changes.push_back(assigned("cluster.topology", name.cluster));
  if (name.gpus > 0) changes.push_back(fmt::format("cluster.gpus={}", name.gpus));
  if (!name.profile.empty()) changes.push_back(assigned("cluster.profile", name.profile));
  changes.insert(changes.end(), overrides.begin(), overrides.end());
  auto plan = model::read_plan(recipe.text, recipe.path, changes);
  if (plan) return plan;
  Error error = plan.error();
  const auto missing = [&](const char* key, bool given, const char* option, const char* what, const char* hint) {
    if (error.key == key && error.line == 0 && !given) error = Error{ErrorKind::input, what, "", 0, option, hint};
  };
  missing("cluster.topology", !name.cluster.empty(), "--cluster", "no cluster is named",
          "give --cluster NAME[,NAME...]");
  missing("cluster.gpus", name.gpus > 0, "--gpus", "no number of GPUs is given", "give --gpus N[,N...]");
  return tl::unexpected(error);
}

// What the plan says of another cluster does not hold here.
void forget_other_cluster(const Recipe& recipe, model::Plan& plan, std::vector<std::string>& notes) {
  const auto own = model::read_plan(recipe.text, recipe.path, {});
  if (!own || own->cluster.topology == plan.cluster.topology) return;
  for (const std::string& key : forget_cluster(plan))
    notes.push_back(fmt::format("{} is that of {} and does not hold here", key, own->cluster.topology));
}

void avoid_fp8(sim::Inputs& inputs, std::vector<std::string>& notes) {
  if (inputs.cluster.device.fp8_peak.value() > 0) return;
  const auto replace = [&](const char* key, Precision& precision) {
    const auto place = inputs.plan.places.find(key);
    const bool asked = place != inputs.plan.places.end() && place->second.file == "--set";
    const bool fp8 = precision == Precision::fp8 || precision == Precision::fp8_tensor;
    if (!fp8 || asked) return;
    precision = Precision::bf16;
    notes.push_back(fmt::format("{} is bf16: {} has no FP8", key, inputs.cluster.device.name));
  };
  replace("precision.gemm", inputs.plan.precision.gemm);
  replace("precision.dispatch", inputs.plan.precision.dispatch);
  replace("precision.combine", inputs.plan.precision.combine);
}

std::optional<model::Parameter> uncertainty_of(const model::Profile& profile) {
  const auto index = profile.find("prediction.step_uncertainty");
  return index ? std::optional(profile.parameters()[*index]) : std::nullopt;
}

model::Error placed(model::Error error, const SiteName& name) {
  if (error.key == "cluster.gpus" && name.gpus > 0) error.file = "--gpus";
  const bool cluster = error.key == "cluster.topology" || error.key == "cluster.profile";
  if (cluster && !name.cluster.empty()) error.file = "--cluster";
  return error;
}

}  // namespace

Result<Site> load_site(const Recipe& recipe, const SiteName& name, const std::vector<std::string>& overrides) {
  std::vector<std::string> of_plan = overrides;
  const auto changes = take_constant_changes(of_plan);
  if (!changes) return tl::unexpected(changes.error());
  auto plan = plan_of(recipe, name, of_plan);
  if (!plan) return tl::unexpected(placed(plan.error(), name));
  Site site;
  forget_other_cluster(recipe, *plan, site.notes);
  auto inputs = inputs_of_plan(*plan, std::nullopt, *changes);
  if (!inputs) return tl::unexpected(placed(inputs.error(), name));
  site.inputs = std::move(*inputs);
  site.inputs.routing = std::make_shared<sim::RoutingMemo>();
  site.inputs.tables = std::make_shared<sim::ScheduleTables>();
  avoid_fp8(site.inputs, site.notes);
  site.cluster = site.inputs.cluster.name;
  site.gpus = plan->cluster.gpus;
  site.uncertainty = uncertainty_of(site.inputs.profile);
  return site;
}

Offer offer_of(const Site& site, const model::StepResult& result) {
  Offer offer;
  offer.errors = fmt::format("{} {}", site.cluster, site.inputs.profile.name());
  offer.gpus = static_cast<double>(site.gpus);
  offer.step_s = result.step.time_s;
  if (site.uncertainty) offer.uncertainty = site.uncertainty->value;
  if (!result.run) return offer;
  offer.days = result.run->days;
  offer.gpu_hours = result.run->gpu_hours;
  offer.usd = result.run->cost_usd;
  offer.usd_low = result.run->cost_low_usd(result.run->gpu_hours);
  offer.usd_high = result.run->cost_high_usd(result.run->gpu_hours);
  return offer;
}

Result<void> fill_site(Site& site, const sim::SearchOptions& options) {
  auto found = sim::search(site.inputs, options);
  if (!found) {
    if (found.error().kind == model::ErrorKind::input) return tl::unexpected(found.error());
    site.error = found.error();
    return {};
  }
  site.search = std::move(*found);
  // Who asked to stop does not wait for all of them.
  constexpr std::size_t when_stopped = 3;
  const std::size_t wanted = site.search.complete ? 2 * options.top : when_stopped;
  const std::size_t finalists = std::min(site.search.best.size(), wanted);
  std::vector<model::Plan> plans;
  for (std::size_t i = 0; i < finalists; ++i) {
    plans.push_back(site.search.best[i].plan);
    plans.back().search = {};  // of the search, not of what it found
  }
  auto simulations = sim::simulate_finalists(site.inputs, plans);
  std::optional<model::Error> refused;
  for (std::size_t i = 0; i < finalists; ++i) {
    auto& simulation = simulations[i];
    if (!simulation) refused = simulation.error();
    if (!simulation || !simulation->result.memory.fits) continue;
    const Offer offer = offer_of(site, simulation->result);
    site.rows.push_back({std::move(plans[i]), std::move(simulation->result), offer});
  }
  if (site.rows.empty()) site.error = refused;
  std::ranges::stable_sort(site.rows, {}, [](const PlanRow& row) { return row.offer.step_s; });
  if (site.rows.size() > options.top)
    site.rows.erase(site.rows.begin() + static_cast<std::ptrdiff_t>(options.top), site.rows.end());
  return {};
}

}  // namespace plumbline::cli
