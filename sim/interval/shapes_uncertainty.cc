// The uncertainty of cost functions at single shapes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/interval/uncertainty.h"
#include "sim/predict/predictor.h"

namespace plumbline::sim {
namespace {

using model::CostFamily;

std::string_view source_of(CostFamily family) {
  switch (family) {
    case CostFamily::gemm:
    case CostFamily::grouped_gemm:
      return "GEMM shapes";
    case CostFamily::attention:
      return "attention shapes";
    case CostFamily::memory_bound:
      return "memory-bound shapes";
    case CostFamily::collective:
      return "collective shapes";
    default:
      return "all-to-all shapes";
  }
}

}  // namespace

std::string measurement_of(CostFamily family, const Inputs& inputs) {
  switch (family) {
    case CostFamily::gemm:
    case CostFamily::grouped_gemm:
      return fmt::format("GEMMs of this model in {} on one GPU (plumbline measure)",
                         to_string(inputs.plan.precision.gemm));
    case CostFamily::attention:
      return "attention at these sizes on one GPU";
    case CostFamily::memory_bound:
      return "memory-bound kernels of this model on one GPU";
    case CostFamily::collective:
      return "all-reduce and all-gather on two of your nodes";
    default:
      return inputs.plan.overlap.communication_sms > 0
                 ? fmt::format("dispatch and combine at {} SMs on two of your nodes",
                               inputs.plan.overlap.communication_sms)
                 : "dispatch and combine on two of your nodes";
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
