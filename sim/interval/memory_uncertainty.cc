// What is not known of memory: what the allocator holds unused, contexts and connections, and the rows of experts.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "model/memory/memory.h"
#include "model/program/routing.h"
#include "sim/interval/detail/parts.h"
#include "sim/interval/hypercube.h"
#include "sim/step/stragglers.h"

namespace plumbline::sim {
namespace {

// Returns by what share the rows that the fullest rank of an expert group holds exceed the mean. Popular experts stay
// popular from one micro-batch to the next, but are others in the next layer: over the layers of a rank their rows even
// out by the square root. The normal draws are those of the step (sim/step/stragglers.h).
double excess_rows(const Inputs& inputs, const InputChange& change) {
  model::Plan plan = inputs.plan;
  if (change.imbalance && plan.routing.rows_per_rank.empty()) model::set_imbalance(plan, *change.imbalance);
  const Imbalance imbalance = imbalance_of(plan, inputs.architecture.experts, 0);
  if (!imbalance.rank_rows.empty()) return std::max(0.0, std::ranges::max(imbalance.rank_rows) - 1);
  const auto layers =
      static_cast<double>(std::max<std::int64_t>(1, inputs.architecture.layers / plan.parallelism.pipeline));
  return std::min(imbalance.most - 1,
                  imbalance.variation * expected_largest(plan.parallelism.expert) / std::sqrt(layers));
}

// Returns the range of what a rank's allocator holds unused. Where no software is stated, its tensors may hold as much
// more unused as in Megatron-Core's runs (allocator.fragmentation of calibrate/stacks/megatron-core-2025.toml, 0.3,
// less the 0.05 of a device file).
Spread unused(const model::RankMemory& rank) {
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

PeakDraw drawn_peak(const Inputs& inputs, const model::Memory& memory, const InputChange& change, PeakOf part) {
  const double rows = inputs.architecture.experts.routed_experts > 0 ? excess_rows(inputs, change) : 0;
  PeakDraw draw;
  for (const model::RankMemory& rank : memory.ranks) {
    const double tensors = rank.allocated_bytes + rows * rank.routed_bytes;
    const double libraries = change.libraries * rank.library_bytes;
    const Spread spread = unused(rank);
    double drawn = tensors;
    if (part != PeakOf::allocated) drawn += std::max(spread.low, linear(spread, change.allocator));
    if (part == PeakOf::device) drawn += libraries;
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
  std::vector<double> peaks;
  std::size_t fitting = 0;
  for (const PeakDraw& draw : draws) {
    for (int part = 0; part < strata; ++part) {
      const double z = normal_quantile((part + 0.5) / strata);
      const double factor = std::exp(of_peak.location + deviation * z);
      fitting += std::max(draw.least_bytes * factor, draw.tensors_bytes) <= memory.capacity_bytes ? 1 : 0;
      // Of draws of tensors the factor is that of the tensors themselves.
      peaks.push_back(std::max(draw.bytes * factor, draw.bytes > draw.tensors_bytes ? draw.tensors_bytes : 0));
    }
  }
  interval.peak_bytes = quantiles_of(peaks, {});
  interval.fits_probability = static_cast<double>(fitting) / static_cast<double>(peaks.size()) *
                              model::fits_on_host(memory.host_bytes, memory.host_capacity_bytes);
}

}  // namespace plumbline::sim
