// The splits of GPUs between the halves of reinforcement learning as text.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "model/result/middle.h"
#include "reports/text/plan/plan_report.h"

namespace plumbline::reports {
namespace {

std::string days_and_usd(const sim::PlanCost& cost) {
  if (!cost.days) return "";
  return fmt::format("; {} days{}", number(*cost.days),
                     cost.usd ? fmt::format(", {} USD", grouped(*cost.usd)) : std::string());
}

// "32+96": those that train and those that generate.
std::string gpu_words(const sim::RolloutSplit& split) {
  const std::string training = grouped(split.training_gpus);
  return split.placement == "colocated" ? training : training + '+' + grouped(split.engine_gpus);
}

std::string splits_table(const sim::RolloutAnswer& answer, std::size_t count) {
  const bool several = answer.options.size() > 1;
  constexpr const char* columns =
      "placement | >GPUs | >step | >tokens /s/GPU | >idle train | >idle gen. | >USD /step | >+";
  Table table(std::string(several ? "> | cluster | " : "> | ") + columns);
  const double first = sim::measure(answer.splits.front().best->cost, answer.objective).value_or(0);
  for (std::size_t i = 0; i < count; ++i) {
    const sim::RolloutSplit& split = answer.splits[i];
    const model::RolloutResult& rollout = *split.best->result.rollout;
    const model::RolloutResult middle = model::middle_rollout(rollout);
    const double more = first > 0 ? sim::measure(split.best->cost, answer.objective).value_or(first) / first - 1 : 0;
    std::vector<std::string> cells = {std::to_string(i + 1),
                                      split.placement,
                                      gpu_words(split),
                                      duration(middle.step_s),
                                      grouped(middle.tokens_per_s_per_gpu),
                                      percent(rollout.training_idle),
                                      percent(rollout.engines_idle),
                                      middle.step_usd ? fmt::format("{:.2f}", *middle.step_usd) : "-",
                                      i == 0 ? "" : percent(more)};
    if (several) cells.insert(cells.begin() + 1, option_name(answer.option_of(split)));
    table.add(std::move(cells));
  }
  return table.to_string();
}

// What a row of the table has no column for.
std::string split_words(const sim::RolloutAnswer& answer, std::size_t place) {
  const sim::RolloutSplit& split = answer.splits[place];
  const model::RolloutResult& rollout = *split.best->result.rollout;
  const double generation = rollout.seconds_of("engines"), training = rollout.seconds_of("training");
  return paragraph(fmt::format(
      "{}. Training: {}; {}. Generation: {} engines of {} GPUs, {} answers at once; {}, of which {} after nine of ten "
      "answers. The fullest GPU has {} GB in training and {} GB in generation, of {} GB{}{}.",
      place + 1, plan_words(*split.best), duration(training), grouped(rollout.instances),
      rollout.engine_gpus / rollout.instances, grouped(rollout.requests_at_once), duration(generation),
      duration(rollout.tail_s), gigabytes(rollout.memory.training_bytes), gigabytes(rollout.memory.generation_bytes),
      gigabytes(rollout.memory.capacity_bytes), days_and_usd(split.best->cost),
      sim::within(split.best->cost, answer.limits) ? "" : "; over the limit"));
}

}  // namespace

std::string rollout_plans_text(const sim::RolloutAnswer& answer, std::size_t top, bool color) {
  const Style style{color};
  std::string out =
      bold(fmt::format("{}: how to divide the GPUs between training and generation", answer.name), style) + '\n';
  for (const sim::ClusterOption& option : answer.options)
    for (const std::string& note : option.notes)
      out += paragraph(fmt::format("note: {}: {}", option_name(option), note));
  if (answer.found()) {
    const auto found = static_cast<std::size_t>(
        std::ranges::count_if(answer.splits, [](const sim::RolloutSplit& split) { return split.best.has_value(); }));
    const std::size_t count = std::min(top, found);
    out += heading("Splits", style) + splits_table(answer, count) + '\n';
    for (std::size_t place = 0; place < count; ++place) out += split_words(answer, place);
    out += '\n' + paragraph(
                      "GPUs: those that train, and those that generate where these are others. idle: share of the step "
                      "in which a GPU of that half has no work. +: more than the first. Steps are those in the middle "
                      "of their intervals, times of halves what components add up to.");
  }
  for (const sim::RolloutSplit& split : answer.splits)
    if (!split.best)
      out += paragraph(fmt::format("None: {}, {} GPUs: {}.", split.placement, gpu_words(split), split.refusal));
  return out;
}

}  // namespace plumbline::reports
