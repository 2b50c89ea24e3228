#include "cli/plan/plan_verb.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "cli/data.h"
#include "model/plan/software.h"
#include "model/schedule/schedule.h"

namespace plumbline::cli {
namespace {

using model::ErrorKind;
using model::Result;
using model::wrong_input;

// Refuses a key that an option of this verb sets.
Result<void> check_overrides(const SearchRequest& request, const std::vector<sim::ClusterChoice>& choices) {
  const bool sizes = std::ranges::any_of(choices, [](const sim::ClusterChoice& choice) { return choice.gpus > 0; });
  const bool profiles =
      std::ranges::any_of(choices, [](const sim::ClusterChoice& choice) { return !choice.profile.empty(); });
  for (const std::string& change : request.plan.overrides) {
    const auto twice = [&](std::string_view key, bool given) { return given && change.starts_with(key); };
    if (twice("cluster.gpus=", sizes) || twice("cluster.topology=", !request.clusters.empty()) ||
        twice("cluster.profile=", profiles))
      return wrong_input("--set", fmt::format("'{}' is also given by --gpus or --cluster", change), "give it once");
    if (twice("run.tokens=", !request.tokens.empty()))
      return wrong_input("--set", fmt::format("'{}' is also given by --tokens", change), "give it once");
  }
  return {};
}

}  // namespace

Result<sim::Recipe> find_recipe(const SearchRequest& request) {
  std::vector<std::int64_t> sizes;
  for (const sim::ClusterChoice& choice : TRY(sim::cluster_choices(request.clusters, request.gpus)))
    if (choice.gpus > 0) sizes.push_back(choice.gpus);
  return find_recipe(request.plan.plan, sizes);
}

Result<std::vector<std::string>> overrides_of(const SearchRequest& request) {
  const auto choices = TRY(sim::cluster_choices(request.clusters, request.gpus));
  TRY(check_overrides(request, choices));
  std::vector<std::string> overrides = request.plan.overrides;
  if (request.any_software) {
    std::vector<std::string> names;
    for (const model::ScheduleKind* kind : model::schedule_kinds())
      names.push_back(fmt::format("\"{}\"", kind->name()));
    overrides.insert(overrides.begin(),
                     {fmt::format("search.schedule=[{}]", fmt::join(names, ", ")), "search.zero_stage=[0, 1, 2, 3]"});
  }
  if (!request.tokens.empty())
    overrides.push_back(fmt::format("run.tokens={}", TRY(sim::parse_tokens(request.tokens))));
  return overrides;
}

Result<std::vector<sim::ClusterOption>> load_options(const SearchRequest& request, const sim::Recipe& recipe,
                                                     Purpose purpose) {
  std::vector<std::string> overrides = TRY(overrides_of(request));
  const auto choices = TRY(sim::cluster_choices(request.clusters, request.gpus));
  const auto changes = TRY(take_constant_changes(overrides));
  InputsReader reader(purpose);
  const auto inputs = [&](model::Plan plan) {
    if (purpose == Purpose::serving) plan.inference.given = true;
    auto read = reader.of_plan(plan, std::nullopt, changes);
    if (read && request.any_software) read->plan.software.erase(std::string(model::rules_key));
    return read;
  };
  std::vector<sim::ClusterOption> options;
  for (const sim::ClusterChoice& choice : choices) {
    auto option = sim::load_option(recipe, choice, overrides, inputs);
    if (!option && option.error().kind == ErrorKind::input) return tl::unexpected(option.error());
    options.push_back(option ? std::move(*option) : sim::ClusterOption{choice.cluster, choice.gpus});
    if (!option) options.back().error = option.error();
  }
  return options;
}

Result<std::string> plan_file(model::Plan plan) {
  const auto config = TRY(resolve_model(plan.file, plan.model.config));
  const auto shipped = resolve_model("", plan.model.config);
  std::error_code ignored;
  const bool same = shipped && std::filesystem::equivalent(*shipped, config, ignored);
  if (!same) plan.model.config = std::filesystem::absolute(config).lexically_normal().string();
  return model::to_toml(plan);
}

}  // namespace plumbline::cli
