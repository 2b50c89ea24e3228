#include "reports/text/step/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "calibrate/validate/case_evaluation.h"
#include "model/result/middle.h"
#include "reports/text/step/describe.h"
#include "reports/text/step/memory_report.h"
#include "reports/text/step/sections.h"

namespace plumbline::reports {

std::vector<Comparison> comparisons(const std::vector<calibrate::ValidationCase>& cases, const std::string& plan_file,
                                    const model::StepResult& result) {
  const std::string plan = std::filesystem::path(plan_file).stem().string();
  std::vector<Comparison> found;
  for (const calibrate::ValidationCase& published : cases) {
    if (published.plan != plan) continue;
    for (const calibrate::Figure& figure : published.figures)
      if (const std::optional<double> value = calibrate::predicted(figure, {.step = &result}))
        found.push_back({figure.name, figure.unit, *value, figure.value, figure.source, figure.note});
  }
  return found;
}

namespace {

constexpr std::size_t most_unmeasured = 5;
constexpr double bar_width = 30;
constexpr double shown_loss = 0.001;  // of the step: smaller losses share one row

std::string title(const model::StepResult& result, const model::Plan& plan, Style style) {
  const std::string first = fmt::format("{} on {}", model_name(plan), hardware(plan, result.device));
  std::string out;
  for (const std::string& line : wrap(first, terminal_width)) out += bold(line, style) + '\n';
  out += wrapped(parallelism(plan)) + wrapped(fmt::format("fidelity {}, {}", result.fidelity, constants_words(result)));
  if (plan.parallelism.expert > 1) out += wrapped(routing(plan));
  if (!result.assumed.empty()) out += wrapped(assumed_words(result.assumed));
  for (const std::string& sentence : result.warnings) out += wrapped(fmt::format("warning: {}", sentence));
  return out + '\n';
}

std::string headline(const model::StepResult& result) {
  const model::StepTimes step = model::middle_step(result);
  std::string out;
  const auto line = [&out](std::string_view name, const std::string& value, const std::string& note) {
    out += figure_line(name, value, note);
  };
  const std::string bound = result.bound_s ? fmt::format("lower bound {}", duration(*result.bound_s)) : "";
  line("step time", duration(step.time_s),
       result.interval ? fmt::format("8 of 10 take {}", seconds_span(result.interval->time_s)) : bound);
  line("tokens/s", grouped(step.tokens_per_s), grouped(step.tokens_per_s_per_gpu) + " per GPU");
  line("MFU (BF16 peak)", percent(step.mfu), percent(step.mfu_causal) + " with causal attention");
  line("TFLOP/s per GPU", fixed(step.model_tflops_per_gpu, 1),
       fixed(step.model_tflops_per_gpu_causal, 1) + " with causal attention");
  if (step.trained_parameters)
    line("trained parameters", grouped(*step.trained_parameters), "of adapters; the others are frozen");
  if (result.interval)
    line("from components", duration(result.step.time_s),
         fmt::format("divided below{}{}", bound.empty() ? "" : "; ", bound));
  const std::string left = result.interval ? left_sentence(*result.interval) : "";
  return left.empty() ? out : out + paragraph(left);
}

// Returns "F 91.2 %, B 90.4 %": the clocks of the kinds of slots, over that of the profile's rates.
std::string clocks(const model::StepTimes& step) {
  std::string text;
  for (std::size_t i = 0; i < step.clock.size(); ++i) {
    if (!step.clock[i] || *step.clock[i] == 1) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", model::to_string(static_cast<model::OpType>(i)),
                        percent(*step.clock[i]));
  }
  return text;
}

std::string power_section(const model::StepResult& result, const model::Plan& plan) {
  const model::StepTimes& step = result.step;
  const auto limit = plan.cluster.power_limit_w;
  std::string out = paragraph(fmt::format("Average power per GPU: {} W{}. Energy of a step: {} MJ on {} GPUs.",
                                          grouped(*step.gpu_power_w),
                                          limit ? fmt::format(" under a limit of {} W", grouped(*limit)) : "",
                                          fixed(*step.energy_j / 1e6, 3), grouped(plan.cluster.gpus)));
  if (const std::string text = clocks(step); !text.empty())
    out += paragraph(
        fmt::format("Clock during the kernels that the SMs bound, over that of the profile's rates: {}.", text));
  if (result.power_span_s)
    out += paragraph(fmt::format(
        "How the energy of a FLOP falls with the clock is assumed: with a clock exponent from 0 to 2 the step takes "
        "{} to {}.",
        duration((*result.power_span_s)[0]), duration((*result.power_span_s)[1])));
  return out;
}

std::string slots_table(const model::StepTimes& step) {
  Table table("part |  | >total | >share | >count | >slot, middle stage");
  const auto share = [&step](double seconds) { return step.time_s > 0 ? percent(seconds / step.time_s) : ""; };
  for (std::size_t i = 0; i < step.slots_s.size(); ++i) {
    if (!step.slots_s[i] || (*step.slots_s[i] == 0 && step.slot_counts[i] == 0)) continue;
    const auto type = static_cast<model::OpType>(i);
    const std::string count = step.slot_counts[i] > 0 ? fmt::format("{}", step.slot_counts[i]) : "";
    const std::string chunk = step.chunk_s[i] ? fixed(*step.chunk_s[i] * 1e3, 2) + " ms" : "";
    table.row(model::to_string(type), describe(type), fixed(*step.slots_s[i], 3) + " s", share(*step.slots_s[i]), count,
              chunk);
  }
  const auto other = [&](const char* name, std::optional<double> seconds) {
    if (seconds) table.add({"", name, fixed(*seconds, 3) + " s", share(*seconds)});
  };
  other("bubble and messages", step.bubble_s);
  other("optimizer", step.optimizer_s);
  table.add_rule();
  other("step", step.time_s);
  std::string out = table.to_string();
  constexpr double shown_reductions = 0.05;  // of the step
  if (const double left = step.exposed_gradient_reduce_s.value_or(0); left > shown_reductions * step.time_s)
    out +=
        paragraph(fmt::format("Reductions of gradients that end after the last slot: {} ({} of the step), part of "
                              "the optimizer.",
                              duration(left), share(left)));
  if (step.exposed_communication_s)
    out += paragraph(fmt::format("Communication that compute waits for inside the slots: {} ({} of the step).",
                                 duration(*step.exposed_communication_s), share(*step.exposed_communication_s)));
  return out;
}

std::string breakdown_table(const model::StepTimes& step) {
  double largest = 0;
  for (const auto& part : step.breakdown) largest = std::max(largest, part.seconds);
  Table table("class | >time | >share | ");
  for (const auto& part : step.breakdown) {
    const double filled = largest > 0 ? std::round(bar_width * std::max(part.seconds, 0.0) / largest) : 0;
    table.row(part.name, fixed(part.seconds, 3) + " s", step.time_s > 0 ? percent(part.seconds / step.time_s) : "",
              std::string(static_cast<std::size_t>(filled), '#'));
  }
  return table.to_string();
}

std::string lost_section(const model::StepResult& result) {
  const auto share = [&result](double seconds) { return percent(seconds / result.step.time_s); };
  std::string out = paragraph(fmt::format("{}: {} of rank {} at the best rates of the profile. What that rank loses:",
                                          duration(*result.bound_s), result.bound_by, result.bound_rank));
  Table table("cause | >time | >share | remedy");
  double small = 0;
  std::size_t count = 0;
  for (const model::LostTime& part : result.lost) {
    if (part.seconds >= shown_loss * result.step.time_s) {
      table.add({part.cause, fixed(part.seconds, 3) + " s", share(part.seconds), part.remedy});
    } else {
      small += part.seconds;
      ++count;
    }
  }
  if (count > 0) table.add({fmt::format("{} smaller", count), fixed(small, 3) + " s", share(small)});
  return out + table.to_string();
}

std::string evidence_section(const std::vector<model::ProvenanceEntry>& provenance) {
  std::string text;
  for (const EvidenceShare& share : evidence_shares(provenance))
    text += fmt::format("{}{} {} ({} {})", text.empty() ? "" : ", ", model::to_string(share.kind), percent(share.share),
                        share.constants, share.constants == 1 ? "constant" : "constants");
  std::string out = paragraph(text + ".");
  if (const std::string stack = stack_share(provenance); !stack.empty()) out += paragraph(stack);
  const std::string table = constants_table("Not measured", unmeasured(provenance), most_unmeasured, false);
  if (table.empty()) return out;
  return out + table + paragraph("plumbline show coverage PLAN has their sources, and what measures each part.");
}

// Returns predicted and published values with the error; "" when there is nothing to compare.
std::string comparison_table(const std::vector<Comparison>& comparisons, Style style) {
  if (comparisons.empty()) return "";
  Table table("quantity | >predicted | >published | unit | >error | source");
  for (const Comparison& row : comparisons)
    table.add({row.name, number(row.predicted), number(row.published), row.unit,
               row.published != 0 ? signed_percent(row.error()) : "", row.source});
  std::string out = heading("Predicted and published", style) + table.to_string();
  for (const Comparison& row : comparisons)
    if (!row.note.empty()) out += paragraph(fmt::format("Error of the {}: {}", row.name, row.note));
  return out;
}

}  // namespace

