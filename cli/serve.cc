#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/import/printed_files.h"
#include "calibrate/validate/serving/serving_case.h"
#include "cli/answers.h"
#include "cli/data.h"
#include "cli/inputs.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "cli/verb.h"
#include "model/base/text_file.h"
#include "reports/text/serving/serving_report.h"
#include "sim/analysis/assumed.h"
#include "sim/analysis/measured_step.h"
#include "sim/interval/interval.h"
#include "sim/serving/serving.h"

namespace plumbline::cli {
namespace {

struct ServeArguments {
  PlanArguments plan;
  Outputs outputs;
  bool no_interval = false;
  double confidence = 0.5;
  std::optional<std::string> measured;
  sim::IntervalOptions interval{.draws = sim::serving_draws};
};

model::Result<int> run(const ServeArguments& arguments) {
  InputsReader reader(Purpose::serving);
  const auto inputs = TRY(reader.load(arguments.plan.plan, arguments.plan.overrides));
  if (arguments.plan.print) return printed(model::to_toml(inputs.plan));
  std::optional<sim::MeasuredValue> measured;
  if (arguments.measured && model::is_file(*arguments.measured)) {
    const auto text = TRY(model::read_text_file(*arguments.measured));
    measured = TRY(calibrate::parse_serving_benchmark(text, *arguments.measured, inputs.plan));
  } else if (arguments.measured) {
    measured = TRY(sim::parse_measured_deployment(*arguments.measured));
  }
  Interrupt interrupt(Interrupt::Kept::nothing);
  const auto predicted = [&] {
    WatchedBar bar("draws", interrupt);
    std::optional<sim::IntervalOptions> interval;
    if (!arguments.no_interval) interval = arguments.interval;
    if (interval) interval->watch = bar.watch();
    return predict_deployment(inputs, interval, arguments.confidence);
  };
  const auto result = TRY(predicted());
  const bool stopped = interrupt.requested();
  reports::ServingReport report{inputs, result, TRY(published_figures(inputs.plan, arguments.plan.overrides))};
  if (measured && (result.interval || !stopped)) report.measured = TRY(sim::measured_deployment(result, *measured));
  TRY(arguments.outputs.write({{"--json", [&] { return reports::serving_json(report); }},
                               {"--csv", [&] { return reports::serving_csv(report); }},
                               {"--svg", [&] { return reports::serving_svg(report); }}}));
  TRY(arguments.outputs.print(reports::serving_text(report, {.color = color()})));
  if (!stopped) return 0;
  fmt::print(stderr, "plumbline: stopped: {}\n",
             result.interval ? "the interval rests on the draws so far"
                             : "there is no interval, and the limits hold for the prediction alone");
  return interrupted_exit();
}

}  // namespace

model::Result<std::vector<calibrate::ExampleFigure>> published_figures(const model::Plan& plan,
                                                                       const std::vector<std::string>& overrides) {
  if (!overrides.empty()) return {};
  const auto data = TRY(data_folder());
  auto figures = TRY(calibrate::load_example_figures(data + "/published/serving/examples.csv"));
  const std::string name = std::filesystem::path(plan.file).stem().string();
  std::erase_if(figures, [&](const calibrate::ExampleFigure& figure) { return figure.plan != name; });
  return figures;
}

model::Result<model::ServingResult> predict_deployment(const sim::Inputs& inputs,
                                                       const std::optional<sim::IntervalOptions>& interval,
                                                       double confidence) {
  auto result =
      TRY(interval ? sim::predict_serving_within(inputs, confidence, *interval) : sim::predict_serving(inputs));
  sim::add_fit(inputs, result, interval.value_or(sim::IntervalOptions{.draws = sim::serving_draws}));
  if (!interval) return result;
  if (!interval->watch.stops()) result.assumed = TRY(sim::assumed_of_deployment(inputs, result.concurrency));
  return result;
}

void add_serve(CLI::App& root, int& exit_code) {
  CLI::App* verb = root.add_subcommand(
      "serve", "Predict what serving a model costs: TPOT, TTFT, tokens/s per GPU, KV cache, USD per million tokens");
  const auto arguments = std::make_shared<ServeArguments>();
  add_plan_arguments(*verb, arguments->plan);
  CLI::Option* alone =
      verb->add_flag("--no-interval", arguments->no_interval, "Predict one number only, without its interval");
  verb->add_option("--confidence", arguments->confidence,
                   "Share of cases in which inference.max_tpot_s and max_ttft_s hold")
      ->check(CLI::Range(0.05, 0.95))
      ->capture_default_str()
      ->excludes(alone);
  verb->add_option("--measured", arguments->measured,
                   "A measured time per output token (35ms) or rate of output tokens (9000tok/s, 560tok/s/GPU), or a "
                   "file of what vllm bench serve or sglang.bench_serving found, to hold against the interval")
      ->excludes(alone);
  verb->add_option("--draws", arguments->interval.draws, "Predictions behind the interval")
      ->check(CLI::Range(sim::fewest_draws, sim::most_draws))
      ->capture_default_str()
      ->excludes(alone);
  verb->add_option("--seed", arguments->interval.seed, "Of those predictions")
      ->check(CLI::Range(1, 1'000'000'000))
      ->capture_default_str()
      ->excludes(alone);
  arguments->outputs.add(*verb, "--json", "Write the result as JSON to a file, or - for stdout");
  arguments->outputs.add(*verb, "--csv", "Write the frontier as CSV to a file, or - for stdout");
  arguments->outputs.add(*verb, "--svg", "Draw the frontier, interactivity against throughput, to a file, or -");
  arguments->outputs.add_page(*verb);
  verb->footer(
      "Examples:\n"
      "  plumbline serve deepseek-v3-144xh800\n"
      "  plumbline serve llama-3-70b-8xh100 --set inference.concurrency=0 --set inference.max_tpot_s=0.03\n"
      "  plumbline serve llama-3-70b-8xh100 --set inference.concurrency=0 --set inference.max_tpot_s=0.03 --confidence "
      "0.9\n"
      "  plumbline serve llama-3-70b-8xh100 --set inference.input_tokens=8192 --svg frontier.svg --json -\n"
      "  plumbline serve llama-3-70b-8xh100 --set inference.concurrency=32 --measured 35ms\n"
      "  plumbline serve deepseek-v3-144xh800 --set inference.demand_output_tokens_per_day=168e9");
  verb->callback([arguments, &exit_code] { exit_code = exit_of(run(*arguments)); });
}

}  // namespace plumbline::cli
