// The uncertainty of cost functions at single shapes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/plan/layout.h"
#include "sim/interval/uncertainty.h"
#include "sim/predict/predictor.h"

namespace plumbline::sim {
namespace {

using model::CostFamily;

std::string_view source_of(CostFamily family) {
  switch (family) {
    case CostFamily::gemm:
    case CostFamily::grouped_gemm:
    case CostFamily::small_gemm:
    case CostFamily::small_grouped_gemm:
      return "GEMM shapes";
    case CostFamily::attention:
    case CostFamily::cached_attention:
      return "attention shapes";
    case CostFamily::memory_bound:
      return "memory-bound shapes";
    case CostFamily::collective:
      return "collective shapes";
    default:
      return "all-to-all shapes";
  }
}

const char* nodes_of(const Inputs& inputs, bool within_one) {
  if (inputs.cluster.gpus_per_node == 1) return "two of your GPUs";
  return within_one ? "one of your nodes" : "two of your nodes";
}

std::string dispatch_measurement(const Inputs& inputs) {
  const model::RankGroup group = model::expert_group(inputs.plan.parallelism);
  const bool within_one = group.ranks * group.stride <= inputs.cluster.gpus_per_node;
  const std::int64_t sms = inputs.plan.overlap.communication_sms;
  return fmt::format("dispatch and combine{} on {}", sms > 0 ? fmt::format(" at {} SMs", sms) : "",
                     nodes_of(inputs, within_one));
}

}  // namespace

std::string measurement_of(CostFamily family, const Inputs& inputs) {
  switch (family) {
    case CostFamily::gemm:
    case CostFamily::grouped_gemm:
    case CostFamily::small_gemm:
    case CostFamily::small_grouped_gemm:
      return fmt::format("GEMMs of this model in {} on one GPU (plumbline measure)",
                         to_string(inputs.plan.precision.gemm));
    case CostFamily::attention:
    case CostFamily::cached_attention:
      return "attention at these sizes on one GPU";
    case CostFamily::memory_bound:
      return "memory-bound kernels of this model on one GPU";
    case CostFamily::collective:
      return fmt::format("all-reduce and all-gather on {}", nodes_of(inputs, inputs.cluster.nodes() == 1));
    default:
      return dispatch_measurement(inputs);
  }
}

model::Result<std::vector<model::ShapeKey>> shapes_of(const Inputs& inputs) {
  model::ShapeFactors asked;
  asked.record();
  Inputs recorded = inputs;
  recorded.shapes = &asked;
  TRY(Predictor(std::move(recorded)).closed_form(inputs.plan));
  std::vector<model::ShapeKey> shapes;
  for (const auto& [shape, factor] : asked.all()) shapes.push_back(shape);
  std::ranges::sort(shapes);
  return shapes;
}

// A residual belongs to the fit that its source names: the same shape of another profile is another fact.
void add_shapes(const Inputs& inputs, const std::vector<model::ShapeKey>& shapes, std::vector<Uncertainty>& found) {
  for (const model::ShapeKey& shape : shapes) {
    const auto index = inputs.profile.find(fmt::format("residual.{}", to_string(shape.family)));
    if (!index) continue;
    const model::Parameter& residual = inputs.profile.parameters()[*index];
    if (residual.value <= 0) continue;
    found.push_back(
        {.key = fmt::format("shape {:016x} {} {} {}", shape.hash, residual.name, residual.value, residual.source),
         .source = std::string(source_of(shape.family)),
         .apply = [shape, deviation = residual.value](
                      double z, InputChange& change) { change.shapes.set(shape, std::exp(z * deviation)); },
         .measurement = measurement_of(shape.family, inputs),
         .after = std::min(1.0, measured_deviation / residual.value)});
  }
}

}  // namespace plumbline::sim
