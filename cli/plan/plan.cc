#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "cli/answers.h"
#include "cli/plan/plan_verb.h"
#include "cli/progress.h"
#include "cli/tasks/spread.h"
#include "reports/text/plan/plan_report.h"
#include "sim/search/plan_answer.h"

namespace plumbline::cli {
namespace {

using model::Result;
using model::wrong_input;

Result<void> read_limits(const SearchRequest& request, sim::PlanAnswer& answer) {
  answer.objective = TRY(sim::parse_objective(request.objective));
  if (!request.deadline.empty()) answer.limits.days = TRY(sim::parse_days(request.deadline));
  if (!request.budget.empty()) answer.limits.usd = TRY(sim::parse_usd(request.budget));
  return {};
}

// Checks that the plan trains a model, and that a limit or an objective can be evaluated for at least one option.
Result<void> check_answerable(const sim::PlanAnswer& answer) {
  if (std::ranges::any_of(answer.options, [](const sim::ClusterOption& option) {
        return !option.error && option.inputs.plan.batch.global_batch_size == 0;
      }))
    return wrong_input("--objective", "the plan has no [batch]: it serves a model and does not train it",
                       "give throughput, latency or tokens-per-dollar");
  if (!answer.has_tokens) {
    const char* option = answer.limits.days ? "--deadline" : answer.limits.usd ? "--budget" : "--objective";
    if (answer.limits.any() || answer.objective == sim::Objective::cost)
      return wrong_input(option, "days and cost need the length of the training", "give the tokens: --tokens 1T");
  }
  return check_priced(answer.options, answer.limits.usd.has_value(), answer.objective == sim::Objective::cost);
}

Result<sim::PlanAnswer> load(const SearchRequest& request, const sim::Recipe& recipe,
                             std::vector<sim::ClusterOption> options) {
  sim::PlanAnswer answer;
  TRY(read_limits(request, answer));
  answer.options = std::move(options);
  answer.name = recipe.name;
  answer.overrides = TRY(overrides_of(request));
  answer.assumptions = reports::assumptions(recipe, answer.overrides);
  answer.top = request.top;
  answer.every_value = request.complete || request.exhaustive;
  answer.has_tokens = std::ranges::any_of(
      answer.options, [](const sim::ClusterOption& option) { return option.inputs.plan.run.tokens.has_value(); });
  TRY(check_answerable(answer));
  return answer;
}

Result<void> search_options(const SearchRequest& request, sim::Tasks& tasks, sim::PlanAnswer& answer,
                            const std::function<bool()>& stopped) {
  for (std::size_t i = 0; i < answer.options.size(); ++i) {
    sim::ClusterOption& option = answer.options[i];
    if (option.error) continue;
    option.search.complete = !stopped();
    if (!option.search.complete) continue;
    const std::string place =
        answer.options.size() > 1 ? fmt::format(" ({} of {})", i + 1, answer.options.size()) : std::string();
    ProgressBar bar(reports::option_name(option) + place + ", plans");
    sim::SearchOptions options;
    options.top = request.top;
    options.threads = request.threads;
    options.tasks = &tasks;
    options.breadth = answer.every_value ? sim::Breadth::complete : sim::Breadth::quick;
    options.exhaustive = request.exhaustive;
    options.on_progress = [&bar](const sim::SearchProgress& progress) { bar.update(progress.done, progress.total); };
    options.stopped = stopped;
    TRY(sim::search_with_remedies(option, options));
  }
  answer.complete = !stopped();
  return {};
}

Result<void> write_files(const SearchArguments& arguments, const sim::PlanAnswer& answer) {
  TRY(arguments.outputs.write(
      {{"--json", [&] { return reports::plan_json(answer); }}, {"--csv", [&] { return reports::plan_csv(answer); }}}));
  if (answer.order.empty()) return {};
  return arguments.outputs.write({{"--svg", [&] { return reports::plan_svg(answer); }},
                                  {"-o", [&] { return plan_file(answer.best(answer.recommended).plan); }}});
}

// Prints to stderr why the question has no answer; returns 0 when it has one.
int verdict_exit(const sim::PlanAnswer& answer) {
  if (!answer.complete) return incomplete_exit();
  if (answer.order.empty()) {
    for (const sim::ClusterOption& option : answer.options)
      fmt::print(stderr, "plumbline: {}: no plan: {}\n", reports::option_name(answer, option),
                 reports::why_empty(option));
    return infeasible_exit;
  }
  if (answer.limits_met()) return 0;
  fmt::print(stderr, "plumbline: no plan meets the limits: {}\n", reports::unmet_limits(answer));
  return infeasible_exit;
}

Result<int> run(const SearchArguments& arguments, sim::Tasks& tasks) {
  const auto objective = TRY(sim::parse_objective(arguments.objective));
  if (sim::serves(objective)) return plan_deployments(arguments);
  const auto recipe = TRY(find_recipe(arguments));
  auto options = TRY(load_options(arguments, recipe, Purpose::training));
  if (arguments.plan.print) return printed(model::to_toml(options.front().inputs.plan));
  if (trains_by_rollout(options)) return plan_rollouts(arguments, recipe, std::move(options));
  const Interrupt interrupt;
  const auto answer =
      TRY(find_plans(arguments, recipe, std::move(options), tasks, [&] { return interrupt.requested(); }));
  TRY(write_files(arguments, answer));
  TRY(arguments.outputs.print(reports::plan_text(answer, color())));
  return verdict_exit(answer);
}

}  // namespace

Result<sim::PlanAnswer> find_plans(const SearchRequest& request, const sim::Recipe& recipe,
                                   std::vector<sim::ClusterOption> options, sim::Tasks& tasks,
                                   const std::function<bool()>& stopped) {
  auto answer = TRY(load(request, recipe, std::move(options)));
  TRY(search_options(request, tasks, answer, stopped));
  sim::rank(answer);
  if (answer.order.empty() || !answer.complete) return answer;
  InputsReader reader;
  const auto add_campaign = [&](sim::Inputs& inputs) -> Result<std::string> {
    return TRY(reader.add_campaign(inputs)).name;
  };
  // As a campaign reads the plan that -o writes: what was searched is stated, so that no stack sets it otherwise.
  const auto load_stated =
      [load = TRY(plan_loader(request, reader, Purpose::training))](const model::Plan& plan) -> Result<sim::Inputs> {
    const auto text = TRY(plan_file(plan));
    return load(TRY(model::read_plan(text, plan.file, {})));
  };
  const auto simulated = [](const sim::Inputs& inputs) {
    return predict_step(inputs, {.with_interval = false, .with_assumed = false}).map([](sim::Simulation simulation) {
      return std::move(simulation.result);
    });
  };
  TRY(sim::find_campaigns(answer, add_campaign, load_stated, simulated, tasks));
  sim::find_break_evens(answer, request.threads, stopped);
  TRY(sim::find_parts(answer, request.threads));
  return answer;
}

void add_plan(CLI::App& root, int& exit_code, const World& world) {
  CLI::App* verb = root.add_subcommand(
      "plan", "Find the fastest or cheapest plan of a model on one or more clusters, to train or to serve it");
  const auto arguments = std::make_shared<SearchArguments>();
  add_plan_arguments(*verb, arguments->plan);
  verb->get_option("PLAN")->description("Name of a shipped model, a config.json, or a plan to search around");
  verb->add_option("--gpus", arguments->gpus, "N[,N...]: sizes of the clusters that name none; default: the plan's")
      ->delimiter(',');
  verb->add_option(
          "--cluster", arguments->clusters,
          "NAME[@GPUS][:PROFILE][,...]: shipped topologies or files, with size and profile if not the usual ones; "
          "default: the plan's")
      ->delimiter(',');
  add_repeatable(
      *verb, "--offer", arguments->offers,
      "CLUSTER:GPUS[@USD_PER_GPU_HOUR[:PROFILE]]: a cluster of a size that is offered, and for what (repeatable; "
      "instead of --cluster and --gpus)");
  verb->add_option("--tokens", arguments->tokens, "Tokens of the training: 5T, 14.8T, 300B; default: the plan's");
  verb->add_option(
          "--objective", arguments->objective,
          "time | cost | gpu-hours: what ranks the clusters; throughput | latency | tokens-per-dollar: the best "
          "deployment that serves the model, by [inference] (docs/serving.md)")
      ->capture_default_str();
  verb->add_option("--deadline", arguments->deadline, "Longest training: 60d, 36h, 8w");
  verb->add_option("--budget", arguments->budget, "Highest cost in USD: 6e6, 5.5M; of a deployment, in an hour");
  verb->add_option("--confidence", arguments->confidence,
                   "Share of cases in which limits of a deployment's TPOT and TTFT hold (default: 0.5)")
      ->check(CLI::Range(0.05, 0.95));
  verb->add_option("--top", arguments->top, "Plans to list")
      ->check(CLI::Range(std::size_t{1}, SearchRequest::most_top))
      ->capture_default_str();
  verb->add_option("--threads", arguments->threads, "Threads of the search; 0: as many as cores")
      ->capture_default_str();
  verb->add_flag("--complete", arguments->complete,
                 "Try every value of each key that makes sense, not only those that usually win (docs/planning.md)");
  verb->add_flag("--exhaustive", arguments->exhaustive,
                 "The same, and evaluate every plan that fits in memory, without bounds");
  verb->add_flag("--any-software", arguments->any_software,
                 "Try schedules, ZeRO stages and layouts that the software stack does not have, too");
  add_resume(*verb, arguments->resume);
  arguments->outputs.add(*verb, "--json", "Write the answer as JSON to a file, or - for stdout");
  arguments->outputs.add(*verb, "--csv", "Write a row for each plan as CSV to a file, or - for stdout");
  arguments->outputs.add(*verb, "--svg",
                         "Draw days against dollars, or interactivity against throughput, to a file, or -");
  arguments->outputs.add_page(*verb);
  arguments->outputs.add(*verb, "-o", "Write the best plan to a file, or -");
  verb->footer(
      "Ctrl-C prints the best found so far (exit code 130).\n"
      "Examples:\n"
      "  plumbline plan qwen3-235b --offer h200-hgx:512@2.60 --offer h100-dgx:1024@1.95 --tokens 5T --deadline 90d "
      "--budget 2e6\n"
      "  plumbline plan deepseek-v3 --gpus 2048 --cluster h800-rail-fat-tree,h100-dgx,h200-hgx\n"
      "  plumbline plan llama-3-70b --tokens 5T --cluster h200-hgx@512,h100-dgx@1024\n"
      "  plumbline plan llama-3-405b --gpus 8192,16384 --cluster h100-dgx:h100-torch --objective cost --deadline 120d\n"
      "  plumbline plan my/config.json --gpus 256 --cluster h200-hgx -o best.toml\n"
      "  plumbline plan deepseek-v3-2048xh800 --set search.pipeline=[8,16]\n"
      "  plumbline plan deepseek-v3 --objective throughput --gpus 512 --cluster h800-rail-fat-tree "
      "--set inference.max_tpot_s=0.05\n"
      "  mpirun -n 16 plumbline plan llama-3-405b --gpus 16384 --cluster h100-dgx --complete --resume search.db");
  verb->callback([arguments, verb, &exit_code, world] {
    exit_code = run_spread(world, *verb, arguments->resume, arguments->outputs,
                           [&](sim::Tasks& tasks) { return run(*arguments, tasks); });
  });
}

}  // namespace plumbline::cli
