// What is not known of memory: what the allocator holds unused, contexts and connections, and the rows of experts.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "model/base/statistics.h"
#include "model/memory/memory.h"
#include "model/program/program.h"
#include "sim/interval/detail/parts.h"
#include "sim/interval/hypercube.h"
#include "sim/step/stragglers.h"

namespace plumbline::sim {
namespace {

// Returns the range of what a rank's allocator holds unused. Where no software is stated, its tensors may hold as much
// more unused as in Megatron-Core's runs (allocator.fragmentation of calibrate/stacks/megatron-core-2025.toml, 0.3,
// less the 0.05 of a device file).
Prior unused(const model::RankMemory& rank) {
  constexpr double unstated = 0.25;
  if (rank.unused_high_bytes > rank.unused_low_bytes)
    return {rank.unused_low_bytes, rank.unused_bytes, rank.unused_high_bytes};
  const double dynamic = rank.activations_bytes + rank.temporary_bytes;
  return {rank.unused_bytes, rank.unused_bytes, rank.unused_bytes + unstated * dynamic};
}

double bytes_of(const model::RankMemory& rank, PeakOf part) {
  if (part == PeakOf::device) return rank.peak_bytes;
  return part == PeakOf::reserved ? rank.segments_bytes : rank.allocated_bytes;
}

}  // namespace

double fullest_bytes(const model::Memory& memory, PeakOf part) {
  double most = 0;
  for (const model::RankMemory& rank : memory.ranks) most = std::max(most, bytes_of(rank, part));
  return most;
}

void add_allocator(const Inputs& inputs, std::vector<Uncertainty>& found) {
  // Connections and contexts are counted from a few reports; half of their bytes is one standard deviation.
  constexpr double doubt = 0.5;
  found.push_back({"what the allocator holds unused of " + inputs.plan.stack.name.value_or(inputs.profile.stack()),
                   "allocator", [](double z, InputChange& change) { change.allocator = z; }});
  found.push_back({"contexts and connections", "allocator",
                   [](double z, InputChange& change) { change.libraries = std::exp(z * std::log1p(doubt)); }});
}

DrawnPeaks::DrawnPeaks(const Inputs& inputs, const model::Memory& memory, PeakOf part)
    : inputs_(inputs), memory_(memory), part_(part), plan_(inputs.plan) {
  if (inputs.architecture.experts.routed_experts == 0) return;
  largest_ = model::expected_largest(plan_.parallelism.expert);
  unchanged_excess_ = excess_of_plan();
  rows_change_ = plan_.routing.rows_per_rank.empty();
}

// Popular experts stay popular from one micro-batch to the next, but are others in the next layer: over the layers of a
// rank their rows even out by the square root. The normal draws are those of the step (sim/step/stragglers.h).
double DrawnPeaks::excess_of_plan() const {
  const Imbalance imbalance = imbalance_of(plan_, inputs_.architecture.experts, 0);
  if (!imbalance.rank_rows.empty()) return std::max(0.0, std::ranges::max(imbalance.rank_rows) - 1);
  const auto layers =
      static_cast<double>(std::max<std::int64_t>(1, inputs_.architecture.layers / plan_.parallelism.pipeline));
  return std::min(imbalance.most - 1, imbalance.variation * largest_ / std::sqrt(layers));
}

double DrawnPeaks::excess_rows(const InputChange& change) {
  if (!rows_change_ || !change.imbalance) return unchanged_excess_;
  model::set_imbalance(plan_, *change.imbalance);
  return excess_of_plan();
}

PeakDraw DrawnPeaks::of(const InputChange& change) {
  const double rows = excess_rows(change);
  PeakDraw draw;
  for (const model::RankMemory& rank : memory_.ranks) {
    const double tensors = rank.allocated_bytes + rows * rank.routed_bytes;
    const double libraries = change.libraries * rank.library_bytes;
    const Prior spread = unused(rank);
    double drawn = tensors;
    if (part_ != PeakOf::allocated) drawn += std::max(spread.low, linear(spread, change.allocator));
    if (part_ == PeakOf::device) drawn += libraries;
    draw.bytes = std::max(draw.bytes, drawn);
    draw.least_bytes = std::max(draw.least_bytes, tensors + spread.low + libraries);
    draw.tensors_bytes = std::max(draw.tensors_bytes, tensors);
  }
  return draw;
}

void set_memory(const std::vector<PeakDraw>& draws, const std::optional<Left>& left, const model::Memory& memory,
                model::PredictionInterval& interval) {
  constexpr int strata = 10;  // equal parts of a standard normal distribution
  const Left of_peak = left.value_or(Left{});
  const double deviation = std::hypot(of_peak.common, of_peak.own);
  std::array<double, strata> factors{};
  for (int part = 0; part < strata; ++part)
    factors[part] = std::exp(of_peak.location + deviation * normal_quantile((part + 0.5) / strata));
  std::vector<double> peaks;
  std::size_t fitting = 0;
  for (const PeakDraw& draw : draws) {
    for (const double factor : factors) {
      fitting += std::max(draw.least_bytes * factor, draw.tensors_bytes) <= memory.capacity_bytes ? 1 : 0;
      // Of draws of tensors the factor is that of the tensors themselves.
      peaks.push_back(std::max(draw.bytes * factor, draw.bytes > draw.tensors_bytes ? draw.tensors_bytes : 0));
    }
  }
  interval.fits_probability = static_cast<double>(fitting) / static_cast<double>(peaks.size()) *
                              model::fits_on_host(memory.host_bytes, memory.host_capacity_bytes);
  interval.peak_bytes = model::quantiles_of(std::move(peaks));
}

}  // namespace plumbline::sim
