#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "cli/plan/plan_verb.h"
#include "cli/progress.h"
#include "model/plan/rollout.h"
#include "reports/text/plan/plan_report.h"
#include "sim/search/cluster_choice.h"

namespace plumbline::cli {
namespace {

using model::Result;
using model::wrong_input;

Result<sim::RolloutAnswer> load_rollout_answer(const SearchRequest& request, const sim::Recipe& recipe,
                                               std::vector<sim::ClusterOption> options) {
  if (!request.tokens.empty())
    return wrong_input("--tokens", "a run of reinforcement learning is counted in steps",
                       "leave it out, and give --set rollout.steps=200");
  sim::RolloutAnswer answer;
  answer.objective = TRY(sim::parse_objective(request.objective));
  if (!request.deadline.empty()) answer.limits.days = TRY(sim::parse_days(request.deadline));
  if (!request.budget.empty()) answer.limits.usd = TRY(sim::parse_usd(request.budget));
  answer.name = recipe.name;
  answer.overrides = TRY(overrides_of(request));
  for (const sim::ClusterOption& option : options)
    if ((answer.limits.any() || answer.objective == sim::Objective::cost) && !option.error &&
        !option.inputs.plan.rollout.steps)
      return wrong_input("rollout.steps", "days and cost need the length of the run", "give --set rollout.steps=200");
  TRY(check_priced(options, answer.limits.usd.has_value(), answer.objective == sim::Objective::cost));
  answer.options = std::move(options);
  return answer;
}

}  // namespace

Result<sim::RolloutAnswer> find_rollouts(const SearchRequest& request, const sim::Recipe& recipe,
                                         std::vector<sim::ClusterOption> options,
                                         const std::function<bool()>& stopped) {
  auto answer = TRY(load_rollout_answer(request, recipe, std::move(options)));
  InputsReader reader(Purpose::training);
  const auto inputs = TRY(plan_loader(request, reader, Purpose::training));
  sim::SearchOptions search;
  search.threads = request.threads;
  search.breadth = request.complete || request.exhaustive ? sim::Breadth::complete : sim::Breadth::quick;
  search.exhaustive = request.exhaustive;
  const auto choices = TRY(sim::cluster_choices(request.clusters, request.gpus, request.offers));
  for (std::size_t i = 0; i < answer.options.size(); ++i) {
    const sim::ClusterOption& option = answer.options[i];
    if (option.error) continue;
    const model::Plan& plan = option.inputs.plan;
    const bool both = model::is_colocated(plan) || choices[i].gpus > 0;  // sizes of a question are those of both halves
    const std::int64_t gpus = plan.cluster.gpus + (both ? 0 : model::rollout_gpus(plan));
    ProgressBar bar(reports::option_name(option) + ", splits");
    const auto progress = [&bar](std::size_t done, std::size_t total) { bar.update(done, total); };
    TRY(sim::search_splits(answer, i, gpus, inputs, search, {stopped, progress}));
    if (!answer.complete) break;
  }
  sim::rank(answer);
  return answer;
}

Result<int> plan_rollouts(const SearchArguments& arguments, const sim::Recipe& recipe,
                          std::vector<sim::ClusterOption> options) {
  TRY(arguments.outputs.check_among({"--json", "--csv", "--html", "-o"}, "a division of GPUs"));
  if (!arguments.resume.empty())
    return wrong_input("--resume", "a search of divided GPUs keeps no results", "leave it out: it takes seconds");
  const Interrupt interrupt;
  const auto answer = TRY(find_rollouts(arguments, recipe, std::move(options), [&] { return interrupt.requested(); }));
  TRY(arguments.outputs.write({{"--json", [&] { return reports::rollout_plans_json(answer); }},
                               {"--csv", [&] { return reports::rollout_plans_csv(answer); }}}));
  if (answer.found())
    TRY(arguments.outputs.write({{"-o", [&] { return plan_file(answer.splits.front().best->plan); }}}));
  TRY(arguments.outputs.print(reports::rollout_plans_text(answer, arguments.top, color())));
  if (!answer.complete) return incomplete_exit();
  for (const sim::ClusterOption& option : answer.options)
    if (option.error)
      fmt::print(stderr, "plumbline: {}: no plan: {}\n", reports::option_name(option), option.error->message);
  if (!answer.found()) {
    fmt::print(stderr, "plumbline: no split of the GPUs fits\n");
    return infeasible_exit;
  }
  if (sim::within(answer.splits.front().best->cost, answer.limits)) return 0;
  fmt::print(stderr, "plumbline: no split meets the limits\n");
  return infeasible_exit;
}

}  // namespace plumbline::cli
