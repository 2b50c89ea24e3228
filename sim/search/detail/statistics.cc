#include "sim/search/detail/statistics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace plumbline::sim {

namespace {

constexpr std::array<const char*, rules> names = {
    "memory: parameters, gradients and optimizer states alone exceed the GPU",
    "time: blocks with these degrees, spread evenly over all ranks, already take longer than the plans kept",
    "time: the schedule with these blocks takes longer than the plans kept, by a lower bound",
    gpu_rule,
    host_rule,
    "time: the busiest rank's slots or collectives take longer than the plans kept",
    "refused"};

void add_degree(std::vector<std::string>& words, const std::string& name, std::int64_t degree) {
  if (degree > 1) words.push_back(fmt::format("{} {}", name, degree));
}

std::string recompute_words(const model::Plan& plan) {
  const auto& recompute = plan.recompute;
  std::string text = "recompute " + recompute.policy;
  if (recompute.policy == "selective") text += fmt::format(" ({})", fmt::join(recompute.operators, ", "));
  if (recompute.policy != "none" && recompute.layers) text += fmt::format(" of {} layers per stage", *recompute.layers);
  return text;
}

}  // namespace

bool on_memory(Rule rule) { return rule == Rule::states || rule == Rule::memory || rule == Rule::host; }

std::string describe(const model::Plan& plan) {
  const auto& degrees = plan.parallelism;
  std::vector<std::string> words;
  for (const model::Degree& degree : model::parallel_degrees) {
    std::string name = degree.name;
    std::ranges::replace(name, '_', ' ');
    add_degree(words, name, degrees.*degree.value);
    if (degree.value == &model::Parallelism::tensor && degrees.sequence) words.emplace_back("sequence");
  }
  words.push_back(fmt::format("zero {}", degrees.zero_stage));
  words.push_back(fmt::format("micro-batch {}", plan.batch.micro_batch_size));
  words.push_back(plan.schedule.kind);
  add_degree(words, "virtual stages", plan.schedule.virtual_stages);
  const model::StageLayers& layers = plan.schedule.layers_per_stage;
  if (!layers.counts.empty()) words.push_back(fmt::format("layers {}", fmt::join(layers.counts, "-")));
  words.push_back(recompute_words(plan));
  if (plan.overlap.communication_sms > 0)
    words.push_back(fmt::format("{} communication SMs", plan.overlap.communication_sms));
  return fmt::format("{}", fmt::join(words, ", "));
}

Statistics Statistics::rest() const {
  Statistics rest;
  for (std::size_t rule = 0; rule < rules; ++rule) rest.by_rule[rule].measure = by_rule[rule].measure;
  return rest;
}

void Statistics::refuse(const model::Plan& plan, const std::string& why) {
  Closest& closest = by_rule[static_cast<std::size_t>(Rule::refused)];
  if (closest.plans++ == 0) closest.plan = fmt::format("{}: {}", describe(plan), why);
}

void Statistics::add(const Statistics& other) {
  evaluated += other.evaluated;
  for (std::size_t rule = 0; rule < rules; ++rule) {
    Closest& closest = by_rule[rule];
    const Closest& found = other.by_rule[rule];
    if (found.plans == 0) continue;
    if (closest.plans == 0 || found.measure < closest.measure) {
      closest.measure = found.measure;
      closest.plan = found.plan;
    }
    closest.plans += found.plans;
  }
}

std::uint64_t Statistics::decided() const {
  std::uint64_t plans = evaluated;
  for (const Closest& one : by_rule) plans += one.plans;
  return plans;
}

std::vector<Removed> Statistics::removed(const model::Device& device) const {
  std::vector<Removed> list;
  for (std::size_t i = 0; i < rules; ++i) {
    const Closest& one = by_rule[i];
    if (one.plans == 0) continue;
    const auto rule = static_cast<Rule>(i);
    std::string example = one.plan;
    const double capacity = (rule == Rule::host ? device.host_memory : device.memory).value();
    if (on_memory(rule))
      example = fmt::format("needs {:.1f} GB of {:.1f} GB: {}", one.measure / 1e9, capacity / 1e9, one.plan);
    else if (rule != Rule::refused)
      example = fmt::format("takes {:.4g} s or more: {}", one.measure, one.plan);
    list.push_back({names[i], one.plans, std::move(example)});
  }
  return list;
}

}  // namespace plumbline::sim
