// The shortest time of an operator under any conditions, for lower bounds.
#include <algorithm>

#include "model/cost/kernel_cost.h"
#include "model/cost/measured_operators.h"
#include "model/cost/work.h"

namespace plumbline::model {

double KernelCost::gemm_at_best(const Graph& graph, const Operator& op, const GemmShape& shape) const {
  const GemmConstants& form = gemm_kind(graph, op).form;
  const double tiles = shape.groups * shape.m * shape.n / (form.tile_m * form.tile_n);
  const double slower = graph.tensor(op.reads[0]).type == DataType::tf32 ? tf32_slowdown_ : 1;
  const double tile_seconds = shape.k * form.k_time * slower / sustained_clock_;
  const double seconds = tiles * tile_seconds / static_cast<double>(device_sms_);
  if (!graph.inference) return seconds;
  const double rate = small_kind(graph, op).form.rate;
  return std::min(seconds, 2 * shape.groups * shape.m * shape.n * shape.k * slower / (rate * sustained_clock_));
}

double KernelCost::attention_at_best(const Graph& graph, const Operator& op) const {
  const auto [work, constants] = attention_at_work(graph, op);
  AttentionConstants form = constants->form;
  form.dim_block = 1;
  const AttentionSeconds parts = attention_parts(form, work, attention_sms_, static_cast<double>(device_sms_));
  const double factor = 1 / sustained_clock_;
  return parts.gemms * factor + parts.pairs * factor;
}

double KernelCost::form_at_best(const Graph& graph, const Operator& op) const {
  const Conditions whole{.sms = device_sms_};
  const OperatorClass kind = operator_class(graph, op);
  if (is_gemm(kind)) return gemm_at_best(graph, op, gemm_shape(graph, op, 1));
  if (kind == OperatorClass::router) {
    const KernelTime time = router(graph, op, whole);
    return time.seconds - time.gaps;
  }
  if (kind == OperatorClass::attention) return attention_at_best(graph, op);
  if (kind == OperatorClass::cached_attention) return cached_attention_at_best(graph, op);
  const Bytes bytes = bytes_moved(graph, op, 1) * passes_of(op).value;
  return streaming(memory_[static_cast<std::size_t>(kind)], bytes, occupancy(whole));
}

double KernelCost::best(const Graph& graph, const Operator& op) const {
  if (op.fused) return 0;
  double best = form_at_best(graph, op);
  if (measured_.empty()) return best;
  const bool gemm = is_gemm(operator_class(graph, op));
  for (const auto& [place, measured] : measured_.find(operator_key(graph, op))) {
    const double share = gemm ? static_cast<double>(place.cores) / static_cast<double>(device_sms_) : 1;
    if (place.cores <= device_sms_) best = std::min(best, measured.value * share);
  }
  return best;
}

}  // namespace plumbline::model
