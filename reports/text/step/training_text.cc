#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "reports/generation_report.h"
#include "reports/text/step/describe.h"
#include "reports/text/step/summary.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

std::string spread(const std::vector<double>& seconds) {
  const auto [low, high] = std::ranges::minmax(seconds);
  return seconds.size() < 2 ? "" : fmt::format(" ({} to {})", duration(low), duration(high));
}

std::string executed_slots(const model::StepTimes& step, std::int32_t rank) {
  Table table(fmt::format("slots of rank {} | >count | >each | >together", rank));
  for (std::size_t kind = 0; kind < step.slots_s.size(); ++kind) {
    if (step.slot_counts[kind] == 0) continue;
    const double total = step.slots_s[kind].value_or(0);
    table.row(describe(static_cast<model::OpType>(kind)), step.slot_counts[kind],
              duration(total / static_cast<double>(step.slot_counts[kind])), duration(total));
  }
  table.add_rule();
  table.add({"bubble", "", "", duration(step.bubble_s.value_or(0))});
  table.add({"optimizer", "", "", duration(step.optimizer_s.value_or(0))});
  return table.to_string();
}

std::string executed_classes(const model::StepTimes& step, std::int32_t rank) {
  Table table(fmt::format("time of rank {} | >seconds | >share", rank));
  for (const auto& part : step.breakdown)
    table.add({part.name, duration(part.seconds), percent(part.seconds / step.time_s)});
  return table.to_string();
}

std::string training_lines(const TrainingReport& training) {
  std::string text =
      fmt::format("  loss {:.4f} in step {}, {:.4f} in step {}\n", training.losses.front(), training.first_step,
                  training.losses.back(), training.first_step + static_cast<std::int64_t>(training.losses.size()) - 1);
  if (training.skipped > 0) text += fmt::format("  {} steps skipped: gradients overflowed\n", training.skipped);
  for (const TrainingReport::Load& load : training.loads)
    text += fmt::format("  experts of layer {}: largest load {} over the mean, variation {}\n", load.layer,
                        percent(load.max_violation), percent(load.variation));
  return text;
}

// Shows bytes that are no printable characters of ASCII by their code, so that terminals take no commands from a model.
std::string shown(const std::vector<std::int32_t>& tokens, bool are_bytes) {
  if (!are_bytes) return fmt::format("{}", fmt::join(tokens, " "));
  std::string text;
  for (const std::int32_t token : tokens) {
    const bool printable = (token >= ' ' && token <= '~') || token == '\n';
    text += printable ? std::string(1, static_cast<char>(token)) : fmt::format("\\x{:02x}", token);
  }
  return text;
}

// Returns "  TPOT  12.00 ms   predicted 11.00 ms (-8.3 %)".
std::string line_of(const std::string& name, double measured, const model::ServingResult* predicted, double expected) {
  std::string line = fmt::format("  {:<18}{:>12}", name, duration(measured));
  if (predicted != nullptr)
    line += fmt::format("  predicted {} ({})", duration(expected), signed_percent(expected / measured - 1));
  return line + '\n';
}

}  // namespace

std::string training_summary(const model::StepResult& result, const model::Plan& plan, const TrainingReport& training) {
  const model::StepTimes& step = result.step;
  const auto rank = static_cast<std::int32_t>(training.emulated_rank.value_or(0));
  std::string text = fmt::format("{} on {}, {}\n", model_name(plan), hardware(plan, result.device), parallelism(plan));
  text += fmt::format("measured step ({} clock): {}{}, median of {}", training.clock, duration(step.time_s),
                      spread(training.measured_seconds), training.measured_seconds.size());
  text += training.emulated_rank ? "\n" : fmt::format("; {} tokens/s\n", grouped(step.tokens_per_s));
  if (training.issue_s)
    text += fmt::format("the host issues an operator in {} of CPU time\n", duration(*training.issue_s));
  if (result.memory.measured) text += fmt::format("memory in use: {} GB\n", gigabytes(result.memory.peak_bytes));
  for (const std::string& note : training.notes) text += note + "\n";
  text += "\n" + executed_slots(step, rank) + "\n" + executed_classes(step, rank);
  return training.emulated_rank ? text : text + "\n" + training_lines(training);
}

std::string generation_text(const GenerationReport& report) {
  std::string text;
  for (std::size_t i = 0; i < report.outputs.size(); ++i)
    text += fmt::format("request {}: {} | {}\n", i, shown(report.prompts[i], report.are_bytes),
                        shown(report.outputs[i], report.are_bytes));
  text += fmt::format("\n{} requests, {} prompt tokens and {} generated ones each, model of {} steps, clock {}\n",
                      report.outputs.size(), report.prompts.front().size(), report.outputs.front().size(),
                      report.trained_steps, report.clock);
  const model::ServingResult* predicted = report.predicted ? &*report.predicted : nullptr;
  const double of_prefill = predicted == nullptr
                                ? 0
                                : report.requests() * report.prompt_tokens() / static_cast<double>(report.gpus) /
                                      predicted->prefill_tokens_per_s_per_gpu;
  text += line_of("prefill", report.prefill_s, predicted, of_prefill);
  if (report.tpot_s > 0)
    text += line_of("TPOT", report.tpot_s, predicted, predicted == nullptr ? 0 : predicted->decode_step_s);
  if (!report.unpredicted.empty()) text += fmt::format("  not predicted: {}\n", report.unpredicted);
  return text;
}

}  // namespace plumbline::reports
