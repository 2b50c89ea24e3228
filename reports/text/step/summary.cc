// What a prediction rests on, by part of the step and by where its constants come from (plumbline show coverage).
#include "reports/text/step/summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/validate/case_evaluation.h"
#include "model/base/text.h"
#include "model/result/result.h"
#include "reports/text/step/describe.h"
#include "reports/text/step/sections.h"
#include "reports/text/table.h"
#include "reports/training_report.h"

namespace plumbline::reports {
namespace {

constexpr std::size_t most_shown = 10;
constexpr double shown_share = 0.0005;  // of the step

enum class Origin { here, elsewhere, stated, assumed };
constexpr std::array<std::string_view, 4> origin_names = {"this GPU", "another GPU", "stated", "assumed"};
using Shares = std::array<double, origin_names.size()>;

// A part of a step: the beginnings of its constants' names, separated by spaces, and what measures them.
struct Part {
  std::string_view name, prefixes, measure;
};
constexpr std::array parts = {
    Part{"GEMMs", "gemm.", "its cases, by plumbline measure"},
    Part{"attention", "attention.", "its cases, by plumbline measure"},
    Part{"memory-bound kernels", "memory. kernel. router.", "its cases, by plumbline measure"},
    Part{"dispatch and combine", "exchange. permute.", "the dispatcher's own test"},
    Part{"collectives", "collective. network.", "nccl-tests, for plumbline import"},
    Part{"power", "power.", "GEMMs held for seconds, by plumbline measure"},
    Part{"software", "host. sharding. overlap. allocator.", "three steps, for plumbline calibrate --stack"},
    Part{"rest", "", ""}};
constexpr std::size_t software = parts.size() - 2, rest = parts.size() - 1;

// Constants of a stack are the software's, whatever their name.
std::size_t part_of(const model::Parameter& constant) {
  if (!constant.stack.empty()) return software;
  for (std::size_t i = 0; i < rest; ++i) {
    std::string_view left = parts[i].prefixes;
    while (!left.empty()) {
      const std::string_view prefix = left.substr(0, left.find(' '));
      if (constant.name.starts_with(prefix)) return i;
      left.remove_prefix(std::min(left.size(), prefix.size() + 1));
    }
  }
  return rest;
}

// A recipe takes a constant from the profile of a neighbor with the source "as h100 (345.6 GB/s, fitted)"
// (calibrate/fit/recipe/link_steps.cc). Of another constant of its own, whose name has a dot, it writes the same.
// What is assumed there was measured on no GPU.
bool is_transferred(const model::Parameter& constant) {
  constexpr std::string_view as = "as ";
  const std::string_view source = constant.source;
  const std::size_t end = source.find(" (");
  if (!source.starts_with(as) || end == std::string_view::npos) return false;
  return source.substr(as.size(), end - as.size()).find_first_of(" .") == std::string_view::npos &&
         !source.substr(0, source.find(')')).ends_with(to_string(model::Evidence::assumed));
}

Origin origin_of(const CoveredStep& step, const model::Parameter& constant) {
  using enum model::Evidence;
  if (constant.kind == published || constant.kind == datasheet) return Origin::stated;
  if (constant.kind == assumed) return is_transferred(constant) ? Origin::elsewhere : Origin::assumed;
  const std::vector<std::string>& holds = step.profile_devices;
  const bool here = !constant.stack.empty() || holds.empty() || std::ranges::find(holds, step.device) != holds.end();
  return here ? Origin::here : Origin::elsewhere;
}

std::string share_text(double share) { return share < shown_share ? "" : percent(share); }

double sum(const Shares& shares) { return std::accumulate(shares.begin(), shares.end(), 0.0); }

std::string parts_table(const std::array<Shares, parts.size()>& shares) {
  Table table("part | >share | >this GPU | >another GPU | >stated | >assumed | to measure");
  Shares sums{};
  const auto row = [&](std::string_view name, double all, const Shares& of, std::string_view measure = "") {
    std::vector<std::string> cells = {std::string(name), percent(all)};
    for (const double share : of) cells.push_back(share_text(share));
    cells.emplace_back(measure);
    table.add(std::move(cells));
  };
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::ranges::transform(sums, shares[i], sums.begin(), std::plus<>());
    const double all = sum(shares[i]);
    const bool known = all - shares[i][static_cast<std::size_t>(Origin::here)] < shown_share;
    if (all >= shown_share) row(parts[i].name, all, shares[i], known ? "" : parts[i].measure);
  }
  const double rest_of_step = std::max(0.0, 1 - sum(sums));
  if (rest_of_step >= shown_share) row("not divided", rest_of_step, {});
  table.add_rule();
  row("step", sum(sums) + rest_of_step, sums);
  return table.to_string();
}

// Returns a line of the figures at the head of a step: "  step time            10.00 s  8 of 10 take 9 to 12 s".
std::string figure_line(std::string_view name, const std::string& value, const std::string& note) {
  const std::string text = fmt::format("  {:<18}{:>12}  {}", name, value, note);
  return text.substr(0, text.find_last_not_of(' ') + 1) + '\n';
}

std::string headline_of_rollout(const model::RolloutResult& rollout) {
  const model::RolloutResult middle = model::middle_rollout(rollout);
  const auto& interval = rollout.interval_s;
  std::string out = figure_line("step time", duration(middle.step_s),
                                interval ? fmt::format("8 of 10 take {}", seconds_span(*interval)) : "") +
                    figure_line("tokens/s", grouped(middle.tokens_per_s),
                                grouped(middle.tokens_per_s_per_gpu) + " per GPU, of those trained on");
  if (middle.step_usd) out += figure_line("cost of a step", dollars(*middle.step_usd, 2), "");
  if (interval) out += figure_line("from components", duration(rollout.step_s), "divided below");
  return out + '\n';
}

std::string parts_of_rollout(const model::RolloutResult& rollout) {
  Table table("part | GPUs | >time | >share");
  for (const model::RolloutPart& part : rollout.parts)
    table.row(part.name, part.pool, duration(part.seconds), percent(part.seconds / rollout.step_s));
  table.add_rule();
  table.row("step", "", duration(rollout.step_s), "");
  return table.to_string();
}

std::string rates_of_rollout(const model::RolloutResult& rollout) {
  Table table("quantity | > | ");
  const auto row = [&table](const char* name, const std::string& value, const std::string& note) {
    table.row(name, value, note);
  };
  row("generated tokens/s", grouped(rollout.generated_tokens_per_s), "while engines generate");
  row("tail of the generation", duration(rollout.tail_s), "after nine of ten answers");
  row("longest answer", grouped(rollout.longest_tokens), fmt::format("tokens; {} are cut", percent(rollout.cut_share)));
  row("engines", grouped(rollout.instances),
      fmt::format("of {} GPUs, {} answers at once", rollout.engine_gpus / rollout.instances,
                  grouped(rollout.requests_at_once)));
  row("idle, GPUs that generate", percent(rollout.engines_idle), "");
  row("idle, GPUs that train", percent(rollout.training_idle), "");
  return table.to_string();
}

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

// Returns the first `most` of the constants, which have the largest share first, below a title, with their sources or
// without; "" where there are none.
std::string constants_table(std::string_view title, const std::vector<model::ProvenanceEntry>& entries,
                            std::size_t most, bool sources) {
  if (entries.empty()) return "";
  const std::size_t shown = std::min(most, entries.size());
  Table table(fmt::format("constant | >value | unit | kind | >share{}", sources ? " | source" : ""));
  for (const model::ProvenanceEntry& entry : std::span(entries).first(shown)) {
    const model::Parameter& constant = entry.parameter;
    std::vector<std::string> cells = {constant.name, fmt::format("{:.5g}", constant.value), constant.unit,
                                      std::string(to_string(constant.kind)), percent(entry.share_of_step)};
    if (sources) cells.push_back(constant.source);
    table.add(std::move(cells));
  }
  return paragraph(fmt::format("{} ({} of {}):", title, shown, entries.size())) + table.to_string();
}

constexpr std::size_t most_unmeasured = 5;
constexpr double bar_width = 30;
constexpr double shown_loss = 0.001;  // of the step: smaller losses share one row

std::string title(const model::StepResult& result, const model::Plan& plan, Style style) {
  std::string out = plan_title(plan, result.device, style);
  out += wrapped(fmt::format("fidelity {}, {}", result.fidelity, constants_words(result)));
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

std::string coverage_text(const CoveredStep& step) {
  std::array<Shares, parts.size()> shares{};
  std::vector<model::ProvenanceEntry> missing;
  for (const model::ProvenanceEntry& entry : step.result.provenance) {
    const Origin origin = origin_of(step, entry.parameter);
    shares[part_of(entry.parameter)][static_cast<std::size_t>(origin)] += entry.share_of_step;
    if (origin != Origin::here && entry.share_of_step >= shown_share) missing.push_back(entry);
  }
  return paragraph(fmt::format(
             "{} on {}, {}: shares of the step, the time of rank 0's kernels and of transfers that it waits for, by "
             "the constants that give it and where these come from. Bubble, messages between stages and optimizer rest "
             "on all constants and are not divided.",
             model_name(step.plan), hardware(step.plan, step.device), constants_words(step.result))) +
         parts_table(shares) + constants_table("Not measured on this GPU", missing, most_shown, true);
}

std::string coverage_csv(const CoveredStep& step) {
  CsvTable table({"part", "parameter", "origin", "kind", "share_of_step", "source"});
  for (const model::ProvenanceEntry& entry : step.result.provenance) {
    const model::Parameter& constant = entry.parameter;
    table.row(parts[part_of(constant)].name, std::string_view(constant.name),
              origin_names[static_cast<std::size_t>(origin_of(step, constant))], to_string(constant.kind),
              entry.share_of_step, std::string_view(constant.source));
  }
  return table.text();
}

std::string rollout_memory_text(const model::RolloutMemory& memory) {
  std::string host = fmt::format("{} GB", gigabytes(memory.host_bytes));
  if (memory.host_capacity_bytes > 0) host += fmt::format(" of {} GB", gigabytes(memory.host_capacity_bytes));
  return paragraph(
      fmt::format("Memory of the fullest GPU: {} GB in training and {} GB in generation, of {} GB; of a "
                  "host {}. It {}.",
                  gigabytes(memory.training_bytes), gigabytes(memory.generation_bytes),
                  gigabytes(memory.capacity_bytes), host, memory.fits ? "fits" : "does not fit"));
}

std::string rollout_section(const model::RolloutResult& rollout, Style style) {
  std::string out =
      heading(fmt::format("A step of reinforcement learning ({}, {})", rollout.algorithm, rollout.placement), style);
  out += headline_of_rollout(rollout) + parts_of_rollout(rollout) + '\n' + rates_of_rollout(rollout) +
         rollout_memory_text(rollout.memory);
  if (const auto run = model::middle_rollout(rollout).run)
    out += paragraph(fmt::format("{} such steps take {} days and {} GPU-hours{}.", grouped(run->steps),
                                 days_text(run->days), grouped(run->gpu_hours),
                                 run->cost_usd ? fmt::format(", ${}", grouped(*run->cost_usd)) : ""));
  return out;
}

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
    out += paragraph(fmt::format("Peak as clusters run it: {}", memory_sentence(result)));
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

std::string training_summary(const model::StepResult& result, const model::Plan& plan, const TrainingReport& training) {
  const model::StepTimes& step = result.step;
  const auto rank = static_cast<std::int32_t>(training.emulated_rank.value_or(0));
  std::string text = model::printable(
      fmt::format("{} on {}, {}\n", model_name(plan), hardware(plan, result.device), parallelism(plan)));
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
