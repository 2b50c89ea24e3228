#include "sim/whatif/sweep.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/sweep_arguments.h"
#include "cli/sweep_grid.h"
#include "cli/sweep_result.h"
#include "cli/verb.h"

namespace plumbline::cli {

namespace {

using model::Error;
using model::ErrorKind;
using model::Result;

constexpr int infeasible_exit = 2;

tl::unexpected<Error> input_error(std::string message, std::string key, std::string hint) {
  return tl::make_unexpected(Error{ErrorKind::input, std::move(message), "", 0, std::move(key), std::move(hint)});
}

Result<SweepGrid> read_grid(const SweepArguments& arguments) {
  std::vector<SweepAxis> axes;
  for (const std::string& text : arguments.over) {
    auto axis = parse_axis(text);
    if (!axis) return tl::unexpected(axis.error());
    for (const std::string& change : arguments.plan.overrides) {
      if (change.starts_with(axis->key + "="))
        return input_error("the key is both set and swept", axis->key, "remove it from --set or from --over");
    }
    axes.push_back(std::move(*axis));
  }
  auto grid = SweepGrid::make(std::move(axes));
  if (grid && !arguments.svg.empty() && !grid->numeric_axis())
    return input_error("a picture needs a swept key with at least two numbers", "--svg",
                       "for example --over overlap.communication_sms=0..64:4");
  return grid;
}

// What does not go together.
Result<void> check(const SweepArguments& arguments) {
  int to_stdout = 0;
  for (const std::string* path : {&arguments.json, &arguments.csv, &arguments.svg}) to_stdout += *path == "-" ? 1 : 0;
  if (to_stdout > 1)
    return input_error("only one output can go to stdout", arguments.json == "-" ? "--json" : "--svg",
                       "give the others a file");
  const bool solving = !arguments.solve.empty();
  if (arguments.tornado && solving) return input_error("is a question of its own", "--solve", "leave --tornado out");
  if (solving == arguments.target.empty())
    return input_error("--solve KEY and --for METRIC=VALUE belong together", solving ? "--for" : "--solve",
                       "for example --solve cluster.nic_gbps --for step.time_s=15");
  if ((arguments.tornado || solving) && !arguments.csv.empty())
    return input_error("is for sweeps", "--csv", "take --json");
  if (solving && !arguments.svg.empty()) return input_error("a solution has no picture", "--svg", "take --json");
  if (arguments.over.empty() && !arguments.tornado && !solving && !arguments.plan.print)
    return input_error("nothing to sweep", "--over", "for example --over overlap.communication_sms=0..64:4");
  return {};
}

Result<SweepResult> run_sweep(const SweepArguments& arguments, SweepGrid grid, sim::Fidelity fidelity) {
  const auto inputs = [&](std::size_t point) { return inputs_with(arguments, grid.overrides(point)); };
  ProgressBar bar("points");
  const auto progress = [&](std::size_t done) { bar.update(done, grid.size()); };
  auto points = sim::sweep(grid.size(), inputs, {.fidelity = fidelity, .on_progress = progress});
  if (!points) return tl::unexpected(points.error());
  SweepResult result = sweep_result(std::move(grid), fidelity, arguments.limits, std::move(*points));
  auto shown = inputs_with(arguments, result.grid.overrides(result.best.value_or(0)));
  if (shown) result.plan = std::move(shown->plan);
  return result;
}

Result<void> write_files(const SweepArguments& arguments, const SweepResult& result) {
  using Writer = std::string (*)(const SweepResult&);
  const std::pair<const std::string&, Writer> outputs[] = {
      {arguments.json, sweep_json}, {arguments.csv, sweep_csv}, {arguments.svg, sweep_svg}};
  for (const auto& [path, writer] : outputs) {
    if (path.empty()) continue;
    if (auto written = write_output(path, writer(result)); !written) return written;
  }
  return {};
}

Result<int> run(const SweepArguments& arguments) {
  const auto fidelity = sim::parse_fidelity(arguments.fidelity);
  if (!fidelity) return tl::unexpected(fidelity.error());
  if (const auto fine = check(arguments); !fine) return tl::unexpected(fine.error());
  if (arguments.plan.print) {
    const auto inputs = load_inputs(arguments.plan.plan, arguments.plan.overrides);
    if (!inputs) return tl::unexpected(inputs.error());
    fmt::print("{}", model::to_toml(inputs->plan));
    return 0;
  }
  if (arguments.tornado) return run_tornado(arguments, *fidelity);
  if (!arguments.solve.empty()) return run_solve(arguments, *fidelity);
  auto grid = read_grid(arguments);
  if (!grid) return tl::unexpected(grid.error());
  const auto result = run_sweep(arguments, std::move(*grid), *fidelity);
  if (!result) return tl::unexpected(result.error());
  if (const auto written = write_files(arguments, *result); !written) return tl::unexpected(written.error());
  const bool stdout_taken = arguments.json == "-" || arguments.csv == "-" || arguments.svg == "-";
  if (!stdout_taken) fmt::print("{}", sweep_text(*result, colour()));
  if (result->best) return 0;
  fmt::print(stderr, "plumbline: no point of the sweep is feasible: {}\n", obstacle(result->points.front()));
  return infeasible_exit;
}

}  // namespace

Result<sim::Inputs> inputs_with(const SweepArguments& arguments, const std::vector<std::string>& overrides) {
  std::vector<std::string> all = arguments.plan.overrides;
  all.insert(all.end(), overrides.begin(), overrides.end());
  auto inputs = load_inputs(arguments.plan.plan, all);
  if (inputs) return inputs;
  Error error = inputs.error();
  for (const std::string& change : overrides)
    if (error.file == "--set" && change.starts_with(error.key + "=")) error.file = "--over";
  return tl::unexpected(error);
}

CLI::App* add_sweep(CLI::App& root, int& exit_code) {
  CLI::App* verb = root.add_subcommand("sweep", "Predict a step over ranges of plan and model keys: best and plateau");
  const auto arguments = std::make_shared<SweepArguments>();
  add_plan_arguments(*verb, arguments->plan);
  verb->add_option("--over", arguments->over, "KEY=RANGE, a key to sweep (repeatable: every combination)")
      ->take_all()
      ->allow_extra_args(false);
  verb->add_flag("--tornado", arguments->tornado,
                 "Which input moves step time and cost most: each --over alone, or without them the usual inputs");
  verb->add_option("--solve", arguments->solve, "KEY: for which value of it the target of --for is reached");
  verb->add_option("--for", arguments->target, "METRIC=VALUE, the target: step.time_s=15, run.cost_usd=4e6");
  verb->add_option("--fidelity", arguments->fidelity, "closed-form | step")->capture_default_str();
  verb->add_option("--plateau", arguments->limits.plateau, "how much slower than the best still counts as the plateau")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  verb->add_option("--hidden", arguments->limits.hidden,
                   "share of the overlapped pairs up to which communication counts as hidden")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  verb->add_option("--json", arguments->json, "Write all points as JSON to a file, or - for stdout");
  verb->add_option("--csv", arguments->csv, "Write one row per point as CSV to a file, or - for stdout");
  verb->add_option("--svg", arguments->svg, "Draw step time against the last numeric key to a file, or -");
  verb->footer(
      "Ranges: 0..64:4 (both ends; without a step 1), 1..64:*2 (times 2), 0..0.2:0.05, lists 1,2,4 or fp8,bf16, and\n"
      "TOML lists [1, 2]; a key that takes a list: [[3, 5], [4, 4]]. Keys of the model are swept as model.KEY, "
      "constants\n"
      "as profile.NAME and topology.NAME (with a * in it: a factor on all that fit). Several\n"
      "--over give every combination, the last key fastest. GEMM: seconds of matrix products over those of the\n"
      "fastest point that does the same work.\n\n"
      "Examples:\n"
      "  plumbline sweep deepseek-v3-2048xh800 --over overlap.communication_sms=0..64:4\n"
      "  plumbline sweep deepseek-v3-2048xh800 --over schedule.kind=dualpipe,1f1b \\\n"
      "    --over overlap.communication_sms=8..40:4 --svg sweep.svg\n"
      "  plumbline sweep deepseek-v3-2048xh800 --over model.n_routed_experts=128,256,512 \\\n"
      "    --over routing.max_nodes_per_token=1..8 --csv -\n"
      "  plumbline sweep deepseek-v3-2048xh800 --tornado --svg tornado.svg\n"
      "  plumbline sweep deepseek-v3-2048xh800 --tornado --over 'profile.memory.*.bandwidth=0.8..1.2'\n"
      "  plumbline sweep deepseek-v3-2048xh800 --solve cluster.nic_gbps --for step.time_s=17.5");
  verb->callback([arguments, &exit_code] {
    const auto done = run(*arguments);
    exit_code = done ? *done : report(done.error());
  });
  return verb;
}

}  // namespace plumbline::cli
