#include "tests/support/operator_blocks.h"

#include <algorithm>
#include <cmath>

#include "model/plan/plan.h"
#include "model/program/data_parallel.h"
#include "model/program/program.h"

namespace plumbline::tests {

using model::Graph;

namespace {

constexpr std::int64_t smallest_vocabulary = 11;  // smallest vocabulary of the models
constexpr std::int64_t most_cached_tokens = 2;    // of a request before a pass

// A wider matrix has smaller entries, so that activations keep one size and softmax does not saturate.
double deviation(const Matrix& value) { return std::min(0.4, 1.6 / std::sqrt(static_cast<double>(value.cols()))); }

// Returns a model's blocks for a pass of inference over two requests.
std::vector<Graph> inference_blocks(const TinyModel& model, model::LayerContext context,
                                    const model::InferencePass& pass) {
  constexpr std::int64_t whole = 8;  // FP8 GEMMs of a GPU need rows that are a multiple of it
  const bool aligned = context.tokens % whole == 0;
  context.inference = pass;
  context.inference.requests = 2;
  if (aligned) context.inference.new_tokens = whole;
  const std::int64_t fresh = context.inference.new_tokens;
  context.inference.cache_rows = aligned ? 2 * whole : most_cached_tokens + fresh;
  context.tokens = context.inference.requests * fresh;
  std::vector<Graph> graphs;
  for (const model::BlockKind kind : model.blocks)
    if (kind != model::BlockKind::multi_token_prediction) graphs.push_back(make_block(kind, context));
  return graphs;
}

}  // namespace

Graph widened(Graph graph) {
  for (model::Tensor& tensor : graph.tensors)
    if (tensor.type != model::DataType::int32) tensor.type = model::DataType::fp32;
  return graph;
}

model::LayerContext tiny_operator_context(const TinyModel& model, model::Precision precision) {
  return tiny_context(model, {.precision = precision});
}

std::vector<Graph> operator_blocks(const std::vector<TinyModel>& models, model::Precision precision,
                                   MakeContext make_context) {
  std::vector<Graph> graphs;
  for (TinyModel model : models) {
    model.architecture.dropout = {};
    for (const model::BlockKind kind : model.blocks) graphs.push_back(make_block(kind, make_context(model, precision)));
    using Kind = model::InferencePass::Kind;
    const model::LayerContext context = make_context(model, precision);
    std::vector<model::InferencePass> passes = {{.kind = Kind::decode, .cached_tokens = most_cached_tokens}};
    if (model.name == "deepseek_v3")  // whose prompts are also cut into chunks
      passes.insert(passes.end(), {{.kind = Kind::prefill, .new_tokens = 3},
                                   {.kind = Kind::prefill, .new_tokens = 3, .cached_tokens = most_cached_tokens}});
    for (const model::InferencePass& pass : passes)
      for (Graph& graph : inference_blocks(model, context, pass)) graphs.push_back(std::move(graph));
    if (model.name != "gpt2") continue;
    model::LayerContext divided = make_context(model, precision);
    divided.tensor = 2;
    graphs.push_back(make_block(model::BlockKind::dense_layer, divided));
  }
  return graphs;
}

Graph optimizer_block() {
  constexpr std::int64_t elements = 3000;
  model::Plan plan;
  plan.precision.gemm = model::Precision::fp16;
  plan.optimizer.gradient_clipping = true;
  Graph block;
  block.tensors.push_back({.name = "w", .shape = {{elements}}, .role = model::Role::parameter});
  return model::make_stage_optimizer(plan, {}, model::stage_units(plan, {block}, {{0}})).graph;
}

Matrix start_value(const model::Tensor& tensor, std::int64_t sequence_length, model::Random& random) {
  Matrix value = zeros(tensor);
  const bool whole = tensor.type == model::DataType::int32;
  const bool scale = tensor.role == model::Role::parameter && tensor.shape.size() == 1;
  const double size = deviation(value);
  const auto numbers =
      static_cast<std::uint64_t>(tensor.name == "cached_lengths" ? most_cached_tokens + 1 : smallest_vocabulary);
  Index t = 0;
  for (double& entry : value.reshaped<Eigen::RowMajor>()) {
    const bool unlabeled = tensor.name == "mtp_labels" && ++t % sequence_length == 0;
    if (whole)
      entry = unlabeled ? -1 : static_cast<double>(random.next() % numbers);
    else
      entry = (scale ? 1 : 0) + size * random.normal();
  }
  // Second moments and the scale of a loss are positive.
  if (tensor.role == model::Role::gradient && !tensor.name.starts_with("d_")) value = value.cwiseAbs();
  if (tensor.name == "loss_scale") value.setConstant(1024);
  return value;
}

}  // namespace plumbline::tests
