#include "sim/analysis/memory_advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/memory/memory.h"
#include "model/plan/layout.h"
#include "model/plan/software.h"
#include "model/program/compile.h"
#include "sim/interval/interval.h"
#include "sim/predict/memos.h"
#include "sim/predict/predictor.h"
#include "sim/predict/stage_balance.h"

namespace plumbline::sim {
namespace {

using model::MemoryChange;
using model::Precision;
using Settings = std::vector<std::string>;

// Adds changes from one more recomputed operator to recomputing everything.
void add_recomputation(const model::Plan& plan, std::vector<Settings>& changes) {
  if (plan.recompute.policy == "full") return;
  constexpr std::array words = {"rmsnorm", "swiglu", "mla_up_projection", "core_attention", "mlp", "moe"};
  const bool selective = plan.recompute.policy == "selective";
  for (const std::string word : words) {
    Settings operators;
    if (selective) operators = plan.recompute.operators;
    if (std::ranges::find(operators, word) != operators.end()) continue;
    operators.push_back(word);
    Settings change = {fmt::format("recompute.operators=[\"{}\"]", fmt::join(operators, "\", \""))};
    if (!selective) change.insert(change.begin(), "recompute.policy=selective");
    changes.push_back(std::move(change));
  }
  changes.push_back({"recompute.policy=full"});
}

void add_degrees(const model::Plan& plan, std::vector<Settings>& changes) {
  const auto& degrees = plan.parallelism;
  constexpr std::int64_t last_zero_stage = 3;
  for (std::int64_t stage = degrees.zero_stage + 1; stage <= last_zero_stage; ++stage)
    if (model::software_has(plan, "parallelism.zero_stage", std::to_string(stage)))
      changes.push_back({fmt::format("parallelism.zero_stage={}", stage)});
  for (std::int64_t size = plan.batch.micro_batch_size / 2; size >= 1; size /= 2)
    changes.push_back({fmt::format("batch.micro_batch_size={}", size)});
  for (const model::Degree& degree : model::parallel_degrees)
    changes.push_back({fmt::format("parallelism.{}={}", degree.name, 2 * degrees.*degree.value)});
  if (degrees.tensor > 1 && !degrees.sequence) changes.push_back({"parallelism.sequence=true"});
  if (plan.schedule.kind != "1f1b") {
    Settings schedule = {"schedule.kind=1f1b"};
    if (plan.schedule.virtual_stages > 1) schedule.emplace_back("schedule.virtual_stages=1");
    changes.push_back(std::move(schedule));
  }
}

void add_formats(const model::Plan& plan, std::vector<Settings>& changes) {
  if (plan.precision.optimizer_moments == Precision::fp32) changes.push_back({"precision.optimizer_moments=bf16"});
  if (plan.precision.gradients == Precision::fp32) changes.push_back({"precision.gradients=bf16"});
  // Blocks of FP8 are stored so anyhow. Ranks that each update all parameters keep them in 16 bits (Megatron-LM's
  // arguments.py: --fp8-param-gather is supported with the distributed optimizer and FSDP alone).
  const bool casts = plan.precision.gemm == Precision::fp8_tensor || plan.precision.gemm == Precision::mxfp8;
  if (casts && plan.precision.parameters != "fp8" && plan.parallelism.zero_stage > 0 &&
      model::software_has(plan, "precision.parameters", "fp8"))
    changes.push_back({"precision.parameters=fp8"});
}

// Offloads half of the activations, then all, and the optimizer, where the device has a link to the host; and takes
// back what is offloaded, for hosts that do not hold it.
void add_offload(const Inputs& inputs, std::vector<Settings>& changes) {
  if (inputs.cluster.device.host_bandwidth.value() == 0) return;
  for (const double share : {0.0, 0.5, 1.0})
    if (inputs.plan.offload.activations != share) changes.push_back({fmt::format("offload.activations={}", share)});
  changes.push_back({fmt::format("offload.optimizer={}", !inputs.plan.offload.optimizer)});
}

constexpr double no_step = std::numeric_limits<double>::infinity();

// Adds what the rank takes that needs most at least.
void add_parts(const model::Memory& memory, MemoryChange& change) {
  const model::RankMemory& rank = *std::ranges::max_element(memory.ranks, {}, &model::RankMemory::least_bytes);
  change.allocated_bytes = rank.allocated_bytes;
  change.unused_low_bytes = rank.unused_low_bytes;
  change.unused_high_bytes = rank.unused_high_bytes;
  change.margin_bytes = memory.capacity_bytes - rank.least_bytes();
}

// Of several that hardly fit the smallest is the closest.
std::pair<double, double> closeness(const MemoryChange& change) {
  return {change.fits_probability, -change.peak_bytes};
}

double closed_form_s(Predictor& predictor, const model::Plan& plan) {
  const auto estimate = predictor.closed_form(plan);
  return estimate ? estimate->step.time_s : no_step;
}

// Returns nothing when the changed plan has no valid layout. `own_s` is the time of the plan's own step.
std::optional<MemoryChange> evaluate(Inputs inputs, const std::string& plan_text, Settings settings,
                                     Predictor& predictor, double own_s) {
  auto plan = model::read_plan(plan_text, inputs.plan.file, settings);
  if (!plan) return std::nullopt;
  inputs.plan = with_balanced_stages(std::move(*plan), inputs);
  const auto layout = model::make_layout(inputs.plan, inputs.architecture);
  if (!layout) return std::nullopt;
  const auto program = model::compile(inputs.plan, inputs.architecture, *layout, spread_of(inputs));
  if (!program) return std::nullopt;
  model::Memory memory = model::memory(inputs.plan, *layout, *program, inputs.cluster.device);
  add_fit(inputs, memory);
  const model::RankMemory* fullest = model::fullest_rank(memory);
  if (fullest == nullptr) return std::nullopt;
  MemoryChange change{std::move(settings), memory.peak_bytes, fullest->peak_operator};
  add_parts(memory, change);
  change.fits_probability = *memory.fits_probability;
  const double step_s = model::fit_of(memory) == model::Fit::fits ? closed_form_s(predictor, inputs.plan) : no_step;
  if (step_s < no_step && own_s < no_step) change.step_ratio = step_s / own_s;
  return change;
}

}  // namespace

model::MemoryAdvice memory_advice(const Inputs& given) {
  Inputs inputs = given;
  inputs.cluster.device = model::with_allocator(std::move(inputs.cluster.device), inputs.profile);
  if (!inputs.routing) inputs.routing = std::make_shared<ExpertGroupMemo>();
  std::vector<Settings> changes;
  add_recomputation(inputs.plan, changes);
  add_degrees(inputs.plan, changes);
  add_formats(inputs.plan, changes);
  add_offload(inputs, changes);

  model::MemoryAdvice advice;
  const std::string text = model::to_toml(inputs.plan);
  Predictor predictor(inputs);
  const double own_s = closed_form_s(predictor, inputs.plan);
  const auto own = evaluate(inputs, text, {}, predictor, own_s);
  for (Settings& settings : changes) {
    auto change = evaluate(inputs, text, std::move(settings), predictor, own_s);
    if (!change) continue;
    ++advice.tried;
    if (change->fits_probability >= model::surely_fits)
      advice.fitting.push_back(std::move(*change));
    else if (own && closeness(*change) > closeness(advice.closest ? *advice.closest : *own))
      advice.closest = std::move(change);
  }
  if (!advice.fitting.empty()) advice.closest.reset();
  std::ranges::stable_sort(advice.fitting, {}, [](const MemoryChange& change) {
    return std::pair(change.step_ratio.value_or(no_step), -change.peak_bytes);
  });
  return advice;
}

}  // namespace plumbline::sim
