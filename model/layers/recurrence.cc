#include "model/layers/recurrence.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "model/base/integers.h"
#include "model/layers/detail/attention.h"
#include "model/layers/elementary.h"
#include "model/layers/linear.h"

namespace plumbline::model {
namespace {

using enum OperatorKind;

// A rank's part. Where ranks outnumber key heads, several hold the same one. `ranks`: tensor ranks, which hold its
// weights, or times context ranks, whose convolution and scan are of it.
struct Heads {
  Heads(const Recurrence& r, std::int64_t ranks)
      : keys(std::max<std::int64_t>(1, r.key_heads / ranks)),
        values(r.value_heads / ranks),
        value_columns(values * r.value_dim),
        mixed_columns((r.selective() ? 0 : 2 * keys * r.key_dim) + value_columns) {}

  std::int64_t keys, values, value_columns, mixed_columns;  // mixed: what the convolution is of
};

// Returns the columns of what the kernels of a scan hold between them, in elements of 16 bits by token. gated_delta:
// the chunks' keys and values that the recurrence is of (w, u, v_new) and the states before each chunk, backward with
// the gradients of w, v_new and the states. channel_delta also has decays in FP32 and keys that they are part of,
// backward queries too, and FP32 gradients of queries, keys, decays and scores before and after the last kernel.
// state_space: states in FP32 and as they are passed on, and the FP32 scores of a group. constant_decay: states in
// FP32, which training keeps, and their gradients. selective_scan: the channels of time steps one after another and, of
// what training keeps, values, gates and the result before them; backward those of the result's gradient, and gradients
// of queries and keys in FP32.
std::int64_t workspace_columns(const ScanAttributes& a, bool inference, bool backward) {
  if (a.selective())
    return backward ? a.value_heads + 4 * a.key_heads * a.key_dim : (inference ? 4 : 1) * a.value_heads;
  const std::int64_t states = ceil_div(a.value_heads * a.key_dim * a.value_dim, a.chunk);
  if (a.constant()) return backward || inference ? 2 * states : 0;
  if (!a.delta()) return (backward ? 2 : 1) * (3 * states + 2 * a.key_heads * a.chunk);
  std::int64_t rows = backward ? 2 * a.key_dim + 3 * a.value_dim : a.key_dim + 2 * a.value_dim;
  if (a.channel_gates() > 0) rows += backward ? 11 * a.key_dim + 4 * a.chunk : 3 * a.key_dim;
  return a.value_heads * rows + (backward ? 2 : 1) * states;
}

// Returns the columns that a scan keeps for the backward pass, which computes the rest again. gated_delta: normalised
// queries and keys, copied to all value heads, and the chunks' inverses of a triangular matrix
// (ChunkGatedDeltaRuleFunction of fla-org/flash-linear-attention @0315a70 fla/ops/gated_delta_rule/chunk.py; the copies
// are made before it by huggingface/transformers @043bb8d
// src/transformers/models/qwen3_next/modular_qwen3_next.py and by NVIDIA/Megatron-LM @00caa53
// megatron/core/ssm/gated_delta_net.py). channel_delta: the scores of queries too (ChunkKDAFunction, @0395eef
// fla/ops/kda/chunk.py). selective_scan: copies of values and gates in the order of channels, the result before it is
// gated, and two factors of each state in FP32 (SelectiveScanFn of state-spaces/mamba @01b717a
// mamba_ssm/ops/selective_scan_interface.py).
std::int64_t kept_columns(const ScanAttributes& a) {
  if (a.selective()) return 3 * a.value_heads + ceil_div(4 * a.value_heads * a.key_dim, a.chunk);
  if (a.constant()) return 2 * ceil_div(a.value_heads * a.key_dim * a.value_dim, a.chunk);
  if (!a.delta()) return 0;
  return a.value_heads * (2 * a.key_dim + (a.channel_gates() > 0 ? 2 : 1) * a.chunk);
}

// Whether context ranks work on whole sequences of some heads; those of lightning attention work on their tokens.
bool sends_heads(const LayerContext& c) { return c.context > 1 && !c.architecture.recurrence.constant(); }

// Returns whole sequences of the heads that a context rank works on from columns of its tokens, put in order first.
TensorId in_sequences(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x, const Heads& heads) {
  return c.context == 1 ? x : whole_sequences(b, c, name, reordered(b, name + "_in_columns", x), heads.keys);
}

// Returns the columns of a projection [T, n] of a rank's tokens, `own` wide, of the heads that a context rank works on,
// for whole sequences [context T, own], as NVIDIA/Megatron-LM sends them whatever attention does. state_space
// (@00caa53 megatron/core/ssm/mamba_context_parallel.py, pre_conv_ssm): values, keys, queries, gate and time steps one
// after another, each in an order by ranks, then joined and put in the order of tokens. gated_delta (@00bebb4
// megatron/core/ssm/gated_delta_net/common.py, a2a_cp_to_hp): all at once. channel_delta (@01cb90a kda.py there, with
// linear_cp_mode "headwise"): strengths by themselves, as decays and output gates of low ranks are.
std::vector<TensorId> split_by_context(GraphBuilder& b, const LayerContext& c, TensorId projected, const Heads& heads,
                                       std::vector<std::int64_t> own) {
  const Recurrence& r = c.architecture.recurrence;
  if (r.kind == RecurrenceKind::channel_delta) {
    own.pop_back();
    const auto parts = split_columns(b, "recurrence_and_strengths", projected,
                                     {b.shape(projected)[1].size - heads.values, heads.values});
    auto split = split_columns(b, "split_recurrence", in_sequences(b, c, "recurrence_in", parts[0], heads), own);
    split.push_back(in_sequences(b, c, "strengths", parts[1], heads));
    return split;
  }
  if (r.delta())
    return split_columns(b, "split_recurrence", in_sequences(b, c, "recurrence_in", projected, heads), own);
  const std::int64_t keys = heads.keys * r.key_dim;
  const auto parts = split_columns(b, "recurrence_by_ranks", projected,
                                   {heads.value_columns, keys, keys, heads.value_columns, heads.values});
  const std::vector<TensorId> sent = {
      send_heads(b, c, "scan_values", parts[0], heads.values), send_heads(b, c, "scan_keys", parts[1], heads.keys),
      send_heads(b, c, "scan_queries", parts[2], heads.keys), send_heads(b, c, "output_gate", parts[3], heads.values),
      send_heads(b, c, "time_steps", parts[4], heads.values)};
  return split_columns(b, "split_recurrence", concatenate_columns(b, "recurrence_joined", sent), own);
}

// Returns silu(convolution over the last tokens of each column); x [T, n]. The autograd function that trains
// state_space keeps x alone (MambaSplitConv1dScanCombinedFn of state-spaces/mamba @01b717a
// mamba_ssm/ops/triton/ssd_combined.py). Context ranks hold the taps of all columns and read those of their own.
TensorId convolved(GraphBuilder& b, const LayerContext& c, TensorId x) {
  const Recurrence& r = c.architecture.recurrence;
  const Dimension columns{Heads(r, c.tensor).mixed_columns};
  std::vector<TensorId> weight;
  if (r.convolution > 0)
    weight.push_back(b.parameter("convolution", {columns, {r.convolution + (r.convolution_bias ? 1 : 0)}},
                                 weight_type(c.unscaled_gemm()), {.divided = c.tensor > 1}));
  // vLLM's lightning attention reads FP32 (vllm-project/vllm @038f589 vllm/model_executor/layers/mamba/linear_attn.py).
  const TensorId y =
      b.activation("convolution_out", b.shape(x), r.constant() && c.inference ? DataType::fp32 : b.tensor(x).type);
  std::vector<TensorId> reads = {x}, writes = {y};
  reads.insert(reads.end(), weight.begin(), weight.end());
  if (c.inference && r.convolution > 0) {
    writes.push_back(
        b.cache("convolution_state", {{c.inference.requests * (r.convolution - 1)}, columns}, b.tensor(x).type));
    if (c.inference.kind == InferencePass::Kind::decode) reads.push_back(writes.back());
  }
  const ConvolutionAttributes attributes{r.convolution, c.sequence_tokens()};
  b.group(r.kind == RecurrenceKind::state_space ? RecomputeGroup::always : RecomputeGroup::other);
  b.emit(convolution, "convolution", reads, writes, attributes);
  b.group(RecomputeGroup::other);
  b.on_backward([&b, x, weight, y, attributes] {
    std::vector<TensorId> inputs = {b.gradient(y), x};
    std::vector<TensorId> gradients = {b.activation("d_convolution_in", b.shape(x), b.activation_gradient_type())};
    for (const TensorId taps : weight) {
      inputs.push_back(taps);
      gradients.push_back(b.gradient_of_parameter(taps));
    }
    b.emit(convolution_grad, "convolution_grad", inputs, gradients, attributes);
    b.add_gradient(x, gradients[0]);
  });
  return y;
}

// Returns the sum of a gradient of which each rank has a part, where no gather sums it.
TensorId summed_over_ranks(GraphBuilder& b, const LayerContext& c, TensorId part) {
  const CollectiveAttributes ranks = summing_ranks(c);
  if (ranks.ranks == 1) return part;
  const TensorId sum = b.activation(b.tensor(part).name + "_sum", b.shape(part), b.tensor(part).type);
  b.emit(all_reduce, "reduce_" + b.tensor(part).name, {part}, {sum}, ranks);
  return sum;
}

// Returns the state before a rank's tokens, or the gradient of the state behind them: each context rank computes that
// of its own tokens, all are gathered, and those of the ranks before, or behind, are added (LASP-2, arXiv 2502.07563;
// OpenSparseLLMs/Linear-MoE linear_moe/sequence_modeling). A rank's tokens of a sequence count as one piece.
TensorId state_of_other_ranks(GraphBuilder& b, const LayerContext& c, const std::string& name, OperatorKind kind,
                              const std::vector<TensorId>& reads, const ScanAttributes& a) {
  const std::int64_t rows = b.shape(reads.back())[0].size / a.sequence_length * a.value_heads;
  const auto states = [&](const std::string& of, std::int64_t ranks) {
    return b.activation(of + name, {{ranks * rows}, {a.key_dim * a.value_dim}}, DataType::fp32);
  };
  const TensorId own = states("own_", 1), all = states("all_", c.context), sum = states("", 1);
  b.emit(kind, "own_" + name, reads, {own}, a);
  b.emit(all_gather, "gather_" + name, {own}, {all}, c.context_group());
  b.emit(add_states, "add_" + name, {all}, {sum});
  return sum;
}

TensorId scanned(GraphBuilder& b, const LayerContext& c, TensorId mixed, const std::vector<TensorId>& gates,
                 const Heads& heads) {
  const Recurrence& r = c.architecture.recurrence;
  const bool gathers = c.context > 1 && !sends_heads(c);
  ScanAttributes a{r, c.sequence_tokens() / (gathers ? c.context : 1)};
  a.key_heads = heads.keys;
  a.value_heads = heads.values;
  const Dimension tokens = b.shape(mixed)[0];
  std::vector<TensorId> parameters;
  if (r.head_parameters() > 0)
    parameters.push_back(b.parameter("recurrence_heads", {{r.head_parameters()}, {Heads(r, c.tensor).values}},
                                     weight_type(c.unscaled_gemm()), {.divided = c.tensor > 1}));
  const TensorId y = b.activation("scan_out", {tokens, {heads.value_columns}}, b.tensor(mixed).type);
  std::vector<TensorId> reads = {mixed}, writes = {y};
  reads.insert(reads.end(), gates.begin(), gates.end());
  reads.insert(reads.end(), parameters.begin(), parameters.end());
  const std::vector<TensorId> operands = reads;
  std::vector<TensorId> states;
  if (gathers) states.push_back(state_of_other_ranks(b, c, "state", scan_state, {mixed}, a));
  reads.insert(reads.end(), states.begin(), states.end());
  const bool decodes = c.inference.kind == InferencePass::Kind::decode;
  if (c.inference) {
    writes.push_back(b.cache("recurrent_state", {{c.inference.requests * heads.values}, {r.key_dim * r.value_dim}},
                             r.kept_bytes() == 2 ? DataType::bf16 : DataType::fp32));
    if (decodes || c.inference.cached_tokens > 0) reads.push_back(writes.back());
  }
  if (decodes) {
    b.emit(scan_step, "scan", reads, writes, a);
    return y;
  }
  const auto workspace = [&b, tokens, a, inference = static_cast<bool>(c.inference)](bool backward) {
    std::vector<TensorId> held;
    if (const std::int64_t columns = workspace_columns(a, inference, backward); columns > 0)
      held.push_back(
          b.activation(backward ? "d_scan_workspace" : "scan_workspace", {tokens, {columns}}, DataType::bf16));
    return held;
  };
  std::vector<TensorId> kept;
  if (kept_columns(a) > 0 && !c.inference)
    kept.push_back(b.activation("scan_kept", {tokens, {kept_columns(a)}}, b.tensor(mixed).type));
  writes.insert(writes.end(), kept.begin(), kept.end());
  const std::vector<TensorId> held = workspace(false);
  writes.insert(writes.end(), held.begin(), held.end());
  b.emit(scan, "scan", reads, writes, a);
  b.on_backward([&b, &c, mixed, gates, parameters, operands, states, y, kept, workspace, a] {
    std::vector<TensorId> inputs = {b.gradient(y)}, gradients;
    inputs.insert(inputs.end(), operands.begin(), operands.end());
    inputs.insert(inputs.end(), kept.begin(), kept.end());
    inputs.insert(inputs.end(), states.begin(), states.end());
    if (!states.empty())
      inputs.push_back(state_of_other_ranks(b, c, "d_state", scan_state_grad, {b.gradient(y), mixed}, a));
    gradients.push_back(b.activation("d_scan_in", b.shape(mixed), b.activation_gradient_type()));
    for (const TensorId gate : gates)
      gradients.push_back(b.activation("d_scan_" + b.tensor(gate).name, b.shape(gate), b.activation_gradient_type()));
    std::vector<TensorId> written = gradients;
    for (const TensorId weight : parameters) written.push_back(b.gradient_of_parameter(weight));
    written.push_back(workspace(true)[0]);
    b.emit(scan_grad, "scan_grad", inputs, written, a);
    b.add_gradient(mixed, gradients[0]);
    constexpr std::size_t divided_gates = 2;  // of selective_scan: time steps and gates, before keys and queries
    for (std::size_t i = 0; i < gates.size(); ++i) {
      const bool of_all_channels = a.selective() && i >= divided_gates;
      b.add_gradient(gates[i], of_all_channels ? summed_over_ranks(b, c, gradients[i + 1]) : gradients[i + 1]);
    }
  });
  return y;
}

// Returns [T, 1]: the products of tensors [T, n] or [n], of one tensor its squares, summed over columns and ranks.
TensorId row_sums(GraphBuilder& b, const LayerContext& c, const std::string& name, const std::vector<TensorId>& reads) {
  const Dimension tokens = b.shape(reads[0])[0];
  const TensorId own = b.activation(name, {tokens, {1}}, DataType::fp32);
  b.emit(row_products, name, reads, {own});
  const TensorId all = b.activation(name + "_sum", {tokens, {1}}, DataType::fp32);
  b.emit(all_reduce, "reduce_" + name, {own}, {all}, c.tensor_group());
  return all;
}

// Returns gamma * y / rms(y) times silu(gate), or what costs the same: times sigmoid(gate) in channel_delta and
// constant_decay, and the norm of y * silu(gate) in state_space. The delta rules have one gamma for all heads, the
// others one for each column. Without `normalized` it is y * silu(gate), without a gate the norm alone. A norm over the
// heads of all ranks needs the sum of squares of them all (vllm-project/vllm @038f589
// vllm/model_executor/layers/mamba/linear_attn.py, MiniMaxText01RMSNormTP, and mamba_mixer2.py, Mixer2RMSNormGated),
// and backward the sum of another product.
TensorId gated_norm(GraphBuilder& b, const LayerContext& c, TensorId y, std::optional<TensorId> gate,
                    const Heads& heads, bool normalized) {
  const Recurrence& r = c.architecture.recurrence;
  const NormAttributes attributes{c.architecture.norm_epsilon, r.constant() ? 1
                                                               : r.delta()  ? heads.values
                                                                            : heads.keys};
  b.group(RecomputeGroup::rmsnorm);
  const std::string name = normalized ? "recurrence_norm" : "recurrence_gate";
  const DataType type = b.tensor(gate.value_or(y)).type;
  std::vector<TensorId> reads = {y}, gamma;
  if (gate) reads.push_back(*gate);
  if (normalized)
    gamma.push_back(b.parameter("recurrence_norm", {{r.delta() ? r.value_dim : heads.value_columns}}, type,
                                {.divided = !r.delta() && c.tensor > 1}));
  reads.insert(reads.end(), gamma.begin(), gamma.end());
  const std::vector<TensorId> operands = reads;
  const bool over_ranks = normalized && c.tensor > 1 && (r.constant() || (!r.delta() && r.key_heads == 1));
  if (over_ranks) reads.push_back(row_sums(b, c, "recurrence_norm_squares", {y}));
  const TensorId z = b.activation(name + "_out", b.shape(y), type);
  b.emit(gate ? gated_rmsnorm : rmsnorm, name, reads, {z}, attributes);
  b.group(RecomputeGroup::other);
  b.on_backward([&b, &c, name, y, gate, gamma, reads, operands, over_ranks, z, attributes] {
    std::vector<TensorId> gradients = {b.activation("d_" + name + "_in", b.shape(y), b.activation_gradient_type())};
    if (gate) gradients.push_back(b.activation("d_recurrence_gate", b.shape(*gate), b.activation_gradient_type()));
    std::vector<TensorId> inputs = {b.gradient(z)};
    inputs.insert(inputs.end(), operands.begin(), operands.end());
    if (over_ranks) {
      const TensorId products = row_sums(b, c, "recurrence_norm_products", inputs);
      inputs.insert(inputs.end(), {reads.back(), products});
    }
    std::vector<TensorId> writes = gradients;
    for (const TensorId weight : gamma) writes.push_back(b.gradient_of_parameter(weight));
    b.emit(gate ? gated_rmsnorm_grad : rmsnorm_grad, name + "_grad", inputs, writes, attributes);
    b.add_gradient(y, gradients[0]);
    if (gate) b.add_gradient(*gate, gradients[1]);
  });
  return z;
}

// Returns the gated and normalised result for a rank's tokens. The kernel that trains state_space gates its result, and
// a norm of its own reads that, which context ranks send before, when they have all columns of a norm
// (NVIDIA/Megatron-LM @00bebb4 megatron/core/ssm/mamba_mixer.py, _ssm_training); engines gate in the norm's.
TensorId finished(GraphBuilder& b, const LayerContext& c, TensorId y, TensorId gate, const Heads& own) {
  const Recurrence& r = c.architecture.recurrence;
  const bool apart = r.kind == RecurrenceKind::state_space && r.normalized && !c.inference;
  TensorId z = gated_norm(b, c, y, gate, own, r.normalized && !apart);
  if (sends_heads(c)) z = own_tokens(b, c, "recurrence_out", z);  // post_conv_ssm and a2a_hp_to_cp there
  return apart ? gated_norm(b, c, z, std::nullopt, Heads(r, c.tensor), true) : z;
}

// Returns the gates of decays and, unless they are projected whole, of the output, each projected to a few columns
// first, whole on each tensor rank; of whole sequences where context ranks send heads.
std::vector<TensorId> low_rank_gates(GraphBuilder& b, const LayerContext& c, TensorId x, const Heads& heads) {
  const Recurrence& r = c.architecture.recurrence;
  LinearOptions options{.operands = c.attention_operands(), .input_group = RecomputeGroup::rmsnorm};
  const std::vector<std::int64_t> ranks(r.full_gate ? 1 : 2, r.gate_rank);
  const TensorId all = linear(b, "gates_a", x, std::reduce(ranks.begin(), ranks.end()), options);
  std::vector<TensorId> narrow = {enter_tensor_region(b, c, "gates", all)};
  if (!r.full_gate) narrow = split_columns(b, "split_gates", narrow[0], ranks);
  options.input_group = RecomputeGroup::other;
  const auto widened = [&](const char* name, std::size_t part, std::int64_t columns) {
    const TensorId gates = column_parallel_linear(b, c, name, narrow[part], r.value_heads * columns, options);
    return in_sequences(b, c, name, gates, heads);
  };
  const TensorId decays = widened("decay_gates", 0, r.channel_gates());
  if (r.full_gate) return {decays};
  return {decays, widened("output_gates", 1, r.value_dim)};
}

// Returns the gated result of a selective scan of values x: a rank's part of what all channels share is projected of
// its own, and summed (JambaMambaMixer.cuda_kernels_forward of huggingface/transformers @0159620
// src/transformers/models/jamba/modular_jamba.py; divided as vllm-project/vllm's MambaMixer divides it).
TensorId selectively_scanned(GraphBuilder& b, const LayerContext& c, TensorId x, TensorId gate, const Heads& heads) {
  const Recurrence& r = c.architecture.recurrence;
  const LinearOptions options{.operands = c.attention_operands()};
  const TensorId values = convolved(b, c, x);
  const TensorId shared = row_parallel_linear(b, c, "scan_in", values, r.gate_rank + 2 * r.key_dim, options);
  auto parts = split_columns(b, "split_scan_in", enter_tensor_region(b, c, "scan_shared", shared),
                             {r.gate_rank, r.key_dim, r.key_dim});
  if (r.normalized) {
    const double epsilon = c.architecture.norm_epsilon;
    const auto normal = [&](const char* name, TensorId part) {
      return r.norm_gains ? normalize(b, name, part, epsilon) : normalize_alone(b, name, part, epsilon, 1);
    };
    parts = {normal("time_step_norm", parts[0]), normal("scan_key_norm", parts[1]),
             normal("scan_query_norm", parts[2])};
  }
  const TensorId steps = column_parallel_linear(b, c, "time_step", parts[0], r.value_heads * r.value_dim, options);
  return scanned(b, c, values, {steps, gate, parts[1], parts[2]}, heads);
}

}  // namespace

TensorId recurrence(GraphBuilder& b, const LayerContext& c, TensorId x) {
  const Recurrence& r = c.architecture.recurrence;
  const Heads heads(r, c.tensor), own(r, c.tensor * (sends_heads(c) ? c.context : 1));
  const LinearOptions options{.operands = c.attention_operands(), .input_group = RecomputeGroup::rmsnorm};
  const bool whole_decays = r.gate_rank == 0 && r.channel_gates() > 0;
  const auto widths_of = [&r, whole_decays](const Heads& part) {
    std::vector<std::int64_t> widths = {part.mixed_columns};
    if (!r.scanned()) widths.push_back(part.value_columns);
    if (r.gate_rank == 0 || r.full_gate || r.selective()) widths.push_back(part.value_columns);
    if (whole_decays) widths.push_back(r.channel_gates() * part.values);
    if (r.head_gates() > 0) widths.push_back(r.head_gates() * part.values);
    return widths;
  };
  const std::vector<std::int64_t> widths = widths_of(heads);
  const TensorId projected =
      column_parallel_linear(b, c, "recurrence_in", enter_tensor_region(b, c, "recurrence_in", x, options),
                             std::reduce(widths.begin(), widths.end()) * c.tensor, options);
  const auto parts = sends_heads(c) ? split_by_context(b, c, projected, heads, widths_of(own))
                                    : split_columns(b, "split_recurrence", projected, widths);
  const auto projected_back = [&](TensorId y) {
    return row_parallel_linear(b, c, "recurrence_out", y, c.architecture.hidden_size,
                               {.operands = c.attention_operands()});
  };
  if (!r.scanned()) {
    const TensorId y = convolved(b, c, gated(b, "convolution_gate", parts[0], parts[1]));
    return projected_back(gated(b, "recurrence_gate", y, parts[2]));
  }
  if (r.selective()) return projected_back(selectively_scanned(b, c, parts[0], parts[1], heads));
  std::vector<TensorId> gates;
  TensorId output_gate = parts[1];
  if (whole_decays) gates.push_back(parts[2]);
  if (r.gate_rank > 0) {
    const std::vector<TensorId> low = low_rank_gates(b, c, x, heads);
    gates.push_back(low[0]);
    if (!r.full_gate) output_gate = low[1];
  }
  if (r.head_gates() > 0) gates.push_back(parts.back());
  const TensorId y = scanned(b, c, convolved(b, c, parts[0]), gates, own);
  return projected_back(finished(b, c, y, output_gate, own));
}

double state_bytes(const Architecture& a, std::int64_t tensor, Mixer mixer) {
  if (!recurs(mixer)) return compression_state_bytes(a, mixer);
  const Recurrence& r = a.recurrence;
  const Heads heads(r, tensor);
  return static_cast<double>(heads.values * r.key_dim * r.value_dim * r.kept_bytes()) +
         static_cast<double>(2 * std::max<std::int64_t>(0, r.convolution - 1) * heads.mixed_columns);
}

double request_state_bytes(const Architecture& a) {
  double sum = 0;
  for (std::int64_t layer = 0; layer < a.layers; ++layer) sum += state_bytes(a, 1, a.layer(layer).mixer);
  return sum;
}

}  // namespace plumbline::model
