#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

#include "cli/plan/plan_verb.h"
#include "cli/progress.h"
#include "reports/text/plan/plan_report.h"
#include "sim/deployment/deployment_answer.h"

namespace plumbline::cli {
namespace {

using model::Result;
using model::wrong_input;

Result<void> check_arguments(const SearchArguments& arguments) {
  if (!arguments.deadline.empty())
    return wrong_input("--deadline", "a deployment has no end",
                       "limits of serving are --set inference.max_tpot_s=0.05, inference.max_ttft_s=2 and --budget");
  if (!arguments.tokens.empty())
    return wrong_input("--tokens", "a deployment serves without an end",
                       "leave it out, or give --set inference.demand_output_tokens_per_day=1e9");
  if (!arguments.resume.empty())
    return wrong_input("--resume", "a search of deployments keeps no results", "leave it out: it takes seconds");
  return refuse_given({{"--complete", arguments.complete},
                       {"--exhaustive", arguments.exhaustive},
                       {"--any-software", arguments.any_software}},
                      "it is of a search of training plans; all deployments are predicted");
}

Result<sim::DeploymentAnswer> load_answer(const SearchRequest& request, const sim::Recipe& recipe) {
  sim::DeploymentAnswer answer;
  answer.objective = TRY(sim::parse_objective(request.objective));
  if (!request.budget.empty()) answer.most_usd_per_hour = TRY(sim::parse_usd(request.budget));
  answer.confidence = request.confidence.value_or(answer.confidence);
  answer.name = recipe.name;
  answer.overrides = TRY(overrides_of(request));
  auto options = TRY(load_options(request, recipe, Purpose::serving));
  TRY(check_priced(options, answer.most_usd_per_hour.has_value(),
                   answer.objective == sim::Objective::tokens_per_dollar));
  for (sim::ClusterOption& option : options) answer.options.push_back({std::move(option), {}, {}});
  return answer;
}

Result<void> search_all(const SearchRequest& request, sim::DeploymentAnswer& answer,
                        const std::function<bool()>& stopped) {
  for (sim::DeploymentOption& option : answer.options) {
    if (option.on.error) continue;
    if (stopped()) break;
    ProgressBar bar(reports::option_name(option.on) + ", deployments");
    sim::SearchOptions options;
    options.top = request.top;
    options.threads = request.threads;
    options.on_progress = [&bar](const sim::SearchProgress& progress) { bar.update(progress.done, progress.total); };
    options.stopped = stopped;
    TRY(sim::search_option(answer, option, options));
  }
  answer.complete = !stopped();
  sim::rank(answer);
  return {};
}

Result<void> write_forms(const SearchArguments& arguments, const sim::DeploymentAnswer& answer) {
  TRY(arguments.outputs.write({{"--json", [&] { return reports::deployment_json(answer); }},
                               {"--csv", [&] { return reports::deployment_csv(answer); }}}));
  if (answer.order.empty()) return {};
  return arguments.outputs.write({{"--svg", [&] { return reports::deployment_svg(answer); }},
                                  {"-o", [&] { return plan_file(answer.best(0).plan); }}});
}

// Prints to stderr why there is no deployment within the limits; returns 0 when there is one.
int deployment_exit(const sim::DeploymentAnswer& answer) {
  if (!answer.complete) return incomplete_exit();
  if (!answer.order.empty() && answer.best(0).within) return 0;
  for (const sim::DeploymentOption& option : answer.options)
    if (option.search.best.empty())
      fmt::print(stderr, "plumbline: {}: no deployment: {}\n", reports::option_name(option.on),
                 reports::why_none(option));
  for (const std::string& sentence : sim::what_would_do(answer))
    fmt::print(stderr, "plumbline: no deployment keeps the limits: {}\n", sentence);
  return infeasible_exit;
}

}  // namespace

Result<sim::DeploymentAnswer> find_deployments(const SearchRequest& request, const sim::Recipe& recipe,
                                               const std::function<bool()>& stopped) {
  auto answer = TRY(load_answer(request, recipe));
  TRY(search_all(request, answer, stopped));
  return answer;
}

Result<int> plan_deployments(const SearchArguments& arguments) {
  const auto recipe = TRY(find_recipe(arguments));
  if (arguments.plan.print)
    return printed(model::to_toml(TRY(load_answer(arguments, recipe)).options.front().on.inputs.plan));
  TRY(check_arguments(arguments));
  const Interrupt interrupt;
  const auto answer = TRY(find_deployments(arguments, recipe, [&] { return interrupt.requested(); }));
  TRY(write_forms(arguments, answer));
  TRY(arguments.outputs.print(reports::deployment_text(answer, color())));
  return deployment_exit(answer);
}

}  // namespace plumbline::cli
