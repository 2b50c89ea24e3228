#include "model/architecture/metrics.h"

#include <algorithm>
#include <map>

#include "model/cost/work.h"

namespace plumbline::model {
namespace {

struct BlockMetrics {
  double parameters = 0, trained = 0;  // `trained`: next to frozen ones
  double active_parameters = 0;        // used by one token
  double flops = 0;                    // FLOPs of one sequence
  double flops_causal = 0;
};

// Returns the context without any parallelism: one rank holds every expert and receives every token once.
LayerContext whole_model(const Architecture& architecture, std::int64_t sequence_length) {
  LayerContext context;
  context.architecture = architecture;
  context.tokens = sequence_length;
  context.sequence_length = sequence_length;
  context.groups_per_token = architecture.experts.groups_per_token;
  return context;
}

// A backward pass has two GEMMs for each GEMM of the forward pass, one of a frozen matrix. An indexer scores all tokens
// forward and learns from the chosen ones.
double training_passes(const Graph& graph, const Operator& op) {
  if (op.kind == OperatorKind::index_scores || op.kind == OperatorKind::index_scores_grad) return 1;
  const bool frozen = std::ranges::any_of(op.reads, [&](TensorId id) { return graph.tensor(id).frozen; });
  if (op.phase != Phase::F) return 0;
  return frozen ? 2 : 3;
}

BlockMetrics measure(BlockKind kind, const LayerContext& context) {
  const Graph graph = make_block(kind, context);
  const MixtureOfExperts& experts = context.architecture.experts;
  BlockMetrics metrics;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.role != Role::parameter || tensor.shared) continue;
    if (context.adapters.rank > 0 && !tensor.frozen) {
      metrics.trained += tensor.elements();
      continue;
    }
    const double active =
        tensor.expert ? static_cast<double>(experts.experts_per_token) / static_cast<double>(experts.routed_experts)
                      : 1.0;
    metrics.parameters += tensor.elements();
    metrics.active_parameters += tensor.elements() * active;
  }
  for (const Operator& op : graph.operators) {
    const double passes = training_passes(graph, op);
    if (passes == 0) continue;
    metrics.flops += passes * flops(graph, op, 1, false).value();
    metrics.flops_causal += passes * flops(graph, op, 1, true).value();
  }
  return metrics;
}

std::int64_t learned_positions(const Architecture& a) {
  return a.positions == PositionKind::learned ? a.position_table : 0;
}

// A look-up reads one row of a table; a tied table is also the head's matrix. Of the inputs of layers a token uses one
// row of their tables, the projection of its embedding, and the gains of its norm.
double active_in_embedding(const Architecture& a) {
  const std::int64_t rows = (a.tied_embedding ? a.vocabulary : 1) + (learned_positions(a) > 0 ? 1 : 0);
  const std::int64_t inputs = a.layer_input_columns() * (1 + a.hidden_size) + a.layer_inputs.columns;
  return static_cast<double>(rows * a.hidden_size + inputs);
}

double embedding_parameters(const Architecture& a) {
  const std::int64_t rows = (a.tied_embedding ? 1 : 2) * a.vocabulary + learned_positions(a);
  return static_cast<double>(rows * a.hidden_size + a.layer_inputs.vocabulary * a.layer_input_columns());
}

}  // namespace

ModelMetrics model_metrics(const Architecture& architecture, std::int64_t sequence_length, const Adapters& adapters) {
  LayerContext context = whole_model(architecture, sequence_length);
  context.adapters = adapters;
  context.adapters.nf4 = false;  // GEMMs read copies of such weights
  std::map<BlockKind, std::int64_t> counts = {{BlockKind::embedding, 1}, {BlockKind::head, 1}};
  for (std::int64_t layer = 0; layer < architecture.layers; ++layer) ++counts[layer_kind(architecture, layer)];

  ModelMetrics metrics;
  if (adapters.rank > 0) metrics.trained_parameters = 0;
  for (const auto& [kind, count] : counts) {
    BlockMetrics block = measure(kind, context);
    if (kind == BlockKind::embedding) block.active_parameters = active_in_embedding(architecture);
    const auto times = static_cast<double>(count);
    metrics.parameters += times * block.parameters;
    if (metrics.trained_parameters) *metrics.trained_parameters += times * block.trained;
    metrics.active_parameters += times * block.active_parameters;
    metrics.flops_per_token += times * block.flops / static_cast<double>(sequence_length);
    metrics.flops_per_token_causal += times * block.flops_causal / static_cast<double>(sequence_length);
  }
  metrics.parameters += architecture.omitted.parameters;
  metrics.embedding_parameters = embedding_parameters(architecture);
  if (architecture.multi_token_prediction_layers > 0) {
    const auto modules = static_cast<double>(architecture.multi_token_prediction_layers);
    const BlockMetrics each = measure(BlockKind::multi_token_prediction, context);
    metrics.prediction_parameters = modules * each.parameters;
    if (metrics.trained_parameters) *metrics.trained_parameters += modules * each.trained;
  }
  return metrics;
}

double recomputed_flops_per_token(const Architecture& architecture, std::int64_t sequence_length, BlockKind kind,
                                  const RecomputePolicy& policy, bool causal) {
  LayerContext context = whole_model(architecture, sequence_length);
  context.recompute = policy;
  const Graph graph = make_block(kind, context);
  double total = 0;
  for (const Operator& op : graph.operators)
    if (op.recomputed) total += flops(graph, op, 1, causal).value();
  return total / static_cast<double>(sequence_length);
}

}  // namespace plumbline::model
