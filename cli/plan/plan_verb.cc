#include "cli/plan/plan_verb.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cli/answers.h"
#include "cli/data.h"
#include "cli/deadline.h"
#include "cli/progress.h"
#include "cli/tasks/spread.h"
#include "model/base/text.h"
#include "model/plan/rollout.h"
#include "model/plan/software.h"
#include "model/schedule/schedule.h"
#include "reports/text/plan/plan_report.h"
#include "reports/text/table.h"
#include "sim/deployment/deployment_answer.h"
#include "sim/predict/memos.h"
#include "sim/search/cluster_option.h"
#include "sim/search/plan_answer.h"

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

using model::wrong_input;

// Returns the shortest digits that are read as the same number: "5e+12" rather than 5000000000000.
std::string amount_text(double amount) {
  std::array<char, 32> text{};
  const auto written = std::to_chars(text.data(), text.data() + text.size(), amount);
  return {text.data(), written.ptr};
}

// Reads the limits of a training, whose first day is that of its plan where the deadline is a date.
Result<sim::Limits> limits_of(const SearchRequest& request, const std::vector<sim::ClusterOption>& options) {
  sim::Limits limits;
  if (!request.deadline.empty()) {
    const model::Plan& plan = options.front().inputs.plan;
    limits.days = TRY(days_until("--deadline", request.deadline, first_day(plan, request.deadline)));
  }
  if (!request.budget.empty()) limits.usd = TRY(sim::parse_usd(request.budget));
  return limits;
}

// Checks that a budget, or an objective that is one of costs, can be evaluated for at least one option.
Result<void> check_priced(const std::vector<sim::ClusterOption>& options, bool has_budget, bool by_cost) {
  const bool priced = std::ranges::any_of(
      options, [](const sim::ClusterOption& option) { return sim::price_of(option).value.has_value(); });
  if (priced || (!has_budget && !by_cost)) return {};
  return model::wrong_input(has_budget ? "--budget" : "--objective", "no price is known of any of the clusters",
                            "give one: --set run.price_usd_per_gpu_hour=2.0");
}

// Checks that the plan trains a model, and that a limit or an objective can be evaluated for at least one option.
Result<void> check_answerable(const sim::PlanAnswer& answer) {
  if (std::ranges::any_of(answer.options, [](const sim::ClusterOption& option) {
        return !option.error && option.inputs.plan.batch.global_batch_size == 0;
      }))
    return wrong_input("--objective", "the plan has no [batch]: it serves a model and does not train it",
                       "give throughput, latency or tokens-per-dollar");
  for (const sim::ClusterOption& option : answer.options) {
    const model::Plan& plan = option.inputs.plan;
    const auto step = static_cast<double>(plan.batch.global_batch_size * plan.batch.sequence_length);
    if (!option.error && plan.run.tokens && *plan.run.tokens < step)
      return wrong_input("--tokens",
                         fmt::format("{} tokens are less than a step, which has {}", reports::grouped(*plan.run.tokens),
                                     reports::grouped(step)),
                         "with their unit: 5T, 300B; or a smaller batch: --set batch.global_batch_size=...");
  }
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
  answer.objective = TRY(sim::parse_objective(request.objective));
  answer.limits = TRY(limits_of(request, options));
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

Result<sim::RolloutAnswer> load_rollout_answer(const SearchRequest& request, const sim::Recipe& recipe,
                                               std::vector<sim::ClusterOption> options) {
  if (!request.tokens.empty())
    return wrong_input("--tokens", "a run of reinforcement learning is counted in steps",
                       "leave it out, and give --set rollout.steps=200");
  sim::RolloutAnswer answer;
  answer.objective = TRY(sim::parse_objective(request.objective));
  answer.limits = TRY(limits_of(request, options));
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

// Returns how the request reads the inputs of plans: with its changes of constants, and without the rules of software
// that it sets aside. The reader must outlive it.
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
  if (!request.tokens.empty()) overrides.push_back("run.tokens=" + amount_text(TRY(sim::parse_tokens(request.tokens))));
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

namespace {

// Loads a plan as a verb reads the file that -o writes: what was searched is stated, so that no stack sets it
// otherwise.
Result<sim::LoadInputs> stated_loader(const SearchRequest& request, InputsReader& reader) {
  return [load = TRY(plan_loader(request, reader, Purpose::training))](const model::Plan& plan) -> Result<sim::Inputs> {
    const auto text = TRY(plan_file(plan));
    return load(TRY(model::read_plan(text, plan.file, {})));
  };
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
  const auto load_stated = TRY(stated_loader(request, reader));
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
  verb->add_option("--deadline", arguments->deadline, "End of the training: a date, or a duration (60d, 36h, 8w)");
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

Result<sim::RolloutAnswer> find_rollouts(const SearchRequest& request, const sim::Recipe& recipe,
                                         std::vector<sim::ClusterOption> options,
                                         const std::function<bool()>& stopped) {
  auto answer = TRY(load_rollout_answer(request, recipe, std::move(options)));
  InputsReader reader(Purpose::training);
  const auto inputs = TRY(plan_loader(request, reader, Purpose::training));
  const auto load_stated = TRY(stated_loader(request, reader));
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
    TRY(sim::search_splits(answer, i, gpus, inputs, load_stated, search, {stopped, progress}));
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
