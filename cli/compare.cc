#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/chunk/chunk.h"
#include "calibrate/import/printed_files.h"
#include "calibrate/match/trace_comparison.h"
#include "cli/answers.h"
#include "cli/data.h"
#include "cli/inputs.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "cli/verb.h"
#include "model/base/text_file.h"
#include "model/result/comparison.h"
#include "reports/html/page.h"
#include "reports/json/read_json.h"
#include "reports/text/compare/comparison.h"

namespace plumbline::cli {
namespace {

struct CompareArguments {
  std::vector<std::string> subjects;
  std::vector<std::string> overrides;
  std::optional<std::string> profile, baseline;
  std::vector<std::string> clusters;
  std::vector<std::int64_t> gpus;
  std::optional<std::int32_t> rank;
  std::string classes, trace_ranks;
  Outputs outputs;
  std::string waits = "measured", fidelity = "step", against = "first";
  bool by_class = false, no_interval = false;
};

// The kinds of subjects: plans and stored results, whose steps are compared, and a trace of kernels or a training log,
// which is compared with one plan. A new kind needs a value here, a test in kind_of, and a comparison below.
enum class Kind { plan, result, trace, log };

bool is_log(const std::string& subject) {
  if (subject.ends_with(".toml")) return false;
  const auto text = model::read_file(subject);
  return text && (subject.ends_with(".log") || subject.ends_with(".out") || calibrate::is_training_log(*text));
}

Kind kind_of(const std::string& subject) {
  if (subject.ends_with(".csv") || is_profiler_trace(subject)) return Kind::trace;
  if (reports::is_result(subject)) return Kind::result;
  if (is_log(subject)) return Kind::log;
  if (model::is_file(subject) || resolve(Shipped::plan, subject)) return Kind::plan;
  return resolve(Shipped::published, subject) ? Kind::trace : Kind::plan;
}

model::Result<calibrate::Waits> waits_of(const std::string& word) {
  if (word == "measured") return calibrate::Waits::measured;
  if (word == "predicted") return calibrate::Waits::predicted;
  return model::wrong_input("--waits", fmt::format("'{}' is not known", word), "measured or predicted");
}

// Returns the comparison of a pair of chunks, where the trace is one with as many layers as the plan's.
std::optional<calibrate::ChunkComparison> compared_pair(const sim::Inputs& inputs, const KernelTrace& trace,
                                                        calibrate::Waits waits) {
  if (trace.timeline.layer_pairs == 0) return std::nullopt;
  auto comparison = calibrate::compare_chunk(trace.timeline, inputs, waits);
  return comparison && comparison->times.same_slots ? std::optional(std::move(*comparison)) : std::nullopt;
}

model::Result<calibrate::TraceComparison> compared_step(const sim::Inputs& inputs, const KernelTrace& trace,
                                                        std::optional<std::int32_t> rank) {
  calibrate::TraceOrigin origin = trace.origin;
  origin.pipeline_rank = rank;
  return calibrate::compare_trace(trace.timeline, inputs, origin);
}

model::Result<void> write_pair(const CompareArguments& arguments, const reports::ChunkComparisonOutput& output) {
  TRY(arguments.outputs.check_among({"--json", "--csv", "--html"}, "an overlapped pair of chunks"));
  TRY(arguments.outputs.write({{"--json", [&] { return reports::chunk_comparison_json(output); }},
                               {"--csv", [&] { return reports::chunk_comparison_csv(output); }}}));
  return arguments.outputs.print(reports::chunk_comparison_text(output));
}

model::Result<void> compare_with_trace(const CompareArguments& arguments, const std::string& plan,
                                       const std::string& name) {
  const auto inputs = TRY(InputsReader().load(plan, arguments.overrides, arguments.profile));
  const auto trace = TRY(read_kernel_trace(name, arguments.classes));
  if (const auto pair = compared_pair(inputs, trace, TRY(waits_of(arguments.waits))))
    return write_pair(arguments,
                      {*pair, inputs.plan, plan, inputs.profile.name(), name, trace.timeline.kernels.size()});
  TRY(arguments.outputs.check_among({"--json", "--csv", "--trace", "--html"}, "a trace"));
  const auto comparison = TRY(compared_step(inputs, trace, arguments.rank));
  const reports::TraceComparisonOutput output{comparison, trace.timeline,        inputs.plan,
                                              plan,       inputs.profile.name(), name};
  const auto both = [&](const PieceSink& sink) {
    return reports::write_trace_comparison(output, {source_revision(), arguments.outputs.compressed("--trace"), {}},
                                           sink);
  };
  TRY(arguments.outputs.write({{"--json", [&] { return reports::trace_comparison_json(output); }},
                               {"--csv", [&] { return reports::trace_comparison_csv(output); }},
                               {"--trace", {}, both}}));
  return arguments.outputs.print(reports::trace_comparison_text(output));
}

// Holds the step of a log against the prediction, and answers as `simulate --measured`.
model::Result<int> compare_with_log(const CompareArguments& arguments, const std::string& plan,
                                    const std::string& log) {
  TRY(refuse_given({{"--cluster", !arguments.clusters.empty()},
                    {"--gpus", !arguments.gpus.empty()},
                    {"--baseline", arguments.baseline.has_value()},
                    {"--rank", arguments.rank.has_value()},
                    {"--classes", !arguments.classes.empty()},
                    {"--by-class", arguments.by_class},
                    {"--svg", arguments.outputs.given("--svg")},
                    {"--trace-ranks", !arguments.trace_ranks.empty()},
                    {"--waits", arguments.waits != "measured"},
                    {"--against", arguments.against != "first"}},
                   "a training log is compared with one plan as it is"));
  const auto fidelity = TRY(sim::parse_fidelity(arguments.fidelity));
  const auto inputs = TRY(InputsReader().load(plan, arguments.overrides, arguments.profile));
  StepRequest request{.fidelity = fidelity,
                      .record = arguments.outputs.given("--trace") || arguments.outputs.given("--html"),
                      .with_interval = !arguments.no_interval};
  request.measured = TRY(read_measured(log, std::nullopt, inputs.plan));
  return show_step(arguments.outputs, arguments.overrides, inputs, TRY(predict_step(inputs, request)));
}

// Timelines are needed for a trace or a page, and to compare overlapped pairs with measured ones.
bool wants_timelines(const CompareArguments& arguments) {
  return arguments.outputs.given("--trace") || arguments.outputs.given("--html") ||
         std::ranges::any_of(arguments.subjects, reports::is_result);
}

model::Result<model::ResultComparison> compare_steps(const CompareArguments& arguments) {
  const auto fidelity = TRY(sim::parse_fidelity(arguments.fidelity));
  auto subjects = TRY(comparison_subjects({arguments.subjects, arguments.clusters, arguments.gpus, arguments.overrides,
                                           arguments.profile, fidelity, wants_timelines(arguments), arguments.baseline,
                                           !arguments.no_interval}));
  return model::compare_results(
      std::move(subjects), arguments.against == "first" ? model::Against::first : model::Against::previous,
      arguments.by_class ? model::WaterfallDetail::classes : model::WaterfallDetail::categories);
}

// Returns how many ranks the timelines number: pipeline ranks, with --fidelity cluster GPUs.
std::int64_t ranks_of(const model::ResultComparison& comparison) {
  std::int64_t ranks = 0;
  for (const model::ComparisonSubject& subject : comparison.subjects) {
    const model::Plan& plan = subject.plan;
    ranks = std::max(ranks, subject.timeline.gpus.empty() ? plan.parallelism.pipeline : plan.cluster.gpus);
  }
  return ranks;
}

model::Result<void> write_files(const CompareArguments& arguments, const model::ResultComparison& comparison) {
  const Outputs& outputs = arguments.outputs;
  TRY(outputs.write({{"--json", [&] { return reports::result_comparison_json(comparison); }},
                     {"--csv", [&] { return reports::result_comparison_csv(comparison); }},
                     {"--svg", [&] { return reports::result_comparison_svg(comparison); }}},
                    [&] { return reports::step_page_data(reports::recorded_subjects(comparison), {}); }));
  if (!outputs.given("--trace")) return {};
  const auto subjects = TRY(reports::trace_subjects(comparison));
  const auto ranks = TRY(parse_trace_ranks(arguments.trace_ranks, ranks_of(comparison)));
  const auto trace = [&](const PieceSink& sink) {
    return reports::write_trace(subjects, {source_revision(), outputs.compressed("--trace"), ranks}, sink);
  };
  return outputs.write({{"--trace", {}, trace}});
}

model::Result<int> show_steps(const CompareArguments& arguments) {
  TRY(refuse_given({{"--rank", arguments.rank.has_value()},
                    {"--classes", !arguments.classes.empty()},
                    {"--waits", arguments.waits != "measured"}},
                   "it is of a trace, and none is given"));
  const auto comparison = TRY(compare_steps(arguments));
  if (comparison.deployments())
    TRY(refuse_given({{"--trace", arguments.outputs.given("--trace")},
                      {"--by-class", arguments.by_class},
                      {"--baseline", arguments.baseline.has_value()}},
                     "it is of training steps, and these are deployments"));
  if (comparison.rollouts())
    TRY(refuse_given({{"--by-class", arguments.by_class}, {"--baseline", arguments.baseline.has_value()}},
                     "it is of training steps, and these are steps of reinforcement learning"));
  TRY(write_files(arguments, comparison));
  TRY(arguments.outputs.print(reports::result_comparison_text(comparison, color())));
  const auto possible = [](const model::ComparisonSubject& subject) { return subject.reason().empty(); };
  if (std::ranges::any_of(comparison.subjects, possible)) return 0;
  fmt::print(stderr, "plumbline: no subject is feasible: {}\n", comparison.subjects.front().reason());
  return infeasible_exit;
}

model::Result<int> compare(const CompareArguments& arguments) {
  if (!arguments.trace_ranks.empty() && !arguments.outputs.given("--trace"))
    return model::wrong_input("--trace-ranks", "ranks are chosen for a trace", "give --trace FILE");
  std::map<Kind, std::vector<std::string>> of;
  for (const std::string& subject : arguments.subjects) of[kind_of(subject)].push_back(subject);
  if (!of.contains(Kind::trace) && !of.contains(Kind::log)) return show_steps(arguments);
  const Kind kind = of.contains(Kind::trace) ? Kind::trace : Kind::log;
  const std::string& measured = of[kind].front();
  if (of[Kind::plan].size() != 1 || arguments.subjects.size() != 2)
    return model::wrong_input(measured, "a trace or log is compared with one plan and nothing else",
                              "plumbline compare PLAN TRACE.json.gz, PLAN CHUNK.csv or PLAN train.log");
  const std::string& plan = of[Kind::plan].front();
  if (kind == Kind::log) return compare_with_log(arguments, plan, measured);
  if (!arguments.trace_ranks.empty())
    return model::wrong_input("--trace-ranks", fmt::format("'{}' is of one rank", measured),
                              "leave it out: --rank gives it");
  return compare_with_trace(arguments, plan, measured).map([] { return 0; });
}

model::Result<int> run(const CompareArguments& arguments) {
  const Patience patience;
  const auto done = compare(arguments);
  return done ? *done : report(done.error());
}

}  // namespace

bool is_kernel_trace(const std::string& subject) { return kind_of(subject) == Kind::trace; }

model::Result<std::string> compare_kernel_trace(const sim::Inputs& inputs, const std::string& plan,
                                                const std::string& name, std::optional<std::int32_t> rank) {
  const auto trace = TRY(read_kernel_trace(name, ""));
  const std::string profile = inputs.profile.name();
  if (const auto pair = compared_pair(inputs, trace, calibrate::Waits::measured))
    return reports::chunk_comparison_json({*pair, inputs.plan, plan, profile, name, trace.timeline.kernels.size()});
  const auto comparison = TRY(compared_step(inputs, trace, rank));
  return reports::trace_comparison_json({comparison, trace.timeline, inputs.plan, plan, profile, name});
}

void add_compare(CLI::App& root, int& exit_code) {
  CLI::App* verb =
      root.add_subcommand("compare", "Compare plans, results, traces and logs: why one is slower, or dearer");
  const auto arguments = std::make_shared<CompareArguments>();
  verb->add_option(
          "A B", arguments->subjects,
          "Plans (files or shipped names) and results of `simulate --json` or `run --json`, as many as you "
          "like; or one plan and a trace of the PyTorch profiler (.json, .json.gz), or what `import kineto` "
          "made of one (.csv), or a training log of Megatron, NeMo, torchtitan or DeepSpeed (.log, .out, .txt)")
      ->required();
  verb->add_option("--cluster", arguments->clusters, "Clusters, separated by commas: one plan on each of them")
      ->delimiter(',')
      ->allow_extra_args(false);
  verb->add_option("--gpus", arguments->gpus, "Numbers of GPUs, separated by commas: one plan with each, same batch")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_repeatable(*verb, "--set", arguments->overrides,
                 "Override a key: --set overlap.communication_sms=24 (repeatable)");
  verb->add_option("--profile", arguments->profile, "Cost profile (default: the plan's)");
  verb->add_option("--baseline", arguments->baseline,
                   "With a measured step: a second profile, whose prediction of overlapped pairs is shown as well")
      ->type_name("PROFILE");
  verb->add_option("--fidelity", arguments->fidelity, "closed-form | step | cluster, for plans")->capture_default_str();
  verb->add_option("--against", arguments->against,
                   "first | previous: the subject that each step time is compared with")
      ->check(CLI::IsMember({"first", "previous"}))
      ->capture_default_str();
  verb->add_flag("--by-class", arguments->by_class, "Memory-bound classes in rows of their own");
  verb->add_flag("--no-interval", arguments->no_interval,
                 "Leave out the intervals of plans, which take most of the time");
  verb->add_option("--rank", arguments->rank,
                   "For a trace: its pipeline rank (default: by the trace's own rank, else the best match)");
  verb->add_option("--waits", arguments->waits,
                   "For a trace of an overlapped pair of chunks. measured: the rank's waits in barriers, which depend "
                   "on the other ranks, are an input; predicted: the mean of the group")
      ->capture_default_str();
  verb->add_option("--classes", arguments->classes,
                   "For a trace: file of kernel classes (default: the shipped kernels.toml)");
  arguments->outputs.add(*verb, "--json", "Write the comparison as JSON to a file, or - for stdout");
  arguments->outputs.add(*verb, "--csv", "Write the rows of all tables as CSV to a file, or - for stdout");
  arguments->outputs.add(*verb, "--svg", "Draw where the step times differ, to a file or -");
  arguments->outputs.add_page(*verb);
  arguments->outputs.add(*verb, "--trace",
                         "Write a trace for Perfetto of all steps, rank by rank, or of the rank of a trace (compressed "
                         "when it ends in .gz)");
  add_trace_ranks(*verb, arguments->trace_ranks, "ranks of the steps only (of the pipeline, or GPUs of a cluster)");
  verb->footer(
      "Differences are those of rank 0, by use of the time; they add up to the difference of the steps. Infeasible\n"
      "plans and those that do not fit are marked.\n"
      "A step that `plumbline run` measured is compared with its prediction by kind of slot and class of operator. An\n"
      "error is predicted over measured, less one.\n"
      "The kernels of a trace are matched with those of the predicted rank by class, order and shape, and compared by\n"
      "class, layer, phase and GEMM. Where the trace is one overlapped pair of chunks (DualPipe), the pair is "
      "compared;\n"
      "expert rows are taken from its notes (rows=N).\n"
      "Plans with [inference] and without [batch] are deployments, compared by what an output token costs, and by "
      "where\n"
      "its GPU time differs. Plans with [rollout] are steps of reinforcement learning, compared by their parts.\n"
      "A training log is held against the interval of its plan, as `simulate --measured` does.\n\n"
      "Examples:\n"
      "  plumbline compare old.toml new.toml last-week.json\n"
      "  plumbline compare deepseek-v3-2048xh800 --cluster h800-rail-fat-tree,h100-dgx --svg difference.svg\n"
      "  plumbline compare deepseek-v3-2048xh800 --gpus 1024,2048,4096 --against previous\n"
      "  plumbline compare llama-3-70b-8xh100 --cluster h100-dgx,h200-hgx\n"
      "  plumbline compare host-dualpipe measured.json --profile here.toml --trace both.json.gz\n"
      "  plumbline compare deepseek-v3-2048xh800 h800_dualpipe_chunk --profile h800-public --waits predicted\n"
      "  plumbline compare my-plan.toml trace.json.gz --rank 3 --json - --trace both.json.gz\n"
      "  plumbline compare my-plan.toml train.log");
  verb->callback([arguments, &exit_code] { exit_code = exit_of(run(*arguments)); });
}

}  // namespace plumbline::cli
