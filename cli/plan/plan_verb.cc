#include "cli/plan/plan_verb.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "cli/data.h"
#include "model/base/text.h"
#include "model/plan/software.h"
#include "model/schedule/schedule.h"
#include "sim/predict/memos.h"
#include "sim/search/cluster_choice.h"

namespace plumbline::cli {
namespace {

using model::Result;

Result<std::vector<sim::ClusterChoice>> choices_of(const SearchRequest& request) {
  return sim::cluster_choices(request.clusters, request.gpus, request.offers);
}

// Returns the whole name of the choice's cluster, or its file; empty: that of the plan.
Result<std::string> cluster_name(const sim::ClusterChoice& choice) {
  if (choice.cluster.empty()) return std::string();
  auto name = whole_name(choice.cluster, {Shipped::topology});
  const auto found = name.and_then([](const std::string& whole) { return resolve(Shipped::topology, whole); });
  if (found) return name;
  model::Error error = found.error();
  error.key = choice.offered ? "--offer" : "--cluster";
  return tl::unexpected(error);
}

// Refuses a key that an option of this verb sets.
Result<void> check_overrides(const SearchRequest& request, const std::vector<sim::ClusterChoice>& choices) {
  const bool sizes = std::ranges::any_of(choices, [](const sim::ClusterChoice& choice) { return choice.gpus > 0; });
  const bool profiles =
      std::ranges::any_of(choices, [](const sim::ClusterChoice& choice) { return !choice.profile.empty(); });
  const bool clusters =
      std::ranges::any_of(choices, [](const sim::ClusterChoice& choice) { return !choice.cluster.empty(); });
  const bool prices = std::ranges::any_of(
      choices, [](const sim::ClusterChoice& choice) { return choice.usd_per_gpu_hour.has_value(); });
  for (const std::string& change : request.plan.overrides) {
    const auto twice = [&](std::string_view key, bool given) { return given && change.starts_with(key); };
    if (twice("cluster.gpus=", sizes) || twice("cluster.topology=", clusters) || twice("cluster.profile=", profiles))
      return model::wrong_input("--set", fmt::format("'{}' is also given by --gpus, --cluster or --offer", change),
                                "give it once");
    if (twice("run.price_usd_per_gpu_hour=", prices) || twice("run.ownership=", prices))
      return model::wrong_input("--set", fmt::format("'{}' and an offer's price exclude each other", change),
                                "leave out one of them: an offer without a price is --offer CLUSTER:GPUS");
    if (twice("run.tokens=", !request.tokens.empty()))
      return model::wrong_input("--set", fmt::format("'{}' is also given by --tokens", change), "give it once");
  }
  return {};
}

// Gives the files that the plan names, next to it or in the working directory, their whole paths.
void name_whole_paths(model::Plan& plan) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(plan.file).parent_path();
  const auto name_whole = [&folder](std::string& value) {
    std::size_t begin = 0;  // of the path
    for (const std::string_view prefix : {"file:", "scaled:"})
      if (value.starts_with(prefix)) begin = prefix.size();
    const fs::path named = value.substr(begin);
    std::error_code ignored;
    for (const fs::path& path : {folder / named, named}) {
      if (!named.has_extension() || !fs::is_regular_file(path, ignored)) continue;
      value.replace(begin, value.npos, fs::absolute(path, ignored).lexically_normal().string());
      return;
    }
  };
  for (std::string* value : {&plan.cluster.topology, &plan.schedule.kind, &plan.inference.engine}) name_whole(*value);
  for (std::optional<std::string>* value :
       {&plan.cluster.profile, &plan.cluster.device, &plan.cluster.placement, &plan.batch.document_lengths,
        &plan.routing.load_file, &plan.stack.name, &plan.campaign.reliability, &plan.inference.lengths})
    if (*value) name_whole(**value);
}

}  // namespace

