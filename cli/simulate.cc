#include "sim/predict/simulate.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "calibrate/import/printed_files.h"
#include "calibrate/ledger/ledger.h"
#include "cli/answers.h"
#include "cli/data.h"
#include "cli/inputs.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "cli/verb.h"
#include "model/base/text.h"
#include "model/base/text_file.h"
#include "model/base/version.h"
#include "model/memory/memory.h"
#include "reports/html/page.h"
#include "reports/json/json.h"
#include "reports/text/step/summary.h"
#include "reports/trace/trace.h"
#include "sim/analysis/assumed.h"
#include "sim/cluster/cluster_step.h"
#include "sim/interval/interval.h"
#include "sim/rollout/rollout.h"

namespace plumbline::cli {
namespace {

struct SimulateArguments {
  PlanArguments plan;
  std::string fidelity = "step";
  Outputs outputs;
  bool every_link = false;
  std::vector<std::string> degrade, slow;
  bool no_interval = false;
  sim::IntervalOptions interval;
  std::string trace_ranks;
  std::optional<std::string> measured, measured_memory;
  std::optional<std::string> record;  // a folder or a file
  std::optional<std::int64_t> seeds;  // of --fidelity cluster
  bool kernels = false;
};

model::Result<void> write_files(const Outputs& outputs, const sim::Inputs& inputs, const sim::Simulation& simulation,
                                const std::vector<reports::Comparison>& comparisons) {
  const auto& [result, timeline, names] = std::tie(simulation.result, simulation.timeline, simulation.rank_names);
  const reports::TraceSubject subject{"", &timeline, names, result.fidelity, model::to_toml(inputs.plan)};
  const auto trace = [&](const PieceSink& sink) {
    return reports::write_trace({subject}, {source_revision(), outputs.compressed("--trace"), {}}, sink);
  };
  return outputs.write({{"--json", [&] { return reports::to_json(result, inputs.plan); }},
                        {"--csv", [&] { return reports::to_csv(result); }},
                        {"--trace", {}, trace}},
                       [&] { return reports::step_page_data({subject}, comparisons); });
}

// Parses "node3.gpu5.up=0.25@2.5": from 2.5 s on the link has a quarter of its bandwidth.
model::Result<std::vector<sim::NamedLinkChange>> parse_degrade(const std::vector<std::string>& texts) {
  std::vector<sim::NamedLinkChange> changes;
  for (const std::string& text : texts) {
    const std::vector<std::string_view> sides = model::split_at(text, '='), values = model::split_at(sides.back(), '@');
    const auto factor = model::parse_number<double>(values.front());
    const auto time = values.size() == 1 ? std::optional(0.0) : model::parse_number<double>(values.back());
    const bool possible = factor && time && *factor >= 0 && *factor <= 1 && *time >= 0;
    if (sides.size() != 2 || sides.front().empty() || values.size() > 2 || !possible)
      return model::wrong_input("--degrade", fmt::format("'{}' is not LINK=FACTOR@SECONDS", text),
                                "for example node3.gpu5.up=0.25@2.5; factor 0 fails it");
    changes.push_back({std::string(sides.front()), *time, *factor});
  }
  return changes;
}

// Parses "gpu17=0.9": kernels of that GPU take 1 / 0.9 times as long.
model::Result<std::map<std::int64_t, double>> parse_slow(const std::vector<std::string>& texts, std::int64_t gpus) {
  std::map<std::int64_t, double> slow;
  for (const std::string& text : texts) {
    const std::vector<std::string_view> sides = model::split_at(text, '=');
    const auto gpu = model::parse_number<std::int64_t>(sides.front().substr(text.starts_with("gpu") ? 3 : 0));
    const auto speed = model::parse_number<double>(sides.back());
    if (sides.size() != 2 || !gpu || *gpu < 0 || *gpu >= gpus || !speed || !(*speed >= 0.01 && *speed <= 10))
      return model::wrong_input("--slow", fmt::format("'{}' is not GPU=SPEED of {} GPUs", text, gpus),
                                "for example gpu17=0.9: nine tenths of the speed of the others; from 0.01 to 10");
    if (!slow.emplace(*gpu, *speed).second)
      return model::wrong_input("--slow", fmt::format("GPU {} is given twice", *gpu), "a GPU has one speed");
  }
  return slow;
}

// Puts what holds from the start into the wiring, from which all costs follow, and returns the changes during the step.
// What still crosses a link that is lost fails.
std::vector<sim::NamedLinkChange> degrade(sim::Inputs& inputs, std::vector<sim::NamedLinkChange> changes) {
  for (const sim::NamedLinkChange& change : changes)
    if (change.time == 0 && inputs.fabric) inputs.fabric->factors.push_back({change.link, change.factor});
  std::erase_if(changes, [](const sim::NamedLinkChange& change) { return change.time == 0 && change.factor > 0; });
  return changes;
}

// A limit above the device's own has no effect on a GPU that cannot be set so high.
void note_power_limit(const model::Plan& plan, const model::Device& device) {
  const std::optional<double> limit = plan.cluster.power_limit_w;
  if (limit && device.tdp > 0 && *limit > device.tdp)
    fmt::print(stderr, "note: cluster.power_limit_w: {:g} W are above the {:g} W of {}\n", *limit, device.tdp,
               device.name);
}

// Writes the prediction into the ledger, so that it can be held against a later measurement.
model::Result<void> record_prediction(const std::string& folder_or_file, const sim::Inputs& inputs,
                                      const model::StepResult& result, std::uint64_t seed) {
  namespace fs = std::filesystem;
  if (!result.interval)
    return model::wrong_input("--record", "the prediction has no interval", "leave out --no-interval");
  const auto entry =
      calibrate::ledger_entry(inputs, result, {now_in_utc(), std::string(model::version), source_revision(), seed});
  fs::path path = folder_or_file;
  std::error_code failed;
  if (path.extension() != ".toml") {
    fs::create_directory(path, failed);
    path /= calibrate::ledger_file_name(entry);
  }
  if (fs::exists(path, failed))
    return model::wrong_input_at(path.string(), 0, "", "this prediction is recorded, and a ledger is never rewritten",
                                 "name another file: --record FILE.toml");
  TRY(write_new_file(path.string(), calibrate::ledger_toml(entry)));
  fmt::print(stderr, "recorded: {}\n", path.string());
  return {};
}

// Returns an error where an option belongs to another fidelity.
model::Result<void> check_fidelity(const SimulateArguments& arguments, sim::Fidelity fidelity) {
  const bool cluster = fidelity == sim::Fidelity::cluster;
  if (!cluster)
    TRY(refuse_given({{"--seeds", arguments.seeds.has_value()},
                      {"--kernels", arguments.kernels},
                      {"--slow", !arguments.slow.empty()}},
                     "GPUs differ in whole clusters only", "add --fidelity cluster"));
  if (fidelity == sim::Fidelity::closed_form) {
    TRY(refuse_given({{"--trace", arguments.outputs.given("--trace")}}, "the closed form has no timeline",
                     "--fidelity step"));
    TRY(refuse_given({{"--every-link", arguments.every_link}, {"--degrade", !arguments.degrade.empty()}},
                     "the closed form simulates no links", "--fidelity step"));
  }
  if (!arguments.trace_ranks.empty() && (!arguments.outputs.given("--trace") || arguments.outputs.given("--html")))
    return model::wrong_input("--trace-ranks", "ranks are chosen for a trace, a page shows all",
                              "give --trace FILE, and --html in a run of its own");
  if (cluster && !arguments.degrade.empty())
    return model::wrong_input("--degrade", "links change on the network of --fidelity step",
                              "leave out --fidelity cluster, or --degrade");
  return {};
}

// Returns the ranks whose timeline the outputs need: those that are chosen, else all.
model::Result<sim::Recording> recording(const SimulateArguments& arguments, const sim::Inputs& inputs,
                                        sim::Fidelity fidelity) {
  if (arguments.trace_ranks.empty()) return arguments.outputs.given("--trace") || arguments.outputs.given("--html");
  const std::int64_t ranks =
      fidelity == sim::Fidelity::cluster ? inputs.plan.cluster.gpus : inputs.plan.parallelism.pipeline;
  return sim::Recording(TRY(parse_trace_ranks(arguments.trace_ranks, ranks)));
}

// Returns how much of the answer there is.
std::string what_is_there(const SimulateArguments& arguments, const model::StepResult& result) {
  std::string text;
  if (result.cluster) text = fmt::format("the step is that of {} drawn fleets, ", result.cluster->seeds);
  if (arguments.no_interval) return text + "without an interval";
  if (!result.interval) return text + "the step has no interval";
  return text + fmt::format("the interval rests on {} of {} draws", result.interval->draws, arguments.interval.draws);
}

model::Result<int> run(const SimulateArguments& arguments) {
  const Patience patience;
  const auto fidelity = TRY(sim::parse_fidelity(arguments.fidelity));
  TRY(check_fidelity(arguments, fidelity));
  auto inputs = TRY(load_inputs(arguments.plan.plan, arguments.plan.overrides));
  std::optional<sim::Measurement> measured;
  if (arguments.measured) measured = TRY(read_measured(*arguments.measured, arguments.measured_memory, inputs.plan));
  inputs.every_link = arguments.every_link;
  inputs.slow_gpus = TRY(parse_slow(arguments.slow, inputs.plan.cluster.gpus));
  note_power_limit(inputs.plan, inputs.cluster.device);
  const auto changes = degrade(inputs, TRY(parse_degrade(arguments.degrade)));
  if (inputs.fabric) TRY(topologies::check_domain(*inputs.fabric, inputs.plan));
  if (arguments.plan.print) return printed(model::to_toml(inputs.plan));
  const auto record = TRY(recording(arguments, inputs, fidelity));
  const bool shown =
      !arguments.outputs.to_stdout() || arguments.outputs.given("--json") || arguments.outputs.given("--html");
  Interrupt interrupt(Interrupt::Kept::nothing);
  const auto simulation = [&] {
    WatchedBar bar(fidelity == sim::Fidelity::cluster ? "fleets, then draws" : "draws", interrupt);
    return predict_step(inputs, {fidelity, record, changes, arguments.seeds, arguments.kernels, !arguments.no_interval,
                                 arguments.interval, measured, shown && !arguments.no_interval, bar.watch()});
  }();
  if (!simulation) return tl::unexpected(simulation.error());
  const bool stopped = interrupt.requested();
  if (!simulation->sample.empty()) fmt::print(stderr, "note: the timeline has {}\n", simulation->sample);
  if (arguments.record && !stopped)
    TRY(record_prediction(*arguments.record, inputs, simulation->result, arguments.interval.seed));
  const int exit_code = TRY(show_step(arguments.outputs, arguments.plan.overrides, inputs, *simulation));
  if (!stopped) return exit_code;
  fmt::print(stderr, "plumbline: stopped: {}{}\n", what_is_there(arguments, simulation->result),
             arguments.record ? "; nothing is recorded" : "");
  return interrupted_exit();
}

}  // namespace

model::Result<sim::Measurement> read_measured(const std::string& value_or_log, const std::optional<std::string>& memory,
                                              const model::Plan& plan) {
  if (!model::is_file(value_or_log)) return sim::parse_measurement(value_or_log, memory);
  const auto text = TRY(model::read_file(value_or_log));
  auto measurement = TRY(calibrate::parse_training_log(text, value_or_log, plan));
  if (memory) {
    measurement.peak_bytes = TRY(sim::parse_measured_peak(*memory));
    measurement.counted = model::MemoryCount::device;
  }
  return measurement;
}

model::Result<sim::Simulation> predict_step(const sim::Inputs& inputs, const StepRequest& request) {
  const auto simulated = [&]() -> model::Result<sim::Simulation> {
    if (request.fidelity == sim::Fidelity::step)
      return sim::simulate_on_network(inputs, request.record, request.changes);
    if (request.fidelity == sim::Fidelity::closed_form) return sim::simulate(inputs, request.fidelity, request.record);
    sim::ClusterOptions options{.by_kernels = request.by_kernels, .record = request.record};
    options.seed = request.interval.seed;
    options.seeds = request.seeds.value_or(options.seeds);
    options.watch = request.watch;
    return sim::simulate_cluster(inputs, options);
  };
  auto simulation = TRY(simulated());
  std::optional<sim::IntervalOptions> interval;
  if (request.with_interval) interval = request.interval;
  if (interval) interval->watch = request.watch;
  // What the GPUs of a simulated cluster differ in is part of its step and not drawn again for its interval.
  if (interval && request.fidelity == sim::Fidelity::cluster)
    interval->without.insert({"jitter and slow ranks", "slowest GPU"});
  const auto draws = TRY(sim::add_spread(inputs, simulation.result, interval));
  TRY(sim::add_rollout(inputs, simulation.result, draws, interval.value_or(sim::IntervalOptions())));
  const bool stopped = request.watch.stops();
  if (request.with_assumed && !stopped) simulation.result.assumed = TRY(sim::assumed_of_step(inputs));
  if (request.measured && (simulation.result.interval || !stopped))
    simulation.result.measured = TRY(sim::measured_step(inputs, simulation.result, *request.measured));
  return simulation;
}

model::Result<int> show_step(const Outputs& outputs, const std::vector<std::string>& overrides,
                             const sim::Inputs& inputs, const sim::Simulation& simulation) {
  const auto comparisons = published_of(inputs.plan.file, overrides, simulation.result);
  TRY(write_files(outputs, inputs, simulation, comparisons));
  TRY(outputs.print(reports::summary(simulation.result, inputs.plan, comparisons, {.color = color()})));
  if (simulation.result.rollout_error) return tl::unexpected(*simulation.result.rollout_error);
  const std::string reason = model::infeasible_reason(simulation.result);
  if (reason.empty()) return 0;
  fmt::print(stderr, "{}\n", reason);
  return infeasible_exit;
}

void add_simulate(CLI::App& root, int& exit_code) {
  CLI::App* verb = root.add_subcommand("simulate", "Predict one training step: time, memory, cost");
  const auto arguments = std::make_shared<SimulateArguments>();
  add_plan_arguments(*verb, arguments->plan);
  verb->add_option("--fidelity", arguments->fidelity, "closed-form | step | cluster")->capture_default_str();
  verb->add_option("--seeds", arguments->seeds, "With --fidelity cluster: drawn fleets, 8 by default")
      ->check(CLI::Range(std::int64_t{1}, sim::most_fleets));
  verb->add_flag("--kernels", arguments->kernels, "With --fidelity cluster: kernel by kernel instead of slot by slot");
  arguments->outputs.add(*verb, "--json", "Write the result as JSON to a file, or - for stdout");
  arguments->outputs.add(*verb, "--csv", "Write the result as CSV to a file, or - for stdout");
  arguments->outputs.add(*verb, "--trace", "Write a trace for Perfetto (compressed when it ends in .gz)");
  arguments->outputs.add_page(*verb);
  add_trace_ranks(*verb, arguments->trace_ranks,
                  "pipeline ranks only (with --fidelity cluster: GPUs), with the kernels of all of their slots");
  verb->add_flag("--every-link", arguments->every_link,
                 "Simulate all links of each expert group, not only those of one representative GPU");
  verb->add_option(
      "--degrade", arguments->degrade,
      "LINK=FACTOR@SECONDS: from then on links have that share of their bandwidth, 0 fails them; node3.nic0, "
      "plane2 or a pattern with *; a NIC that is lost from the start is avoided (repeatable)");
  verb->add_option("--slow", arguments->slow,
                   "With --fidelity cluster, GPU=SPEED: gpu17=0.9 has nine tenths of the others' speed (repeatable)");
  CLI::Option* alone =
      verb->add_flag("--no-interval", arguments->no_interval, "Predict one number only, without its interval");
  verb->add_option("--draws", arguments->interval.draws, "Predictions behind the interval")
      ->check(CLI::Range(sim::fewest_draws, sim::most_draws))
      ->capture_default_str()
      ->excludes(alone);
  verb->add_option("--without", arguments->interval.without,
                   "A source of uncertainty that is taken as known (repeatable)")
      ->take_all()
      ->allow_extra_args(false)
      ->excludes(alone)
      ->check(
          CLI::IsMember(std::vector<std::string>(std::begin(sim::interval_sources), std::end(sim::interval_sources))));
  verb->add_option("--seed", arguments->interval.seed, "Of those predictions, and of the first fleet")
      ->check(CLI::Range(1, 1'000'000'000))
      ->capture_default_str();
  CLI::Option* measured = verb->add_option(
      "--measured", arguments->measured,
      "A measured step, to hold against the interval: 2.1s, 1.2Mtok/s, 7800tok/s/GPU, 230TFLOP/s of a GPU, 41% MFU, "
      "or a training log");
  verb->add_option("--measured-memory", arguments->measured_memory,
                   "With --measured: the peak of the fullest GPU as nvidia-smi states it, 71GB or 68000MiB")
      ->needs(measured);
  verb->add_option("--record", arguments->record,
                   "Write the prediction to a ledger before it is measured: a folder or a new file")
      ->expected(0, 1)
      ->default_str("ledger");
  verb->footer(
      "Examples:\n"
      "  plumbline simulate examples/deepseek-v3-2048xh800.toml\n"
      "  plumbline simulate deepseek-v3-2048xh800 --fidelity closed-form --json -\n"
      "  plumbline simulate deepseek-v3-2048xh800 --set overlap.communication_sms=24 --trace step.json.gz\n"
      "  plumbline simulate deepseek-v3-2048xh800 --trace rank3.json.gz --trace-ranks 3\n"
      "  plumbline simulate deepseek-v3-2048xh800 --fidelity cluster --seeds 4\n"
      "  plumbline simulate llama-3-8b-64xh800 --measured 480TFLOP/s --measured-memory 71GB\n"
      "  plumbline simulate my-plan.toml --record");
  verb->callback([arguments, &exit_code] { exit_code = exit_of(run(*arguments)); });
}

}  // namespace plumbline::cli
