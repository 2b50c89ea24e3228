#include "cli/plan/plan_verb.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "cli/data.h"

namespace plumbline::cli {
namespace {

using model::ErrorKind;
using model::Result;
using model::wrong_input;

// Refuses a key that an option of this verb sets.
Result<void> check_overrides(const SearchRequest& request) {
  const bool profile =
      std::ranges::any_of(request.clusters, [](const std::string& name) { return name.find(':') != name.npos; });
  for (const std::string& change : request.plan.overrides) {
    const auto twice = [&](std::string_view key, bool given) { return given && change.starts_with(key); };
    if (twice("cluster.gpus=", !request.gpus.empty()) || twice("cluster.topology=", !request.clusters.empty()) ||
        twice("cluster.profile=", profile))
      return wrong_input("--set", fmt::format("'{}' is also given by --gpus or --cluster", change), "give it once");
  }
  return {};
}

}  // namespace

Result<std::vector<sim::ClusterOption>> load_options(const SearchRequest& request, const sim::Recipe& recipe,
                                                     Purpose purpose) {
  TRY(check_overrides(request));
  const auto choices = TRY(sim::cluster_choices(request.clusters, request.gpus));
  std::vector<std::string> overrides = request.plan.overrides;
  const auto changes = TRY(take_constant_changes(overrides));
  InputsReader reader(purpose);
  const auto inputs = [&](model::Plan plan) {
    if (purpose == Purpose::serving) plan.inference.given = true;
    return reader.of_plan(plan, std::nullopt, changes);
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
