#include "sim/whatif/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/validate/case_evaluation.h"
#include "cli/answers.h"
#include "cli/inputs.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "cli/tasks/spread.h"
#include "cli/verb.h"
#include "model/base/decimal.h"
#include "reports/quantities.h"
#include "reports/text/whatif/whatif_report.h"
#include "sim/whatif/range.h"
#include "sim/whatif/solve_plan.h"

namespace plumbline::cli {
namespace {

using model::Result;
using model::wrong_input;

struct SweepArguments {
  PlanArguments plan;
  std::vector<std::string> over;
  std::string fidelity = "step";
  sim::SweepLimits limits;
  Outputs outputs;
  bool tornado = false, intervals = false, no_intervals = false;
  std::string solve, target;  // KEY, and METRIC=VALUE
  std::string resume;
};

// Returns the inputs of the plan with changes after those of --set. Errors about a key of the changes name --over.
sim::ChangedInputs changed_inputs(const SweepArguments& arguments) {
  return [&arguments, reader = std::make_shared<InputsReader>(Purpose::stated)](
             const std::vector<std::string>& changes) -> Result<sim::Inputs> {
    std::vector<std::string> all = arguments.plan.overrides;
    all.insert(all.end(), changes.begin(), changes.end());
    auto inputs = reader->load(arguments.plan.plan, all);
    if (inputs) return inputs;
    model::Error error = inputs.error();
    for (const std::string& change : changes)
      if (error.file == "--set" && model::name_fits(error.key, change.substr(0, change.find('='))))
        error.file = "--over";
    return tl::unexpected(error);
  };
}

Result<sim::SweepGrid> read_grid(const SweepArguments& arguments) {
  auto grid = sweep_grid(arguments.over, arguments.plan.overrides);
  if (grid && arguments.outputs.given("--svg") && !grid->numeric_axis())
    return wrong_input("--svg", "a picture needs a swept key with at least two numbers",
                       "for example --over overlap.communication_sms=0..64:4");
  return grid;
}

// Refuses options that exclude each other.
Result<void> check(const SweepArguments& arguments) {
  const bool solving = !arguments.solve.empty();
  if (arguments.tornado && solving)
    return wrong_input("--solve", "cannot be combined with --tornado", "leave one of the two out");
  if (solving == arguments.target.empty())
    return wrong_input(solving ? "--for" : "--solve", "--solve KEY and --for METRIC=VALUE belong together",
                       "for example --solve cluster.nic_gbps --for step.time_s=15");
  if ((arguments.tornado || solving) && (arguments.intervals || arguments.no_intervals))
    return wrong_input(arguments.intervals ? "--interval" : "--no-interval", "is for sweeps", "leave it out");
  if (solving && arguments.outputs.given("--svg"))
    return wrong_input("--svg", "a solution has no picture", "take --json");
  if (solving && arguments.over.size() > 1)
    return wrong_input("--over", "one key is solved for", "give its range alone");
  if (arguments.over.empty() && !arguments.tornado && !solving && !arguments.plan.print)
    return wrong_input("--over", "nothing to sweep", "for example --over overlap.communication_sms=0..64:4");
  return {};
}

// The metrics of a tornado and of a target are those of a training step, or of a deployment.
Result<void> refuse_rollout(const SweepArguments& arguments) {
  const model::Plan plan = TRY(changed_inputs(arguments)({})).plan;
  if (!plan.rollout.given) return {};
  return tl::unexpected(model::plan_error(plan, model::ErrorKind::input, "rollout",
                                          "steps of reinforcement learning have no metric of --tornado and --solve",
                                          "sweep them with --over alone, or leave [rollout] out: an update alone"));
}

// Calls `work`, which simulates points, with a progress bar and returns its result.
template <class Work>
auto with_progress(sim::Fidelity fidelity, bool intervals, sim::Tasks& tasks, Work work) {
  ProgressBar bar("points");
  return work({.fidelity = fidelity,
               .intervals = intervals,
               .tasks = &tasks,
               .watch = {.on_progress = [&bar](std::size_t done, std::size_t total) { bar.update(done, total); }}});
}

void print_warnings(const std::vector<Result<sim::SweepPoint>>& points) {
  std::set<std::string> printed;
  for (const Result<sim::SweepPoint>& point : points) {
    if (!point) continue;
    for (const std::string& sentence : point->result.warnings)
      if (printed.insert(sentence).second) fmt::print(stderr, "warning: {}\n", sentence);
  }
}

// Draws take a millisecond or two, and some twenty where ranks of experts wait for each other; of a deployment some
// hundred.
bool draws_intervals(const SweepArguments& arguments, const sim::SweepGrid& grid, const sim::ChangedInputs& changed) {
  constexpr std::size_t most_points = 200, most_with_experts = 20, most_deployments = 16;
  if (arguments.intervals || arguments.no_intervals) return arguments.intervals;
  const auto inputs = changed(grid.changes(0));
  if (inputs && (model::is_deployment(inputs->plan) || inputs->engines)) return grid.size() <= most_deployments;
  const bool experts = inputs && inputs->architecture.experts.routed_experts > 0;
  return grid.size() <= (experts ? most_with_experts : most_points);
}

Result<int> run_sweep(const SweepArguments& arguments, sim::Fidelity fidelity, sim::Tasks& tasks) {
  auto grid = TRY(read_grid(arguments));
  const Interrupt interrupt;
  const sim::ChangedInputs changed = changed_inputs(arguments);
  const bool intervals = draws_intervals(arguments, grid, changed);
  const auto result = TRY(with_progress(fidelity, intervals, tasks, [&](sim::SweepOptions options) {
    options.watch.stopped = [&] { return interrupt.requested(); };
    return sim::sweep(std::move(grid), changed, arguments.limits, options);
  }));
  TRY(arguments.outputs.write({{"--json", [&] { return reports::sweep_json(result); }},
                               {"--csv", [&] { return reports::sweep_csv(result); }},
                               {"--svg", [&] { return reports::sweep_svg(result); }}}));
  TRY(arguments.outputs.print(reports::sweep_text(result, color())));
  print_warnings(result.points);
  if (!result.complete) return incomplete_exit(!arguments.resume.empty());
  if (result.best) return 0;
  fmt::print(stderr, "plumbline: no point of the sweep is feasible: {}\n", sim::reason(result.points.front()));
  return infeasible_exit;
}

Result<int> run_tornado(const SweepArguments& arguments, sim::Fidelity fidelity, sim::Tasks& tasks) {
  auto inputs = TRY(sim::parse_inputs(arguments.over));
  const auto result = TRY(with_progress(fidelity, false, tasks, [&](const sim::SweepOptions& options) {
    return sim::tornado(std::move(inputs), changed_inputs(arguments), options);
  }));
  TRY(arguments.outputs.write({{"--json", [&] { return reports::tornado_json(result); }},
                               {"--csv", [&] { return reports::tornado_csv(result); }},
                               {"--svg", [&] { return reports::tornado_svg(result); }}}));
  TRY(arguments.outputs.print(reports::tornado_text(result, color())));
  return 0;
}

Result<void> check_serving_quantity(const std::string& key) {
  std::vector<std::string> known;
  reports::visit_serving(model::ServingResult(),
                         [&](const char* name, const auto&, auto...) { known.emplace_back(name); });
  if (std::ranges::find(known, key) != known.end()) return {};
  return wrong_input("--for", fmt::format("'serving.{}' is no quantity of a deployment", key),
                     model::known_names(key, known));
}

// Targets of deployments begin with `serving.`; the others are of steps.
Result<sim::SolveTarget> parse_target(const std::string& text) {
  const std::size_t equals = text.rfind('=');
  const auto number =
      equals == std::string::npos ? std::nullopt : model::parse_decimal(std::string_view(text).substr(equals + 1));
  if (!number)
    return wrong_input("--for", fmt::format("expected METRIC=VALUE, found '{}'", text), "for example step.time_s=15");
  const std::string metric = text.substr(0, equals);
  constexpr std::string_view of_deployments = "serving.";
  if (metric.starts_with(of_deployments)) {
    const std::string key = metric.substr(of_deployments.size());
    TRY(check_serving_quantity(key));
    return sim::SolveTarget{metric, number->value(), [key](const sim::SweepPoint& point) {
                              return point.serving ? reports::serving_quantity(*point.serving, key) : std::nullopt;
                            }};
  }
  if (const auto known = calibrate::check_step_metric(metric); !known) {
    model::Error error = known.error();
    error.key = "--for";
    return tl::unexpected(error);
  }
  return sim::SolveTarget{metric, number->value(), [metric](const sim::SweepPoint& point) {
                            return point.serving ? std::nullopt : calibrate::metric_value(metric, point.result);
                          }};
}

Result<int> run_solve(const SweepArguments& arguments, sim::Fidelity fidelity) {
  const auto target = TRY(parse_target(arguments.target));
  const auto over = arguments.over.empty() ? std::nullopt : std::optional(arguments.over.front());
  const auto result = TRY(sim::solve(arguments.solve, over, target, changed_inputs(arguments), fidelity));
  TRY(arguments.outputs.write({{"--json", [&] { return reports::solve_json(result); }},
                               {"--csv", [&] { return reports::solve_csv(result); }}}));
  TRY(arguments.outputs.print(reports::solve_text(result, color())));
  return result.found() ? 0 : infeasible_exit;
}

Result<int> run(const SweepArguments& arguments, sim::Tasks& tasks) {
  const Patience patience;
  const auto fidelity = TRY(sweep_fidelity(arguments.fidelity));
  TRY(check(arguments));
  if (arguments.plan.print) return printed(model::to_toml(TRY(changed_inputs(arguments)({})).plan));
  if (arguments.tornado || !arguments.solve.empty()) TRY(refuse_rollout(arguments));
  if (arguments.tornado) return run_tornado(arguments, fidelity, tasks);
  return arguments.solve.empty() ? run_sweep(arguments, fidelity, tasks) : run_solve(arguments, fidelity);
}

}  // namespace

Result<sim::Fidelity> sweep_fidelity(const std::string& word) {
  const auto fidelity = TRY(sim::parse_fidelity(word));
  if (fidelity == sim::Fidelity::cluster)
    return model::wrong_input("--fidelity", "a sweep runs one GPU for each pipeline rank",
                              "closed-form or step; plumbline simulate PLAN --fidelity cluster runs every GPU");
  return fidelity;
}

Result<sim::SweepGrid> sweep_grid(const std::vector<std::string>& over, const std::vector<std::string>& overrides) {
  std::vector<sim::SweepAxis> axes;
  for (const std::string& text : over) {
    auto axis = TRY(sim::parse_axis(text));
    for (const std::string& change : overrides)
      if (change.starts_with(axis.key + "="))
        return wrong_input(axis.key, "the key is both set and swept", "remove it from --set or from --over");
    axes.push_back(std::move(axis));
  }
  return sim::SweepGrid::make(std::move(axes));
}

void add_sweep(CLI::App& root, int& exit_code, const World& world) {
  CLI::App* verb = root.add_subcommand("sweep", "Predict a step or a deployment over ranges of keys: best and plateau");
  const auto arguments = std::make_shared<SweepArguments>();
  add_plan_arguments(*verb, arguments->plan);
  add_repeatable(*verb, "--over", arguments->over, "KEY=RANGE, a key to sweep (repeatable: every combination)");
  CLI::Option* tornado =
      verb->add_flag("--tornado", arguments->tornado,
                     "Which input moves time and cost most: each --over alone, or without them the usual inputs");
  verb->add_flag(
      "--interval", arguments->intervals,
      "The middle and the interval of each point, however many there are: without it of at most 200, 20 of a "
      "model with experts, or 16 deployments or steps of reinforcement learning");
  verb->add_flag("--no-interval", arguments->no_intervals, "Predict one number only, what the components add up to")
      ->excludes("--interval");
  CLI::Option* solve =
      verb->add_option("--solve", arguments->solve, "KEY: for which value of it the target of --for is reached");
  verb->add_option("--for", arguments->target,
                   "METRIC=VALUE, the target: step.time_s=15, run.cost_usd=4e6, serving.tpot_s=0.03");
  verb->add_option("--fidelity", arguments->fidelity, "closed-form | step")->capture_default_str();
  verb->add_option("--plateau", arguments->limits.plateau, "How much slower than the best still counts as the plateau")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str()
      ->excludes(tornado, solve);
  verb->add_option("--hidden", arguments->limits.hidden,
                   "Share of the overlapped pairs up to which communication counts as hidden")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str()
      ->excludes(tornado, solve);
  add_resume(*verb, arguments->resume);
  arguments->outputs.add(*verb, "--json", "Write all points as JSON to a file, or - for stdout");
  arguments->outputs.add(*verb, "--csv", "Write a row for each point, setting or tried value as CSV to a file, or -");
  arguments->outputs.add(*verb, "--svg", "Draw step time against the last numeric key to a file, or -");
  arguments->outputs.add_page(*verb);
  verb->footer(
      "Ranges: 0..64:4 (both ends; without a step 1), 1..64:*2 (times 2), 0..0.2:0.05, lists 1,2,4 or fp8,bf16, and\n"
      "TOML lists [1, 2]; a key that takes a list: [[3, 5], [4, 4]]. Keys of the model are swept as model.KEY,\n"
      "constants as profile.NAME and topology.NAME (with a * in it: a factor on all that match). Several --over give\n"
      "every combination, the last key fastest. GEMM: seconds of GEMMs over those of the fastest point that does the\n"
      "same work. A plan with [inference] and without [batch] is swept as a deployment, one with [rollout]\n"
      "as a step of reinforcement learning.\n\n"
      "Examples:\n"
      "  plumbline sweep deepseek-v3-2048xh800 --over overlap.communication_sms=0..64:4\n"
      "  plumbline sweep deepseek-v3-2048xh800 --over schedule.kind=dualpipe,1f1b "
      "--over overlap.communication_sms=8..40:4 --svg sweep.svg\n"
      "  plumbline sweep deepseek-v3-2048xh800 --over model.n_routed_experts=128,256,512 "
      "--over routing.max_nodes_per_token=1..8 --csv -\n"
      "  plumbline sweep deepseek-v3-2048xh800 --tornado --svg tornado.svg\n"
      "  plumbline sweep deepseek-v3-2048xh800 --tornado --over 'profile.memory.*.bandwidth=0.8..1.2'\n"
      "  plumbline sweep deepseek-v3-2048xh800 --solve cluster.nic_gbps --for step.time_s=17.5\n"
      "  plumbline sweep llama-3-70b-8xh100 --over inference.concurrency=1..1024:*2\n"
      "  plumbline sweep llama-3-70b-8xh100 --solve inference.concurrency --for serving.tpot_s=0.03\n"
      "  mpirun -n 4 plumbline sweep deepseek-v3-2048xh800 --over overlap.communication_sms=0..64 --resume points.db");
  verb->callback([arguments, verb, &exit_code, world] {
    exit_code = run_spread(world, *verb, arguments->resume, arguments->outputs,
                           [&](sim::Tasks& tasks) { return run(*arguments, tasks); });
  });
}

}  // namespace plumbline::cli
