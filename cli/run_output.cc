#include "cli/run_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "cli/output.h"
#include "reports/json/json.h"
#include "reports/text/describe.h"
#include "reports/text/format.h"
#include "reports/text/table.h"
#include "reports/trace/trace.h"

namespace plumbline::cli {

namespace {

using reports::Align;
using reports::Table;

std::string spread(const std::vector<double>& seconds) {
  const auto [low, high] = std::ranges::minmax(seconds);
  return seconds.size() < 2 ? "" : fmt::format(" ({} to {})", reports::duration(low), reports::duration(high));
}

std::string slot_table(const model::StepTimes& step, std::int32_t rank) {
  Table table({{fmt::format("slots of rank {}", rank)},
               {"count", Align::right},
               {"each", Align::right},
               {"together", Align::right}});
  for (std::size_t kind = 0; kind < step.slots_s.size(); ++kind) {
    if (step.slot_counts[kind] == 0) continue;
    const double total = step.slots_s[kind].value_or(0);
    table.add({std::string(reports::describe(static_cast<model::OpType>(kind))),
               fmt::format("{}", step.slot_counts[kind]),
               reports::duration(total / static_cast<double>(step.slot_counts[kind])), reports::duration(total)});
  }
  table.add_rule();
  table.add({"bubble", "", "", reports::duration(step.bubble_s.value_or(0))});
  table.add({"optimizer", "", "", reports::duration(step.optimizer_s.value_or(0))});
  return table.to_string();
}

std::string class_table(const model::StepTimes& step, std::int32_t rank) {
  Table table({{fmt::format("time of rank {}", rank)}, {"seconds", Align::right}, {"share", Align::right}});
  for (const auto& part : step.breakdown)
    table.add({part.name, reports::duration(part.seconds), reports::percent(part.seconds / step.time_s)});
  return table.to_string();
}

std::string training_lines(const real::TrainingResult& training) {
  std::string text = fmt::format("  loss {:.4f} in step {}, {:.4f} in step {}\n", training.losses.front(),
                                 training.first_step, training.losses.back(), training.progress.step);
  if (training.skipped > 0) text += fmt::format("  {} steps skipped: gradients overflowed\n", training.skipped);
  for (const real::LayerLoad& load : training.loads)
    text += fmt::format("  experts of layer {}: largest load {} over the mean, variation {}\n", load.layer,
                        reports::percent(load.max_violation), reports::percent(load.variation));
  return text;
}

model::Result<void> write_files(const RunArguments& arguments, const sim::Inputs& inputs, const real::RunResult& result,
                                const RunDescription& description) {
  if (!arguments.json.empty()) {
    const std::string json =
        reports::to_json(result.step.result, inputs.plan, training_report(result, description), result.step.timeline);
    if (auto written = write_output(arguments.json, json); !written) return written;
  }
  if (arguments.trace.empty()) return {};
  return write_output(arguments.trace, reports::to_trace(result.step.timeline, {}, arguments.trace.ends_with(".gz")));
}

}  // namespace

reports::TrainingReport training_report(const real::RunResult& result, const RunDescription& description) {
  const real::TrainingResult& training = result.training;
  reports::TrainingReport report;
  report.clock = description.clock;
  if (description.emulated) report.emulated_rank = description.rank;
  report.device_memory_bytes = description.device_memory_bytes;
  report.notes = description.notes;
  report.first_step = training.first_step;
  report.losses = training.losses;
  report.gradient_norms = training.gradient_norms;
  report.seconds = training.seconds;
  report.measured_seconds = result.measured_seconds;
  report.skipped = training.skipped;
  for (const real::LayerLoad& load : training.loads)
    report.loads.push_back({load.layer, load.max_violation, load.variation, load.rows});
  return report;
}

std::string run_summary(const real::RunResult& result, const model::Plan& plan, const RunDescription& description) {
  const model::StepTimes& step = result.step.result.step;
  std::string text = fmt::format("{} on {}, {}\n", reports::model_name(plan),
                                 reports::hardware(plan, result.step.result), reports::parallelism(plan));
  text += fmt::format("measured step ({} clock): {}{}, median of {}", description.clock, reports::duration(step.time_s),
                      spread(result.measured_seconds), result.measured_seconds.size());
  text += description.emulated ? "\n" : fmt::format("; {} tokens/s\n", reports::grouped(step.tokens_per_s));
  if (description.device_memory_bytes)
    text += fmt::format("device memory in use: {} GB\n",
                        reports::gigabytes(static_cast<double>(*description.device_memory_bytes)));
  for (const std::string& note : description.notes) text += note + "\n";
  text += "\n" + slot_table(step, description.rank) + "\n" + class_table(step, description.rank);
  return description.emulated ? text : text + "\n" + training_lines(result.training);
}

int write_run(const RunArguments& arguments, const sim::Inputs& inputs, const real::RunResult& result,
              const RunDescription& description) {
  if (result.training.seconds.empty()) {
    fmt::print(stderr, "nothing to do: the checkpoint has {} steps already\n", result.training.progress.step);
    return 0;
  }
  if (const auto written = write_files(arguments, inputs, result, description); !written)
    return report(written.error());
  if (arguments.json != "-" && arguments.trace != "-") fmt::print("{}", run_summary(result, inputs.plan, description));
  return 0;
}

}  // namespace plumbline::cli