std::string figure_line(std::string_view name, const std::string& value, const std::string& note) {
  const std::string text = fmt::format("  {:<18}{:>12}  {}", name, value, note);
  return text.substr(0, text.find_last_not_of(' ') + 1) + '\n';
}

std::string summary(const model::StepResult& result, const model::Plan& plan,
                    const std::vector<Comparison>& comparisons, Style style) {
  std::string out = title(result, plan, style);
  if (result.rollout || result.rollout_error) {
    out.pop_back();  // the heading begins with an empty line, too
    out += result.rollout
               ? rollout_section(*result.rollout, style)
               : '\n' + paragraph("No step of reinforcement learning: " + model::reason_of(*result.rollout_error));
    out += heading("An update of the policy", style);
  }
  out += headline(result);
  if (result.measured) out += heading("Measured", style) + measured_section(result);
  if (result.cluster) out += heading("Every GPU of the cluster", style) + cluster_section(result, comparisons);
  out += heading("Where the time goes (rank 0)", style) + slots_table(result.step);
  if (!result.step.breakdown.empty())
    out += heading("By class of operator (rank 0)", style) + breakdown_table(result.step);
  if (result.step.gpu_power_w) out += heading("Power", style) + power_section(result, plan);
  if (result.bound_s && !result.lost.empty())
    out += heading("What the step loses against its bound", style) + lost_section(result);
  if (!result.memory.ranks.empty()) out += memory_summary(result.memory, style);
  if (!result.memory.ranks.empty() && result.interval)
    out += paragraph(fmt::format("Peak as clusters run it: {}", memory_sentence(*result.interval)));
  if (!result.memory.measured && model::fit_of(result.memory) != model::Fit::fits)
    out += paragraph("`memory` lists what would make it fit, and what that costs.");
  if (result.run) {
    out += heading("The whole run", style);
    if (result.interval) out += run_interval_table(*result.interval) + '\n';
    out += run_report(*model::middle_run(result));
  }
  if (result.interval && !result.interval->parts.empty())
    out += heading("Where the uncertainty comes from", style) + parts_section(*result.interval);
  if (!result.provenance.empty())
    out += heading("What the step time rests on", style) + evidence_section(result.provenance);
  return out + comparison_table(comparisons, style);
}

}  // namespace plumbline::reports
