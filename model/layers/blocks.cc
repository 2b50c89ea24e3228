#include "model/layers/blocks.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "model/base/integers.h"
#include "model/layers/detail/attention.h"
#include "model/layers/elementary.h"
#include "model/layers/key_value_cache.h"
#include "model/layers/linear.h"
#include "model/layers/mlp.h"
#include "model/layers/recurrence.h"

namespace plumbline::model {
namespace {

using enum OperatorKind;

// The residual stream, or the copies of it that an architecture has (hyper-connections, arXiv 2409.19606; made doubly
// stochastic, arXiv 2512.24880; class DeepseekV4HyperConnection of huggingface/transformers @02356fe
// src/transformers/models/deepseek_v4/modular_deepseek_v4.py). Weights of the copies are projected in 16 bits.

// What half of a layer reads of the stream, and with which weights its result is added.
struct StreamReading {
  TensorId input;                   // [T, H]
  std::optional<TensorId> weights;  // [T, (1 + n) n] of n copies; none: there is one stream
};

// Mixes the copies by `logits` columns that are projected of them; with more columns than copies the result has
// weights.
StreamReading mixed_streams(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x,
                            std::int64_t logits, std::int64_t scales) {
  const Architecture& a = c.architecture;
  const std::int64_t streams = a.residual_streams;
  const Dimension tokens = b.shape(x)[0];
  const TensorId projected = linear(b, name + "_streams", x, logits, {.operands = {c.unscaled_gemm()}});
  const DataType type = weight_type(c.unscaled_gemm());
  const std::vector<TensorId> parameters = {b.parameter(name + "_stream_scales", {{scales}}, type),
                                            b.parameter(name + "_stream_biases", {{logits}}, type)};
  StreamReading reading{b.activation(name + "_stream_in", {tokens, {a.hidden_size}}, b.tensor(x).type), std::nullopt};
  std::vector<TensorId> writes = {reading.input};
  if (logits > streams)
    writes.push_back(
        *(reading.weights = b.activation(name + "_stream_weights", {tokens, {logits - streams}}, DataType::fp32)));
  const StreamAttributes attributes{streams, a.norm_epsilon};
  const std::vector<TensorId> operands = {x, projected, parameters[0], parameters[1]};
  b.emit(mix_streams, name + "_mix_streams", operands, writes, attributes);
  b.on_backward([&b, name, operands, writes, attributes] {
    std::vector<TensorId> reads, gradients;
    for (const TensorId written : writes) reads.push_back(b.gradient(written));
    reads.insert(reads.end(), operands.begin(), operands.end());
    for (std::size_t i = 0; i < 2; ++i)
      gradients.push_back(b.activation("d_" + name + (i == 0 ? "_streams" : "_stream_logits"), b.shape(operands[i]),
                                       b.activation_gradient_type()));
    std::vector<TensorId> results = gradients;
    for (std::size_t i = 2; i < operands.size(); ++i) results.push_back(b.gradient_of_parameter(operands[i]));
    b.emit(mix_streams_grad, name + "_mix_streams_grad", reads, results, attributes);
    for (std::size_t i = 0; i < gradients.size(); ++i) b.add_gradient(operands[i], gradients[i]);
  });
  return reading;
}

StreamReading read_stream(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId stream) {
  const std::int64_t n = c.architecture.residual_streams;
  if (n == 1) return {stream, std::nullopt};
  constexpr std::int64_t scales = 3;  // of reading, adding and mixing
  return mixed_streams(b, c, name, stream, (2 + n) * n, scales);
}

// Returns the stream with the sum of the terms, each [T, H], added.
TensorId add_to_stream(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId stream,
                       const StreamReading& reading, const std::vector<TensorId>& terms) {
  if (!reading.weights) {
    std::vector<TensorId> all = {stream};
    all.insert(all.end(), terms.begin(), terms.end());
    return residual(b, name, all);
  }
  const TensorId added = terms.size() > 1 ? residual(b, name + "_terms", terms) : terms.front();
  const StreamAttributes attributes{c.architecture.residual_streams, c.architecture.norm_epsilon};
  const TensorId sum = b.activation(name, b.shape(stream), b.tensor(stream).type);
  const std::vector<TensorId> operands = {added, stream, *reading.weights};
  b.emit(add_to_streams, name, operands, {sum}, attributes);
  b.on_backward([&b, name, operands, sum, attributes] {
    std::vector<TensorId> reads = {b.gradient(sum)}, gradients;
    for (const TensorId id : operands) {
      reads.push_back(id);
      const bool weights = b.tensor(id).type == DataType::fp32;
      gradients.push_back(b.activation("d_" + name + "_" + b.tensor(id).name, b.shape(id),
                                       weights ? DataType::fp32 : b.activation_gradient_type()));
    }
    b.emit(add_to_streams_grad, name + "_grad", reads, gradients, attributes);
    for (std::size_t i = 0; i < operands.size(); ++i) b.add_gradient(operands[i], gradients[i]);
  });
  return sum;
}

// Returns the stream that begins with x [T, H] in each copy.
TensorId begin_stream(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x) {
  const std::int64_t n = c.architecture.residual_streams;
  if (n == 1) return x;
  return concatenate_columns(b, name, std::vector<TensorId>(static_cast<std::size_t>(n), x));
}

// Returns the weighted sum of the copies that a model's end reads [T, H].
TensorId end_stream(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId stream) {
  const std::int64_t n = c.architecture.residual_streams;
  return n == 1 ? stream : mixed_streams(b, c, name, stream, n, 1).input;
}

Dimension tokens(const LayerContext& c) { return {c.tokens, Extent::tokens}; }
Dimension stream_tokens(const LayerContext& c) { return {c.stream_tokens(), Extent::tokens}; }

// Tables are divided by rows of the vocabulary; the last part is padded.
std::int64_t vocabulary(const LayerContext& c) { return ceil_div(c.architecture.vocabulary, c.tensor); }

struct NamedLayer {
  BlockKind block;
  std::string_view name;
  LayerKind kind;
};
constexpr auto layer_blocks = std::to_array<NamedLayer>({
    {BlockKind::dense_layer, "dense_layer", {Mixer::attention, FeedForward::dense}},
    {BlockKind::moe_layer, "moe_layer", {Mixer::attention, FeedForward::experts}},
    {BlockKind::windowed_dense_layer, "windowed_dense_layer", {Mixer::windowed_attention, FeedForward::dense}},
    {BlockKind::windowed_moe_layer, "windowed_moe_layer", {Mixer::windowed_attention, FeedForward::experts}},
    {BlockKind::borrowing_dense_layer, "borrowing_dense_layer", {Mixer::attention, FeedForward::dense, true}},
    {BlockKind::windowed_borrowing_dense_layer,
     "windowed_borrowing_dense_layer",
     {Mixer::windowed_attention, FeedForward::dense, true}},
    {BlockKind::recurrent_dense_layer, "recurrent_dense_layer", {Mixer::recurrence, FeedForward::dense}},
    {BlockKind::recurrent_moe_layer, "recurrent_moe_layer", {Mixer::recurrence, FeedForward::experts}},
    {BlockKind::parallel_dense_layer, "parallel_dense_layer", {Mixer::attention_and_recurrence, FeedForward::dense}},
    {BlockKind::shared_block_layer,
     "shared_block_layer",
     {Mixer::attention_and_recurrence, FeedForward::none, false, SharedBlock::first}},
    {BlockKind::shared_block_again_layer,
     "shared_block_again_layer",
     {Mixer::attention_and_recurrence, FeedForward::none, false, SharedBlock::again}},
    {BlockKind::attention_layer, "attention_layer", {Mixer::attention, FeedForward::none}},
    {BlockKind::recurrent_layer, "recurrent_layer", {Mixer::recurrence, FeedForward::none}},
    {BlockKind::mlp_layer, "mlp_layer", {Mixer::none, FeedForward::dense}},
    {BlockKind::experts_layer, "experts_layer", {Mixer::none, FeedForward::experts}},
    {BlockKind::compressed_moe_layer, "compressed_moe_layer", {Mixer::compressed_attention, FeedForward::experts}},
    {BlockKind::sparse_compressed_moe_layer,
     "sparse_compressed_moe_layer",
     {Mixer::sparse_compressed_attention, FeedForward::experts}},
    {BlockKind::sparse_dense_layer, "sparse_dense_layer", {Mixer::sparse_attention, FeedForward::dense}},
    {BlockKind::sparse_moe_layer, "sparse_moe_layer", {Mixer::sparse_attention, FeedForward::experts}},
});

// Returns the input of a layer where its CUDA graph reads it (NVIDIA/TransformerEngine
// transformer_engine/pytorch/graph.py @02d6bdc6, Graphed.forward: it is copied unless it lies there).
TensorId graph_input(GraphBuilder& b, TensorId x) {
  const TensorId copy = b.activation("graph_input", b.shape(x), b.tensor(x).type);
  b.emit(concatenate, "graph_input", {x}, {copy});
  b.on_backward([&b, x, copy] { b.add_gradient(x, b.gradient(copy)); });
  return copy;
}

// Adds what attention and a recurrence make of the normalised stream to it; x: the stream as the layer reads it.
TensorId mixed_tokens(GraphBuilder& b, const LayerContext& c, TensorId x, const StreamReading& reading,
                      TensorId normalized, LayerKind kind) {
  const Architecture& a = c.architecture;
  std::vector<TensorId> terms;
  const auto add_seen = [&](TensorId seen) {
    if (a.post_norms) seen = normalize_stream(b, c, "attention_out_norm", seen, c.stream_type());
    terms.push_back(drop_out(b, "residual_dropout", seen, a.dropout.residual));
  };
  if (attends(kind.mixer) && kind.block == SharedBlock::none) add_seen(attention_layer(b, c, normalized, kind));
  if (recurs(kind.mixer)) add_seen(recurrence(b, c, normalized));
  return add_to_stream(b, c, "attention_residual", x, reading, terms);
}

// Returns the sum of what the dense MLP makes of its input and experts of the stream, each normalised.
TensorId experts_with_mlp(GraphBuilder& b, const LayerContext& c, TensorId stream, TensorId mlp_input) {
  b.section(Section::mlp);
  const TensorId made = mlp(b, c, "", mlp_input, c.architecture.intermediate_size);
  const TensorId dense = normalize_stream(b, c, "dense_out_norm", made, c.stream_type());
  const TensorId choosing = normalize_stream(b, c, "router_norm", stream, c.stream_type());
  const TensorId read = normalize_stream(b, c, "experts_norm", stream, c.stream_type());
  const TensorId routed = mixture_of_experts(b, c, read, std::nullopt, choosing);
  return residual(b, "add_dense", {dense, normalize_stream(b, c, "experts_out_norm", routed, c.stream_type())});
}

// Adds what a layer makes of its own input, which the block of the embedding computes and keeps, as whole on each
// tensor rank as the stream (class Gemma4TextDecoderLayer of huggingface/transformers @033b1a8
// src/transformers/models/gemma4/modular_gemma4.py).
TensorId add_layer_input(GraphBuilder& b, const LayerContext& c, TensorId x) {
  const std::int64_t columns = c.architecture.layer_inputs.columns;
  const LinearOptions options{.operands = c.plain_operands()};
  const TensorId own = b.constant("layer_input", {b.shape(x)[0], {columns}}, c.stream_type());
  const TensorId gate = linear(b, "layer_input_gate", x, columns, options);
  const TensorId both = concatenate_columns(b, "layer_input_join", {gate, own});
  const TensorId made = linear(b, "layer_input_projection", gated_activation(b, c, "layer_input_swiglu", both),
                               c.architecture.hidden_size, options);
  return residual(b, "layer_input_residual", {x, normalize_stream(b, c, "layer_input_norm", made, c.stream_type())});
}

// Returns what a shared block makes of the stream and the embedding, as the layer projects it (class
// Zamba2AttentionDecoderLayer of huggingface/transformers @00511f5 src/transformers/models/zamba2/modular_zamba2.py).
TensorId shared_block(GraphBuilder& b, const LayerContext& c, TensorId x, SharedBlock block) {
  const Architecture& a = c.architecture;
  const TensorId embedded = borrowed(b, "embedding", b.shape(x), b.tensor(x).type);
  b.share(block == SharedBlock::again);
  const TensorId both = concatenate_columns(b, "block_join", {x, embedded});
  const TensorId seen = attention_layer(b, c, normalize_stream(b, c, "block_norm", both, c.stream_type()),
                                        {Mixer::attention, FeedForward::none});
  const TensorId read = normalize_stream(b, c, "block_mlp_norm", seen, c.stream_type());
  LinearOptions wide{
      .operands = c.plain_operands(), .input_group = RecomputeGroup::rmsnorm, .output_group = RecomputeGroup::mlp};
  wide.operands.adapter_rank = a.shared_blocks.adapter_rank;
  wide.own_adapter = true;
  const TensorId gate_up =
      column_parallel_linear(b, c, "block_gate_up", enter_tensor_region(b, c, "block_gate_up", read, wide),
                             wide_columns(c, a.intermediate_size), wide);
  const TensorId made = row_parallel_linear(b, c, "block_down", activated(b, c, "block_", gate_up), a.hidden_size,
                                            {.operands = c.plain_operands(), .input_group = RecomputeGroup::swiglu});
  b.share(false);
  return linear(b, "block_out", made, a.hidden_size, {.operands = c.plain_operands()});
}

TensorId layer(GraphBuilder& b, const LayerContext& c, TensorId layer_in, LayerKind kind) {
  const Architecture& a = c.architecture;
  const bool captured = c.captured_parts && !c.inference;
  const bool moe = kind.feed_forward == FeedForward::experts;
  b.section(Section::attention);
  const TensorId x = captured ? graph_input(b, layer_in) : layer_in;
  TensorId attended = x, normalized = x;
  if (kind.mixer != Mixer::none) {
    StreamReading reading = read_stream(b, c, "attention", x);
    if (kind.block != SharedBlock::none)
      reading.input = residual(b, "block_residual", {reading.input, shared_block(b, c, x, kind.block)});
    const bool routed = moe && a.shared_norm;  // the router reads it too
    normalized = normalize_stream(b, c, "attention_norm", reading.input, routed ? c.stream_type() : c.norm_output());
    attended = mixed_tokens(b, c, x, reading, normalized, kind);
  }
  if (captured && !(moe && c.captured_router))
    b.on_backward([&b, attended] {
      b.replace_gradient(attended, graph_gradient(b, "attention_residual", b.gradient(attended)));
    });
  if (kind.feed_forward == FeedForward::none) return attended;
  const StreamReading reading = read_stream(b, c, "mlp", a.parallel_residual ? x : attended);
  const TensorId mlp_input =
      a.shared_norm ? normalized
                    : normalize_stream(b, c, "mlp_norm", reading.input, moe ? c.stream_type() : c.norm_output());
  if (moe && !a.post_norms && !reading.weights) return mixture_of_experts(b, c, mlp_input, attended);
  if (!moe) b.section(Section::mlp);
  TensorId y = moe && a.experts.with_dense ? experts_with_mlp(b, c, reading.input, mlp_input)
               : moe                       ? mixture_of_experts(b, c, mlp_input, std::nullopt)
                                           : mlp(b, c, "", mlp_input, a.mlp_columns(kind));
  if (a.post_norms) y = normalize_stream(b, c, "mlp_out_norm", y, c.stream_type());
  const TensorId sum =
      add_to_stream(b, c, "mlp_residual", attended, reading, {drop_out(b, "mlp_dropout", y, a.dropout.residual)});
  return a.layer_inputs.columns > 0 ? add_layer_input(b, c, sum) : sum;
}

// Looks up the tokens' rows of a table [rows, columns], of which a tensor rank has its share of the rows.
TensorId look_up(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId ids, TensorId table) {
  const TensorId x = b.activation(name, {tokens(c), b.shape(table)[1]}, c.stream_type());
  const std::string kernel = b.tensor(table).name;
  b.emit(embedding, kernel, {ids, table}, {x});
  b.on_backward([&b, kernel, ids, table, x] {
    b.emit_weight_gradient(embedding_grad, kernel + "_grad", {b.gradient(x), ids}, {b.gradient_of_parameter(table)});
  });
  return leave_tensor_region(b, c, name, x);
}

TensorId embed(GraphBuilder& b, const LayerContext& c, TensorId ids, bool shared) {
  const TensorId table = b.parameter("embedding", {{vocabulary(c)}, {c.architecture.hidden_size}},
                                     weight_type(c.unscaled_gemm()), {.shared = shared, .divided = c.tensor > 1});
  return look_up(b, c, "embedded", ids, table);
}

// Emits the inputs of all layers side by side. Layers read their columns of them as constants, and give the gradients
// of these, which come back as one.
void make_layer_inputs(GraphBuilder& b, const LayerContext& c, TensorId ids, TensorId embedded) {
  const Architecture& a = c.architecture;
  const std::int64_t columns = a.layer_input_columns();
  const TensorId table = b.parameter("layer_embedding", {{ceil_div(a.layer_inputs.vocabulary, c.tensor)}, {columns}},
                                     weight_type(c.unscaled_gemm()), {.divided = c.tensor > 1});
  const TensorId rows = look_up(b, c, "layer_embedded", ids, table);
  const TensorId projected = linear(b, "layer_input_projection", embedded, columns, {.operands = c.plain_operands()});
  const TensorId normalized = normalize(b, "layer_input_norm", projected, a.norm_epsilon, a.layers);
  const TensorId inputs = residual(b, "layer_inputs", {rows, normalized});
  b.on_backward([&b, inputs] {
    b.add_gradient(inputs, b.constant("d_layer_inputs", b.shape(inputs), b.activation_gradient_type()));
  });
}

TensorId add_learned_positions(GraphBuilder& b, const LayerContext& c, TensorId x) {
  const PositionAttributes attributes{c.sequence_tokens()};
  const TensorId table = b.parameter("positions", {{c.architecture.position_table}, {c.architecture.hidden_size}},
                                     weight_type(c.unscaled_gemm()));
  const TensorId y = b.activation("placed", b.shape(x), b.tensor(x).type);
  std::vector<TensorId> reads = {x, table};
  if (const auto lengths = cached_lengths(b, c)) reads.push_back(*lengths);
  b.emit(add_positions, "add_positions", reads, {y}, attributes);
  b.on_backward([&b, x, table, y, attributes] {
    b.emit_weight_gradient(add_positions_grad, "add_positions_grad", {b.gradient(y)}, {b.gradient_of_parameter(table)},
                           attributes);
    b.add_gradient(x, b.gradient(y));
  });
  return y;
}

// Returns what the loss keeps of each token: the log-sum-exp of its logits or, for a divided vocabulary, terms that are
// summed over the ranks (model/graph/operators.def).
TensorId loss_figures(GraphBuilder& b, const LayerContext& c, const std::string& prefix) {
  if (c.tensor == 1) return b.activation(prefix + "loss_log_sum_exp", {tokens(c)}, DataType::fp32);
  constexpr std::int64_t figures = 3;
  return b.activation(prefix + "loss_parts", {tokens(c), {figures}}, DataType::fp32);
}

TensorId over_vocabulary(GraphBuilder& b, const LayerContext& c, const std::string& prefix, TensorId lse) {
  const TensorId whole = b.activation(prefix + "loss_statistics", b.shape(lse), DataType::fp32);
  b.emit(all_reduce, prefix + "reduce_loss_statistics", {lse}, {whole}, c.tensor_group());
  return whole;
}

struct Labels {
  TensorId ids;
  LossAttributes attributes;
};

// Chunks are of tokens. Megatron-Core's head that computes its loss has the gradient of some columns of the vocabulary
// at a time (megatron/core/fusions/linear_cross_entropy/blackwell/entry.py @00ee9667, BwdConfig._vocab_per_split).
std::int64_t logit_chunks(const LayerContext& c) {
  constexpr std::int64_t columns = 3072;
  return c.loss_in_head ? ceil_div(vocabulary(c), columns) : c.loss_chunks;
}

TensorId like_logits(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId logits, DataType type) {
  const TensorId made = b.activation(name, b.shape(logits), type);
  b.in_chunks(made, logit_chunks(c));
  return made;
}

// One kernel computes the loss from 16-bit logits, another their gradient, over the logits where it works in place.
TensorId fused_loss(GraphBuilder& b, const LayerContext& c, const std::string& prefix, TensorId logits,
                    const Labels& labels) {
  const TensorId loss = b.activation(prefix + "loss", {{1}}, DataType::fp32);
  TensorId lse = loss_figures(b, c, prefix);
  b.emit(cross_entropy, prefix + "cross_entropy", {logits, labels.ids}, {loss, lse}, labels.attributes);
  if (c.tensor > 1) lse = over_vocabulary(b, c, prefix, lse);
  b.on_backward([&b, &c, prefix, logits, labels, lse] {
    const TensorId d_logits = like_logits(b, c, "d_" + prefix + "logits", logits, b.activation_gradient_type());
    b.emit_over(c.loss_in_place, cross_entropy_grad, prefix + "cross_entropy_grad", {logits, labels.ids, lse},
                {d_logits}, labels.attributes);
    b.add_gradient(logits, d_logits);
  });
  return loss;
}

// Logits are cast to FP32, and log-probabilities stored for the backward pass, over them where it works in place, as
// their gradient then is. That is cast back.
TensorId stored_loss(GraphBuilder& b, const LayerContext& c, const std::string& prefix, TensorId logits,
                     const Labels& labels) {
  const TensorId wide = like_logits(b, c, prefix + "logits_fp32", logits, DataType::fp32);
  b.emit(cast, prefix + "cast_logits", {logits}, {wide}, CastAttributes{});
  const TensorId loss = b.activation(prefix + "loss", {{1}}, DataType::fp32);
  const TensorId lse = loss_figures(b, c, prefix);
  const TensorId logarithms = like_logits(b, c, prefix + "log_probabilities", logits, DataType::fp32);
  b.emit_over(c.loss_in_place, cross_entropy, prefix + "cross_entropy", {wide, labels.ids}, {loss, lse, logarithms},
              labels.attributes);
  if (c.tensor > 1) over_vocabulary(b, c, prefix, lse);
  b.on_backward([&b, &c, prefix, logits, logarithms, labels] {
    const TensorId d_wide = like_logits(b, c, "d_" + prefix + "logits_fp32", logits, DataType::fp32);
    b.emit_over(c.loss_in_place, cross_entropy_grad, prefix + "cross_entropy_grad", {logarithms, labels.ids}, {d_wide},
                labels.attributes);
    const TensorId d_logits = like_logits(b, c, "d_" + prefix + "logits", logits, b.activation_gradient_type());
    b.emit(cast, prefix + "cast_d_logits", {d_wide}, {d_logits}, CastAttributes{});
    b.add_gradient(logits, d_logits);
  });
  return loss;
}

// Emits the final norm, output projection and mean cross-entropy over the labelled tokens.
TensorId output_head(GraphBuilder& b, const LayerContext& c, const std::string& prefix, TensorId x,
                     const LossAttributes& attributes, const std::string& weight, bool shared) {
  b.section(Section::head);
  const TensorId ended = end_stream(b, c, prefix + "head", x);
  const TensorId normalized = normalize_stream(b, c, prefix + "final_norm", ended, c.stream_type());
  const TensorId entered = enter_tensor_region(b, c, prefix + "output_in", normalized);
  const TensorId logits = column_parallel_linear(
      b, c, prefix + "output", entered, vocabulary(c) * c.tensor,
      {.operands = c.head_operands(),
       .output_group = c.loss_in_head ? RecomputeGroup::always : RecomputeGroup::other,  // runs again
       .weight = weight,
       .shared = shared,
       .chunks = c.loss_chunks});
  const Labels labels{b.constant(prefix + "labels", {tokens(c)}, DataType::int32), attributes};
  return c.fused_loss ? fused_loss(b, c, prefix, logits, labels) : stored_loss(b, c, prefix, logits, labels);
}

// Emits the final norm, output projection and choice of a token: after the last token of each prompt, or after each
// token of a decode pass, of which some may be speculated; a draft follows the last one. Ranks gather their parts of
// the vocabulary.
TensorId next_tokens(GraphBuilder& b, const LayerContext& c, const std::string& prefix, TensorId x,
                     const std::string& weight, bool shared) {
  b.section(Section::head);
  TensorId rows = enter_tensor_region(b, c, prefix + "output_in", x);
  const bool last_alone = c.inference.last_token || c.inference.kind == InferencePass::Kind::prefill;
  if (last_alone && c.inference.new_tokens > 1) {
    const TensorId last = b.activation(prefix + "last_out", {{c.inference.requests}, b.shape(x)[1]}, b.tensor(x).type);
    b.emit(last_tokens, prefix + "last_tokens", {rows}, {last});
    rows = last;
  }
  rows = normalize_stream(b, c, prefix + "final_norm", end_stream(b, c, prefix + "head", rows), c.stream_type());
  TensorId logits = column_parallel_linear(b, c, prefix + "output", rows, vocabulary(c) * c.tensor,
                                           {.operands = {c.unscaled_gemm()}, .weight = weight, .shared = shared});
  const Dimension count = b.shape(rows)[0];
  if (c.tensor > 1) {
    const TensorId parts =
        b.activation(prefix + "logits_gathered", {{count.size * c.tensor}, b.shape(logits)[1]}, b.tensor(logits).type);
    b.emit(all_gather, prefix + "gather_logits", {logits}, {parts}, c.tensor_group());
    logits = parts;
  }
  const TensorId ids = b.activation(prefix + "next_ids", {count}, DataType::int32);
  b.emit(sample, prefix + "sample", {logits}, {ids});
  return ids;
}

GraphBuilder builder(const std::string& name, const LayerContext& c) {
  GraphBuilder b = c.inference ? GraphBuilder(name) : GraphBuilder(name, c.gradients, c.stream_type());
  b.train(c.inference || (c.adapters.rank == 0 && !c.reference));
  if (c.reference) b.refer();
  return b;
}

Graph embedding_block(const LayerContext& c) {
  GraphBuilder b = builder("embedding", c);
  b.section(Section::embedding);
  const TensorId ids = b.constant("token_ids", {tokens(c)}, DataType::int32);
  TensorId x = embed(b, c, ids, false);
  if (c.architecture.layer_inputs.columns > 0) make_layer_inputs(b, c, ids, x);
  if (c.architecture.positions == PositionKind::learned) x = add_learned_positions(b, c, x);
  x = drop_out(b, "embedding_dropout", x, c.architecture.dropout.embedding);
  return b.finish(ids, begin_stream(b, c, "streams", x), c.recompute);
}

Graph layer_block(const LayerContext& c, const NamedLayer& block) {
  GraphBuilder b = builder(std::string(block.name), c);
  const TensorId x = b.input("layer_in", {stream_tokens(c), {c.architecture.stream_columns()}}, c.stream_type());
  return b.finish(x, layer(b, c, x, block.kind), c.recompute);
}

// Projects the normalised stream and the embedding of the next token to the stream of a prediction module. Of several
// copies each is projected by one matrix, and the embedding by another (class MTPBlock of deepseek-ai/DeepSeek-V4-Flash
// inference/model.py).
TensorId prediction_input(GraphBuilder& b, const LayerContext& c, TensorId x, TensorId embedded) {
  const Architecture& a = c.architecture;
  const std::int64_t streams = a.residual_streams;
  const LinearOptions options{.operands = c.operands()};
  const TensorId stream = normalize(b, "mtp_stream_norm", x, a.norm_epsilon, streams);
  const TensorId next = normalize(b, "mtp_embedding_norm", embedded, a.norm_epsilon);
  if (streams == 1)
    return linear(b, "mtp_projection", concatenate_columns(b, "mtp_join", {stream, next}), a.hidden_size, options);
  const TensorId projected = linear(b, "mtp_embedding_projection", next, a.hidden_size, options);
  std::vector<TensorId> sums;
  for (const TensorId copy : split_columns(
           b, "mtp_streams", stream, std::vector<std::int64_t>(static_cast<std::size_t>(streams), a.hidden_size))) {
    LinearOptions own = options;
    own.weight = "mtp_stream_projection";
    own.shared = !sums.empty();  // with the first copy
    const std::string name = "mtp_stream_projection_" + std::to_string(sums.size());
    sums.push_back(residual(b, name + "_sum", {linear(b, name, copy, a.hidden_size, own), projected}));
  }
  return concatenate_columns(b, "mtp_join", sums);
}

// Predicts the token after the next: the stream is concatenated with the embedding of the next token, then come one
// layer and the head. Embedding and head are those of the main model, or copies on a stage of their own.
Graph multi_token_prediction_block(const LayerContext& c) {
  constexpr std::int64_t depth = 1;
  const Architecture& a = c.architecture;
  GraphBuilder b = builder("multi_token_prediction", c);
  const TensorId x = b.input("layer_in", {stream_tokens(c), {a.stream_columns()}}, c.stream_type());
  const TensorId ids = b.constant("token_ids", {tokens(c)}, DataType::int32);
  b.section(Section::attention);
  TensorId next = ids;
  if (!c.inference) {
    next = b.activation("next_token_ids", {tokens(c)}, DataType::int32);
    b.emit(shift_tokens, "shift_tokens", {ids}, {next}, ShiftAttributes{depth, c.sequence_length});
  }
  const TensorId embedded = embed(b, c, next, c.shares_embedding);
  const TensorId layer_out =
      layer(b, c, prediction_input(b, c, x, embedded), layer_of(BlockKind::multi_token_prediction, a));
  const std::string weight = a.tied_embedding ? "embedding" : "output";
  const bool shared = a.tied_embedding || !c.prediction_apart;
  if (c.inference) return b.finish(x, next_tokens(b, c, "mtp_", layer_out, weight, shared), {});
  output_head(b, c, "mtp_", layer_out, {depth, c.sequence_length, 1.0}, weight, shared);
  return b.finish(x, x, c.recompute);
}

// A tied matrix on another rank than the embedding is a copy with its own gradient and optimizer state. On the rank of
// a prediction module that module already holds it.
Graph head_block(const LayerContext& c) {
  const Architecture& a = c.architecture;
  GraphBuilder b = builder("head", c);
  const TensorId x = b.input("layer_in", {stream_tokens(c), {a.stream_columns()}}, c.stream_type());
  const bool predicted = a.multi_token_prediction_layers > 0 && !c.prediction_apart;
  const bool shared = a.tied_embedding && (c.shares_embedding || predicted);
  const std::string weight = a.tied_embedding ? "embedding" : "output";
  if (c.inference) return b.finish(x, next_tokens(b, c, "", x, weight, shared), {});
  const TensorId loss = output_head(b, c, "", x, {0, c.sequence_length, 1.0}, weight, shared);
  return b.finish(x, loss, c.recompute, true);
}

Graph block_of_operators(BlockKind kind, const LayerContext& context) {
  switch (kind) {
    case BlockKind::embedding:
      return embedding_block(context);
    case BlockKind::multi_token_prediction:
      return multi_token_prediction_block(context);
    case BlockKind::head:
      return head_block(context);
    default:
      return layer_block(context, *std::ranges::find(layer_blocks, kind, &NamedLayer::block));
  }
}

}  // namespace

BlockKind layer_kind(const Architecture& architecture, std::int64_t number) {
  return std::ranges::find(layer_blocks, architecture.layer(number), &NamedLayer::kind)->block;
}

LayerKind layer_of(BlockKind kind, const Architecture& a) {
  if (kind == BlockKind::multi_token_prediction) {
    const bool listed = std::ranges::find(a.experts.dense_layers, a.layers) != a.experts.dense_layers.end();
    return {a.layer(a.layers).mixer,
            a.experts.routed_experts > 0 && !listed ? FeedForward::experts : FeedForward::dense};
  }
  const auto* found = std::ranges::find(layer_blocks, kind, &NamedLayer::block);
  return found == layer_blocks.end() ? LayerKind{Mixer::none, FeedForward::none} : found->kind;
}

Graph make_block(BlockKind kind, const LayerContext& context) {
  Graph block = block_of_operators(kind, context);
  if (context.fused_experts) fuse_experts(block);
  for (Operator& op : block.operators)
    if (op.kind == cross_entropy || op.kind == cross_entropy_grad) op.fused = context.loss_in_head;
  return block;
}

}  // namespace plumbline::model
