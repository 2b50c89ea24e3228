// The inputs from which a layer emits its operators for one rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "model/architecture/architecture.h"
#include "model/base/bytes.h"
#include "model/base/data_type.h"
#include "model/graph/recompute.h"

namespace plumbline::model {

// How the operands of a GEMM are formatted. delayed_scaling and row_scaling mean something for fp8_tensor only.
struct OperandFormat {
  Precision precision = Precision::bf16;
  bool delayed_scaling = false, weights_cast_once = false;
  std::optional<DataType> stored;  // weights of inference, which no kernel casts; default: those of training
  bool quantized_weights = false;  // of training, which the optimizer writes in the format of the operands
  std::int64_t adapter_rank = 0;   // of the adapter next to the GEMM; 0: it has none
  bool nf4_weights = false;        // frozen weights, which a kernel writes in 16 bits before each GEMM
  bool one_layout = false;         // GEMMs read operands along either direction, so that none is transposed
  bool row_scaling = false;        // a scale for each row, so that the other direction is another cast of 16 bits

  DataType weight() const {
    if (stored) return *stored;
    if (nf4_weights) return DataType::nf4;
    return quantized_weights ? activation_type(precision) : weight_type(precision);
  }
  // Returns whether one kernel reads 16 bits once and writes them in blocks along either direction
  // (NVIDIA/TransformerEngine @006b3360 transformer_engine/common, MXFP8's ScalingType::BIDIMENSIONAL).
  bool casts_both_layouts() const { return precision == Precision::mxfp8; }
  // Returns how many copies of a weight are made once a step: it is stored in one of the layouts that GEMMs read, or in
  // none.
  std::uint8_t copies() const {
    if (!weights_cast_once) return 0;
    return static_cast<std::uint8_t>((one_layout ? 1 : 2) - (quantized_weights ? 1 : 0));
  }
};

// How queries reach the keys and values of other context ranks: these pass around a ring during attention, are gathered
// before it, or each rank has the whole sequence for its share of the heads (arXiv 2309.14509), as most layers with a
// recurrence have whatever attention does (model/layers/recurrence.h).
enum class ContextMethod : std::uint8_t { ring, all_gather, all_to_all };

// What is trained next to frozen parameters: y = x W^T + (x A^T) B^T with A[rank, in] and B[out, rank] (LoRA, arXiv
// 2106.09685), for each matrix that a checkpoint has, so that a GEMM of several has several.
struct Adapters {
  std::int64_t rank = 0;                                 // 0: there are none, and all parameters are trained
  bool attention = false, mlp = false, experts = false;  // the linear layers that have one; mlp: shared experts too
  bool nf4 = false;  // the frozen weights of linear layers are stored in NF4 (QLoRA, arXiv 2305.14314)

  auto operator<=>(const Adapters&) const = default;
};

// A pass of inference over the requests of a rank. Blocks of such a pass have no phases I and W.
struct InferencePass {
  enum class Kind : std::uint8_t { none, prefill, decode };
  Kind kind = Kind::none;
  std::int64_t requests = 0;    // LayerContext::tokens = requests * new_tokens
  std::int64_t new_tokens = 1;  // of each: its prompt or a chunk of it; in decode 1 and the speculated ones
  double cached_tokens = 0;     // of each before the pass, on average
  std::string cache = "bf16";   // format of keys and values, as inference.kv_cache
  bool masked_experts = false;  // rows of experts are padded in place, as low-latency kernels deliver them
  // All ranks of a tensor group have the same tokens, of which each computes what its experts, or their columns, add;
  // an all-reduce replaces dispatch and combine. Else each rank's tokens are its own.
  bool shared_tokens = false;
  bool weights_only = false;    // GEMMs of quantized weights read activations in 16 bits
  double expert_skew = 0;       // deviation over the mean of the load of one expert
  std::int64_t cache_rows = 0;  // of a request in its caches; 0: those of the tokens that are seen after the pass
  bool last_token = false;      // decode, too, finds the token after the last new one of each request only

