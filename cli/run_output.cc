#include "cli/run_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "reports/describe.h"
#include "reports/format.h"
#include "reports/table.h"

namespace plumbline::cli {

namespace {

using reports::Align;
using reports::Table;

std::string spread(const std::vector<double>& seconds) {
  const auto [low, high] = std::ranges::minmax(seconds);
  return seconds.size() < 2 ? "" : fmt::format(" ({} to {})", reports::duration(low), reports::duration(high));
}

std::string slot_table(const model::StepTimes& step) {
  Table table({{"slots of rank 0"}, {"count", Align::right}, {"each", Align::right}, {"together", Align::right}});
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

std::string class_table(const model::StepTimes& step) {
  Table table({{"time of rank 0"}, {"seconds", Align::right}, {"share", Align::right}});
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

}  // namespace

reports::TrainingReport training_report(const real::host::RunResult& result, const std::string& clock) {
  const real::TrainingResult& training = result.training;
  reports::TrainingReport report{clock,
                                 training.first_step,
                                 training.losses,
                                 training.gradient_norms,
                                 training.seconds,
                                 result.measured_seconds,
                                 training.skipped,
                                 {}};
  for (const real::LayerLoad& load : training.loads)
    report.loads.push_back({load.layer, load.max_violation, load.variation, load.rows});
  return report;
}

std::string run_summary(const real::host::RunResult& result, const model::Plan& plan, const std::string& clock) {
  const model::StepTimes& step = result.step.result.step;
  std::string text = fmt::format("{} on {}, {}\n", reports::model_name(plan),
                                 reports::hardware(plan, result.step.result), reports::parallelism(plan));
  text += fmt::format("measured step ({} clock): {}{}, median of {}; {} tokens/s\n\n", clock,
                      reports::duration(step.time_s), spread(result.measured_seconds), result.measured_seconds.size(),
                      reports::grouped(step.tokens_per_s));
  return text + slot_table(step) + "\n" + class_table(step) + "\n" + training_lines(result.training);
}

}  // namespace plumbline::cli
