#include "sim/campaign/campaign.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/deadline.h"
#include "cli/inputs.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "cli/tasks/spread.h"
#include "cli/verb.h"
#include "model/memory/memory.h"
#include "reports/text/campaign/campaign_report.h"
#include "sim/goodput/campaign_answer.h"
#include "sim/interval/interval.h"

namespace plumbline::cli {
namespace {

constexpr std::int64_t most_seeds = 1'000'000;

struct CampaignArguments {
  PlanArguments plan;
  Outputs outputs;
  std::int64_t seeds = 200;
  std::uint64_t seed = 1;
  bool no_interval = false;
  std::string finish_by;
  std::vector<std::int64_t> spares;
  std::string resume;
};

// Returns the numbers of spare nodes to compare: those given, else some around the campaign's.
std::vector<std::int64_t> spares_of(const CampaignArguments& arguments, std::int64_t present) {
  std::vector<std::int64_t> spares = arguments.spares;
  if (spares.empty()) spares = {0, present / 2, present, present + 1, 2 * present + 2};
  std::ranges::sort(spares);
  const auto repeated = std::ranges::unique(spares);
  spares.erase(repeated.begin(), repeated.end());
  return spares;
}

model::Result<model::StepResult> step_of_campaign(const sim::Inputs& inputs) {
  return sim::simulate_on_network(inputs, false).map([&](sim::Simulation simulation) {
    sim::add_fit(inputs, simulation.result.memory);
    return std::move(simulation.result);
  });
}

// Returns published figures of an unchanged shipped example about its run.
std::vector<reports::Comparison> published_runs(const CampaignArguments& arguments, const model::Plan& plan,
                                                const model::StepResult& result, const sim::CampaignAnswer& answer) {
  if (!answer.run) return {};
  model::StepResult run_only;
  run_only.run = answer.run;
  run_only.step = result.step;
  auto rows = published_of(plan.file, arguments.plan.overrides, run_only);
  std::erase_if(
      rows, [](const reports::Comparison& row) { return !row.unit.ends_with("GPU-h") && !row.unit.ends_with("USD"); });
  return rows;
}

model::Result<void> write_forms(const Outputs& outputs, const reports::CampaignReport& report) {
  return outputs.write({{"--json", [&] { return reports::campaign_json(report); }},
                        {"--csv", [&] { return reports::campaign_csv(report); }},
                        {"--svg", [&] { return reports::campaign_svg(report); }}});
}

model::Result<int> run_verb(const CampaignArguments& arguments, sim::Tasks& tasks) {
  InputsReader reader;
  auto inputs = TRY(reader.load(arguments.plan.plan, arguments.plan.overrides));
  if (arguments.plan.print) return printed(model::to_toml(inputs.plan));
  const auto reliability = TRY(reader.add_campaign(inputs));
  const std::string deadline =
      arguments.finish_by.empty() ? inputs.plan.campaign.deadline.value_or("") : arguments.finish_by;
  const auto start = first_day(inputs.plan, deadline);
  sim::CampaignOptions options{
      .seeds = arguments.seeds, .seed = arguments.seed, .spares = {}, .finish_days = {}, .tasks = &tasks};
  options.spares = spares_of(arguments, inputs.campaign->spare_nodes);
  if (!deadline.empty()) options.finish_days = TRY(days_until("--finish-by", deadline, start));
  auto step = TRY(step_of_campaign(inputs));
  if (model::fit_of(step.memory) == model::Fit::does_not_fit) {
    fmt::print(stderr, "{}\n", model::infeasible_reason(step.memory));
    return infeasible_exit;
  }
  Interrupt interrupt(Interrupt::Kept::nothing);
  if (!arguments.no_interval) {
    WatchedBar bar("draws", interrupt);
    step.interval = TRY(sim::interval_of(inputs, step, {.watch = bar.watch()}));
  }
  const auto on_gpus = [&](std::int64_t gpus) -> model::Result<sim::Inputs> {
    std::vector<std::string> changes = arguments.plan.overrides;
    changes.push_back(fmt::format("cluster.gpus={}", gpus));
    auto scaled = TRY(reader.load(arguments.plan.plan, changes));
    TRY(reader.add_campaign(scaled));
    return scaled;
  };
  const auto run = [&] {
    WatchedBar bar("campaigns", interrupt);
    options.watch = bar.watch();
    return sim::campaign_answer(inputs, step, options, step_of_campaign, on_gpus);
  };
  const auto answer = TRY(run());
  const reports::CampaignReport report{
      inputs.plan, step, answer, reliability, published_runs(arguments, inputs.plan, step, answer), start};
  TRY(write_forms(arguments.outputs, report));
  TRY(arguments.outputs.print(reports::campaign_text(report, {.color = color()})));
  if (!answer.complete)
    return incomplete_exit(!arguments.resume.empty(), reports::stopped_words(answer, arguments.seeds));
  const std::string never = reports::never_sentence(report);
  if (never.empty()) return 0;
  fmt::print(stderr, "{}\n", never);
  return answer.result.finished > 0 ? 0 : infeasible_exit;
}

}  // namespace

void add_campaign(CLI::App& root, int& exit_code, const World& world) {
  CLI::App* verb = root.add_subcommand(
      "campaign",
      "Predict a whole training with its failures: days, cost, goodput, checkpoints, spares, GPUs by a date");
  const auto arguments = std::make_shared<CampaignArguments>();
  add_plan_arguments(*verb, arguments->plan);
  verb->add_option("--seeds", arguments->seeds, "Campaigns to simulate")
      ->check(CLI::Range(std::int64_t{1}, most_seeds))
      ->capture_default_str();
  verb->add_option("--seed", arguments->seed, "Of their failures")
      ->check(CLI::Range(1, 1'000'000'000))
      ->capture_default_str();
  verb->add_option("--finish-by", arguments->finish_by,
                   "A date or a duration (60d): the fewest GPUs that end by then in nine of ten cases");
  verb->add_option("--spares", arguments->spares, "Numbers of spare nodes to compare: --spares 0,2,4")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1'000'000}));
  verb->add_flag("--no-interval", arguments->no_interval, "Take the predicted step as certain");
  add_resume(*verb, arguments->resume);
  arguments->outputs.add(*verb, "--json", "Write the result as JSON to a file, or - for stdout");
  arguments->outputs.add(*verb, "--csv", "Write events and days of campaigns as CSV to a file, or - for stdout");
  arguments->outputs.add(*verb, "--svg", "Draw one campaign over days to a file, or - for stdout");
  arguments->outputs.add_page(*verb);
  verb->footer(
      "Examples:\n"
      "  plumbline campaign deepseek-v3-2048xh800\n"
      "  plumbline campaign llama-3-405b-16384xh100 --seeds 1000 --svg campaign.svg\n"
      "  plumbline campaign deepseek-v3-2048xh800 --set campaign.spare_nodes=4 --spares 0,2,4,8\n"
      "  plumbline campaign deepseek-v3-2048xh800 --finish-by 45d --json -\n"
      "  mpirun -n 4 plumbline campaign llama-3-405b-16384xh100 --seeds 100000 --resume campaign.db");
  verb->callback([arguments, verb, &exit_code, world] {
    exit_code = run_spread(world, *verb, arguments->resume, arguments->outputs,
                           [&](sim::Tasks& tasks) { return run_verb(*arguments, tasks); });
  });
}

}  // namespace plumbline::cli