  explicit operator bool() const { return kind != Kind::none; }
};

struct LayerContext {
  Architecture architecture;
  Precision gemm = Precision::bf16;
  std::optional<Precision> experts;           // of their GEMMs in training; default: gemm
  std::optional<Precision> attention_format;  // of attention's GEMMs in training; default: as they are
  Precision dispatch = Precision::bf16;
  Precision combine = Precision::bf16;
  DataType gradients = DataType::fp32;  // format of parameter gradients
  RecomputePolicy recompute;
  AttentionKernel attention = AttentionKernel::fused;
  bool delayed_scaling = false;    // fp8_tensor takes its scales from earlier steps, so producers can write FP8
  bool row_scaling = false;        // each row of an operand of fp8_tensor has a scale
  bool weights_cast_once = false;  // a step, where GEMMs read another format than is stored; else where they are used
  bool quantized_weights = false;  // parameters of quantized GEMMs are stored in their format
  bool one_layout = false;         // GEMMs of fp8_tensor read operands along either direction
  bool quantized_head = false;     // the output projection of training is one
  bool fused_loss = true;          // from 16-bit logits; else from FP32 copies, with log-probabilities stored
  bool loss_in_place = false;      // log-probabilities and gradients overwrite what they are computed from
  bool loss_in_head = false;       // the head's GEMM computes it, and runs again for its gradient: no logits in memory
  std::int64_t loss_chunks = 1;    // of tokens, whose head and loss run one after another
  bool fused_experts = false;      // GEMMs of experts have their activation, biases and casts in their kernels
  // The attention of each layer is part of a CUDA graph, which reads and writes buffers of its own: the input of the
  // layer is copied to one, and so are the gradients of what the graph computes. With the router in it too, those are
  // of its tokens and of what is added to the experts' results, the stream and shared experts that do not overlap with
  // dispatch; else of the stream after attention.
  bool captured_parts = false, captured_router = false;
  std::int64_t tokens = 0;           // tokens of one micro-batch on one rank
  std::int64_t sequence_length = 0;  // tokens
  std::int64_t tensor = 1;           // ranks that share heads and columns
  bool sequence = false;             // those ranks also share the tokens outside of tensor regions
  std::int64_t context = 1;          // ranks that share each sequence
  ContextMethod context_method = ContextMethod::ring;
  std::int64_t expert_parallel = 1;
  std::int64_t expert_tensor = 1;       // ranks that share the columns of an expert
  std::int64_t groups_per_token = 1;    // expert groups a token may reach
  bool shares_embedding = true;         // the last stage's rank also holds the embedding
  bool prediction_apart = false;        // the prediction modules lie on another stage than the head
  double distinct_ranks_per_token = 1;  // expected; determines the tokens that a rank receives
  Dispatcher dispatcher = Dispatcher::deepep;
  std::optional<bool> dispatch_overlap;  // default: that of the dispatcher
  double kept_rows = 1;    // of an expert's rows: those within its capacity, or its capacity where it is filled up
  bool even_rows = false;  // every expert has as many rows as its capacity
  std::int64_t redundant_experts = 0;  // copies of experts on all ranks of a group together
  double document_tokens = 0;          // mean tokens of a token's document; 0: the sequence
  InferencePass inference;             // none: training
  Adapters adapters;                   // of training
  bool reference = false;              // of training: the forward pass of a model that nothing changes