Result<sim::Recipe> find_recipe(const SearchRequest& request) {
  std::vector<std::int64_t> sizes;
  for (const sim::ClusterChoice& choice : TRY(choices_of(request)))
    if (choice.gpus > 0) sizes.push_back(choice.gpus);
  const std::string& wanted = request.plan.plan;
  const auto name = TRY(whole_name(wanted, {Shipped::model, Shipped::plan}));
  constexpr std::string_view tokens_key = "run.tokens=";
  std::optional<double> tokens;
  for (const std::string& change : TRY(overrides_of(request)))
    if (change.starts_with(tokens_key)) tokens = model::parse_number<double>(change.substr(tokens_key.size()));
  auto recipe = TRY(find_recipe(name, sizes, tokens));
  if (name != wanted) recipe.stated.insert(recipe.stated.begin(), fmt::format("'{}' is {}", wanted, name));
  return recipe;
}

Result<sim::LoadInputs> plan_loader(const SearchRequest& request, InputsReader& reader, Purpose purpose) {
  std::vector<std::string> overrides = request.plan.overrides;
  const auto changes = TRY(take_constant_changes(overrides));
  return [&reader, changes, purpose, any = request.any_software](model::Plan plan) {
    if (purpose == Purpose::serving) plan.inference.given = true;
    auto read = reader.of_plan(plan, std::nullopt, changes);
    if (read && any) read->plan.software.erase(std::string(model::rules_key));
    return read;
  };
}

Result<std::vector<std::string>> overrides_of(const SearchRequest& request) {
  const auto choices = TRY(choices_of(request));
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
  if (request.top < 1 || request.top > SearchRequest::most_top)
    return model::wrong_input("--top",
                              fmt::format("must be from 1 to {}, found {}", SearchRequest::most_top, request.top));
  if (request.confidence && purpose == Purpose::training)
    return model::wrong_input("--confidence", "it is of the times of a deployment that serves",
                              "give --objective throughput, latency or tokens-per-dollar, too");
  std::vector<std::string> overrides = TRY(overrides_of(request));
  TRY(take_constant_changes(overrides));
  InputsReader reader(purpose);
  const auto inputs = TRY(plan_loader(request, reader, purpose));
  // How tokens spread over ranks and tables of schedules are the same on all clusters.
  const auto routing = std::make_shared<sim::ExpertGroupMemo>();
  const auto tables = std::make_shared<sim::ScheduleTables>();
  std::vector<sim::ClusterOption> options;
  for (sim::ClusterChoice choice : TRY(choices_of(request))) {
    const std::string given = choice.cluster;
    choice.cluster = TRY(cluster_name(choice));
    auto option = sim::load_option(recipe, choice, overrides, inputs);
    if (!option && option.error().kind == model::ErrorKind::input) return tl::unexpected(option.error());
    options.push_back(option ? std::move(*option) : sim::ClusterOption{choice.cluster, choice.gpus});
    if (!option) options.back().error = option.error();
    options.back().inputs.routing = routing;
    options.back().inputs.tables = tables;
    if (choice.cluster != given) options.back().notes.push_back(fmt::format("given as '{}'", given));
  }
  return options;
}

Result<void> check_priced(const std::vector<sim::ClusterOption>& options, bool has_budget, bool by_cost) {
  const bool priced = std::ranges::any_of(
      options, [](const sim::ClusterOption& option) { return sim::price_of(option).value.has_value(); });
  if (priced || (!has_budget && !by_cost)) return {};
  return model::wrong_input(has_budget ? "--budget" : "--objective", "no price is known of any of the clusters",
                            "give one: --set run.price_usd_per_gpu_hour=2.0");
}

bool trains_by_rollout(const std::vector<sim::ClusterOption>& options) {
  return std::ranges::any_of(
      options, [](const sim::ClusterOption& option) { return !option.error && option.inputs.plan.rollout.given; });
}

Result<std::string> plan_file(model::Plan plan) {
  name_whole_paths(plan);
  const auto config = TRY(resolve_model(plan.file, plan.model.config));
  const auto shipped = resolve_model("", plan.model.config);
  std::error_code ignored;
  const bool same = shipped && std::filesystem::equivalent(*shipped, config, ignored);
  if (!same) plan.model.config = std::filesystem::absolute(config).lexically_normal().string();
  return model::is_deployment(plan) ? model::deployment_toml(plan) : model::to_toml(plan);
}

}  // namespace plumbline::cli