  OperandFormat operands() const {
    if (inference) return {activation_precision(), false, false, stored_weight(gemm)};
    return adapted_operands(gemm, adapters.mlp);
  }
  OperandFormat expert_operands() const { return adapted_operands(experts.value_or(gemm), adapters.experts); }
  OperandFormat adapted_operands(Precision precision, bool has_adapter) const {
    OperandFormat format = training_operands(precision);
    if (has_adapter) format.adapter_rank = adapters.rank;
    format.nf4_weights = adapters.nf4;
    return format;
  }
  // The operands of projections that no adapter stands next to.
  OperandFormat plain_operands() const { return inference ? operands() : adapted_operands(gemm, false); }
  // FP8 weights in blocks of 128 x 128 (weight_type) are read in both directions. Of other quantized ones a transposed
  // copy is kept, but where one scale belongs to all of a tensor and GEMMs read it in either direction.
  OperandFormat training_operands(Precision precision) const {
    const bool cast = is_quantized(precision) && !is_quantized(weight_type(precision));
    const bool delayed = precision == Precision::fp8_tensor && delayed_scaling;
    OperandFormat format{precision, delayed, cast && weights_cast_once, {}, cast && quantized_weights};
    format.row_scaling = row_scaling && precision == Precision::fp8_tensor;
    format.one_layout = one_layout && precision == Precision::fp8_tensor && !row_scaling;
    return format;
  }
  // The operands of the output projection in training, whose weight is stored as the embedding's.
  OperandFormat head_operands() const {
    OperandFormat format = quantized_head ? training_operands(gemm) : OperandFormat{unscaled_gemm()};
    format.quantized_weights = false;
    return format;
  }
  // The operands of projections of attention: checkpoints of experts in 4 bits (openai/gpt-oss-120b,
  // nvidia/DeepSeek-R1-FP4) keep them in 16.
  OperandFormat attention_operands() const {
    const bool kept =
        inference && architecture.experts.routed_experts > 0 && bytes_per_element(stored_weight(gemm)) < 1;
    if (!inference) return adapted_operands(gemm, adapters.attention);
    return kept ? OperandFormat{unscaled_gemm()} : operands();
  }
  // The format of activations in GEMMs of a pass of inference.
  Precision activation_precision() const { return inference.weights_only ? unscaled_gemm() : gemm; }
  // The format in which a norm writes the input of GEMMs that alone read it. Adapters read 16 bits.
  DataType norm_output() const {
    return operands().delayed_scaling && adapters.rank == 0 ? activation_type(gemm) : stream_type();
  }
  bool fused_attention() const { return attention != AttentionKernel::unfused; }
  // The format of head, router and residual stream: BF16 under quantized GEMMs, else the plan's.
  Precision unscaled_gemm() const { return is_quantized(gemm) ? Precision::bf16 : gemm; }
  DataType stream_type() const { return activation_type(unscaled_gemm()); }
  std::int64_t experts_per_rank() const {
    return (architecture.experts.routed_experts + redundant_experts) / expert_parallel;
  }
  std::int64_t expert_columns() const { return architecture.experts.intermediate_size / expert_tensor; }
  // Returns the tokens of a micro-batch that a rank holds outside of tensor-parallel regions. Batches of inference need
  // not divide.
  std::int64_t stream_tokens() const { return sequence ? (tokens + (inference ? tensor - 1 : 0)) / tensor : tokens; }
  // Returns the consecutive tokens of one sequence: those of a pass of inference are its new ones.
  std::int64_t sequence_tokens() const { return inference ? inference.new_tokens : sequence_length; }
  // Returns whether experts read the rank's own tokens, without dispatch and combine.
  bool shares_tokens() const { return inference && (inference.shared_tokens || expert_parallel * expert_tensor == 1); }
  CollectiveAttributes tensor_group() const { return {tensor, 1}; }
  CollectiveAttributes context_group() const { return {context, tensor}; }
  CollectiveAttributes expert_tensor_group() const {
    return {expert_tensor, 1, dispatcher == Dispatcher::alltoall && !even_rows};
  }
  std::int64_t received_tokens() const;  // expected rows that dispatch brings: distinct tokens, or copies (alltoall)
  // Returns whether dispatch and combine run in the order of the kernels around them, so that none overlaps with them.
  bool in_order() const { return !dispatch_overlap.value_or(!is_collective(dispatcher)); }
  std::int64_t copied_rows() const;  // expected (token, expert) rows of a rank's own tokens
  std::int64_t expert_rows() const;  // expected (token, expert) rows of a rank's experts
  LayerContext undivided() const;    // the same with undivided parameters
  // Returns the tokens of a pass of inference that choose among the experts of the group.
  std::int64_t choosing_tokens() const {
    return shares_tokens() ? tokens : stream_tokens() * expert_parallel * expert_tensor;
  }
  // Returns how many of a rank's experts have rows in a pass of inference, expected for tokens that choose
  // independently: without a skew E (1 - (1 - k / n)^T) of E experts on the rank and n on all, for the T tokens of the
  // group.
  double experts_hit() const;
};

// Calls visit(field) for every field but the architecture.
template <class Visitor>
void visit_context(const LayerContext& context, const Visitor& visit) {
  with_members(context, [&visit](const Architecture&, const auto&... fields) { (visit(fields), ...); });
}

}  // namespace plumbline::model
