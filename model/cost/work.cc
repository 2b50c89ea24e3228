#include "model/cost/work.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "model/cost/operator_class.h"

namespace plumbline::model {

namespace {

bool varies(const Dimension& d) { return d.extent != Extent::fixed && d.extent != Extent::tokens; }

double extent(const Dimension& d, double row_scale) {
  return static_cast<double>(d.size) * (varies(d) ? row_scale : 1);
}

GemmShape plain_gemm(const Graph& graph, const Operator& op, double row_scale) {
  const auto& attributes = std::get<MatmulAttributes>(op.attributes);
  const Tensor& a = graph.tensor(op.reads[0]);
  const Tensor& c = graph.tensor(op.writes[0]);
  const auto chunks = static_cast<double>(attributes.chunks);
  const double rows = extent(c.shape[0], row_scale), inner = extent(a.shape[attributes.transpose_a ? 0 : 1], row_scale);
  return {chunks, attributes.accumulate ? rows : rows / chunks, extent(c.shape[1], row_scale),
          attributes.accumulate ? inner / chunks : inner};
}

GemmShape grouped_gemm(const Graph& graph, const Operator& op, double row_scale) {
  const auto& attributes = std::get<MatmulAttributes>(op.attributes);
  const Tensor& a = graph.tensor(op.reads[0]);
  const Tensor& c = graph.tensor(op.writes[0]);
  if (attributes.accumulate) {  // C[e,m,n] += A[m,rows] B[n,rows]^T
    const auto experts = static_cast<double>(c.shape[0].size);
    const double rows = extent(a.shape[attributes.transpose_a ? 0 : 1], row_scale);
    return {experts, extent(c.shape[1], 1), extent(c.shape[2], 1), rows / experts};
  }
  const double experts =
      attributes.groups_hit > 0 ? attributes.groups_hit : static_cast<double>(graph.tensor(op.reads[1]).shape[0].size);
  return {experts, extent(c.shape[0], row_scale) / experts, extent(c.shape[1], 1), extent(a.shape[1], 1)};
}

GemmShape head_gemm(const Graph& graph, const Operator& op) {
  const bool of_weight = op.kind == OperatorKind::head_weight_grad;
  const auto& weight = graph.tensor(of_weight ? op.writes[0] : op.reads[1]).shape;
  const double rows = extent(graph.tensor(op.reads[0]).shape[0], 1);
  if (of_weight) return {extent(weight[0], 1), extent(weight[1], 1), extent(weight[2], 1), rows};
  if (op.kind == OperatorKind::head_matmul_grad)
    return {extent(weight[0], 1), rows, extent(weight[2], 1), extent(weight[1], 1)};
  return {extent(weight[0], 1), extent(graph.tensor(op.reads[0]).shape[0], 1), extent(weight[1], 1),
          extent(weight[2], 1)};
}

// There is one GEMM for every sequence and query head.
GemmShape batched_gemm(const Graph& graph, const Operator& op) {
  const auto& a = std::get<BatchedMatmulAttributes>(op.attributes);
  const auto sequence = static_cast<double>(a.sequence_length), dim = static_cast<double>(a.dim);
  const double sequences = static_cast<double>(graph.tensor(op.reads[0]).shape[0].size) / sequence;
  const double groups = sequences * static_cast<double>(a.query_heads);
  return a.form == BatchedForm::rows ? GemmShape{groups, sequence, sequence, dim}
                                     : GemmShape{groups, sequence, dim, sequence};
}

// Returns the keys that a query sees, on average over the sequence or the documents in it.
double keys_per_query(const AttentionAttributes& a, bool causal) {
  const auto whole = static_cast<double>(a.sequence_length);
  const double sequence = a.document_tokens > 0 ? std::min(a.document_tokens, whole) : whole;
  const auto tokens_seen = [&](std::int64_t limit) {
    const double window = limit > 0 ? std::min(sequence, static_cast<double>(limit)) : sequence;
    return causal ? window - window * window / (2 * sequence) : window;
  };
  if (a.compression == 0) return tokens_seen(a.window);
  const double entries = tokens_seen(a.chosen * a.compression) / static_cast<double>(a.compression);
  return a.window > 0 ? tokens_seen(a.window) + entries : entries;
}

// Returns the compressed entries that a query after so many tokens sees.
double entries_seen(const CachedAttentionAttributes& a, double tokens, double most) {
  if (a.compression == 0) return 0;
  const double entries = tokens / static_cast<double>(a.compression);
  return a.chosen > 0 ? std::min(entries, most) : entries;
}

// Returns the keys of tokens, and the compressed entries, that any query of a pass sees.
struct KeysOfPass {
  double tokens = 0, entries = 0;
};
KeysOfPass keys_of_pass(const CachedAttentionAttributes& a) {
  const auto queries = static_cast<double>(a.new_tokens);
  const double window = a.window > 0 ? static_cast<double>(a.window) : a.context_tokens;
  return {a.compression > 0 && a.window == 0 ? 0 : std::min(a.context_tokens, window + queries - 1),
          entries_seen(a, a.context_tokens, static_cast<double>(a.chosen) + queries - 1)};
}

}  // namespace

bool varies_with_rows(const Graph& graph, const Operator& op) {
  const auto any = [&](TensorId id) { return std::ranges::any_of(graph.tensor(id).shape, varies); };
  return std::ranges::any_of(op.reads, any) || std::ranges::any_of(op.writes, any);
}

double elements(const Tensor& tensor, double row_scale) {
  double product = 1;
  for (const Dimension& d : tensor.shape) product *= extent(d, row_scale);
  return product;
}

GemmShape gemm_shape(const Graph& graph, const Operator& op, double row_scale) {
  if (op.kind == OperatorKind::batched_matmul) return batched_gemm(graph, op);
  if (std::holds_alternative<HeadMatmulAttributes>(op.attributes)) return head_gemm(graph, op);
  return op.kind == OperatorKind::grouped_matmul ? grouped_gemm(graph, op, row_scale)
                                                 : plain_gemm(graph, op, row_scale);
}

// A rank of a context-parallel group has its part of the queries of every sequence; keys pass by, or were gathered.
AttentionWork attention_work(const Graph& graph, const Operator& op, bool causal) {
  const auto& a = std::get<AttentionAttributes>(op.attributes);
  const bool forward = op.kind == OperatorKind::attention || op.kind == OperatorKind::index_scores ||
                       op.kind == OperatorKind::compressed_attention;
  const Tensor& q = graph.tensor(op.reads[forward ? 0 : 1]);
  const Tensor& k = graph.tensor(op.reads[forward ? 1 : 2]);
  const auto rows = static_cast<double>(q.shape[0].size);
  const auto keys = static_cast<double>(a.sequence_length);
  const double sequences = a.compression > 0 ? rows / keys : static_cast<double>(k.shape[0].size * a.ring_ranks) / keys;
  const double entries = a.compression > 0 ? keys / static_cast<double>(a.compression) : 0;
  const double of_tokens = a.compression > 0 && a.window == 0 ? 0 : keys;
  const double batch_heads = sequences * static_cast<double>(a.query_heads);
  return {.batch_heads = batch_heads,
          .kv_heads_batch = sequences * static_cast<double>(a.key_value_heads),
          .queries = rows / sequences,
          .pairs_per_query = keys_per_query(a, causal),
          .qk_dim = static_cast<double>(a.query_key_dim),
          .v_dim = static_cast<double>(a.value_dim),
          .backward = !forward,
          .keys = of_tokens + entries,
          .longest = (a.window > 0 ? std::min(keys, static_cast<double>(a.window)) : of_tokens) +
                     (a.chosen > 0 ? std::min(entries, static_cast<double>(a.chosen)) : entries),
          .element_bytes = bytes_per_element(k.type)};
}

AttentionWork without_window(const Operator& op, AttentionWork work) {
  AttentionAttributes whole = std::get<AttentionAttributes>(op.attributes);
  if (whole.compression > 0) return work;  // no kernel for plain attention runs it
  whole.window = 0;
  work.pairs_per_query = keys_per_query(whole, true);
  work.longest = work.keys;
  return work;
}

CachedAttentionWork cached_attention_work(const Graph& graph, const Operator& op, bool causal) {
  const auto& a = std::get<CachedAttentionAttributes>(op.attributes);
  const auto queries = static_cast<double>(a.new_tokens);
  const double window = a.window > 0 ? static_cast<double>(a.window) : a.context_tokens;
  // Query t sees (queries - 1 - t) keys less than the last one, or the keys of a full window.
  const double first = a.context_tokens - queries + 1;
  const double full = std::clamp(a.context_tokens - window, 0.0, queries);  // queries whose window is full
  const double growing = queries - full;
  const bool of_tokens = a.compression == 0 || a.window > 0;
  const double seen = of_tokens ? (growing * (first + (growing - 1) / 2) + full * window) / queries : 0;
  const auto entries = [&](double tokens) { return entries_seen(a, tokens, static_cast<double>(a.chosen)); };
  const KeysOfPass keys = keys_of_pass(a);
  double stored = 0;
  const bool one_cache =
      op.kind == OperatorKind::cached_index_scores || a.compression > 0;  // or two of the same columns
  const std::size_t caches = one_cache ? 3 : op.reads.size();
  for (std::size_t i = 2; i < caches; ++i) {
    const Tensor& cache = graph.tensor(op.reads[i]);
    stored += static_cast<double>(cache.shape[1].size) * bytes_per_element(cache.type);
  }
  return {.requests = static_cast<double>(a.requests),
          .queries = queries,
          .query_heads = static_cast<double>(a.query_heads),
          .kv_heads = static_cast<double>(a.key_value_heads),
          .pairs_per_query = causal ? seen + entries((first + a.context_tokens) / 2)
                                    : (of_tokens ? std::min(window, a.context_tokens) : 0) + entries(a.context_tokens),
          .keys = keys.tokens + keys.entries,
          .qk_dim = static_cast<double>(a.query_key_dim),
          .v_dim = static_cast<double>(a.value_dim),
          .key_value_bytes = stored,
          .element_bytes = bytes_per_element(graph.tensor(op.reads[0]).type)};
}

namespace {

// The scores that a token has in a chunk of Q: those of tiles that the mask does not hide.
double scores_in_tiles(double Q, double tile, bool causal) { return causal ? (Q + std::min(Q, tile)) / 2 : Q; }

// By token and value head.
ScanWork chunked_delta(const Recurrence& a, double e, bool backward) {
  const auto K = static_cast<double>(a.key_dim), V = static_cast<double>(a.value_dim);
  const auto Q = static_cast<double>(a.chunk);
  if (backward)
    return {Q * (20 * K + 10 * V) + 16 * K * V + 4 * Q * Q, e * (27 * K + 15 * V + 2 * Q + 4 * K * V / Q), 11};
  return {Q * (6 * K + 4 * V) + 6 * K * V + Q * Q / 3, e * (11 * K + 6 * V + 2 * Q + 2 * K * V / Q) + 8 * Q, 8};
}

// By token and value head, as the other.
ScanWork chunked_channel_delta(const Recurrence& a, double e, bool backward, bool causal) {
  const auto K = static_cast<double>(a.key_dim), V = static_cast<double>(a.value_dim);
  const auto Q = static_cast<double>(a.chunk);
  const double P = scores_in_tiles(Q, 16, causal);
  if (backward)
    return {8 * P * K + Q * (6 * K + 10 * V) + 16 * K * V + 4 * Q * Q,
            e * (25 * K + 15 * V + 3 * Q + 4 * K * V / Q) + 68 * K + 16 * Q, 16};
  return {4 * P * K + Q * (2 * K + 4 * V) + 6 * K * V + Q * Q / 3,
          e * (15 * K + 6 * V + 17 * Q / 4 + 2 * K * V / Q) + 20 * K + 2 * Q, 9};
}

// By token and value head, as the other.
ScanWork chunked_state_space(const Recurrence& a, double e, bool backward, bool causal) {
  const auto K = static_cast<double>(a.key_dim), V = static_cast<double>(a.value_dim);
  const auto Q = static_cast<double>(a.chunk);
  const double G = static_cast<double>(a.key_heads) / static_cast<double>(a.value_heads);
  const double P = scores_in_tiles(Q, 64, causal);
  if (backward)
    return {6 * Q * K * G + 6 * P * V + 10 * K * V, e * (13 * G * K + 11 * V) + (20 + 5 * e) * K * V / Q + 24 * G * Q,
            14};
  return {2 * Q * K * G + 2 * P * V + 4 * K * V, e * (4 * G * K + 3 * V) + (8 + 2 * e) * K * V / Q + 8 * G * Q, 5};
}

// By token and value head, as the other.
ScanWork chunked_constant_decay(const Recurrence& a, double e, bool backward, bool causal) {
  const auto K = static_cast<double>(a.key_dim), V = static_cast<double>(a.value_dim);
  const auto Q = static_cast<double>(a.chunk);
  const double P = scores_in_tiles(Q, 64, causal);
  if (backward) return {6 * P * (K + V) + 8 * K * V, e * (10 * K + 10 * V) + 20 * K * V / Q, 5};
  return {2 * P * (K + V) + 4 * K * V, e * (8 * K + 9 * V) + 16 * K * V / Q, 8};
}

// By token and channel.
ScanWork selective_scan(const Recurrence& a, double e, bool backward) {
  const auto N = static_cast<double>(a.key_dim), Q = static_cast<double>(a.chunk);
  const double G = static_cast<double>(a.key_heads) / static_cast<double>(a.value_heads);
  if (backward) return {36 * N, 16 * e + G * N * (4 * e + 32) + 8 * N / Q, 9};
  return {11 * N, 13 * e + 6 * e * G * N + 8 * N / Q, 7};
}

}  // namespace

ScanWork chunked_scan_work(const Recurrence& a, double e, bool backward, bool causal) {
  switch (a.kind) {
    case RecurrenceKind::gated_delta:
      return chunked_delta(a, e, backward);
    case RecurrenceKind::channel_delta:
      return chunked_channel_delta(a, e, backward, causal);
    case RecurrenceKind::constant_decay:
      return chunked_constant_decay(a, e, backward, causal);
    case RecurrenceKind::selective_scan:
      return selective_scan(a, e, backward);
    case RecurrenceKind::short_convolution:  // has no scan
    case RecurrenceKind::state_space:
      break;
  }
  return chunked_state_space(a, e, backward, causal);
}

double scan_norm_bytes(const Recurrence& recurrence, double element_bytes, bool backward) {
  const double passes = backward ? 3 : 2;  // each of queries and keys: read and written; with their gradients
  return recurrence.delta() ? 2 * passes * element_bytes * static_cast<double>(recurrence.key_dim) : 0;
}

double waiting_chunks(const Recurrence& recurrence, double sequences, double sequence_length, double sms) {
  if (!recurrence.delta()) return 0;
  constexpr double columns = 64;  // of values, that a block has
  const double values = std::ceil(static_cast<double>(recurrence.value_dim) / columns);
  const double blocks = sequences * static_cast<double>(recurrence.value_heads) * values;
  return sequence_length / static_cast<double>(recurrence.chunk) * std::max(0.0, 1 - blocks / sms);
}

ScanWork scan_work(const Graph& graph, const Operator& op, bool causal) {
  const auto& a = std::get<ScanAttributes>(op.attributes);
  const bool backward = op.kind == OperatorKind::scan_grad || op.kind == OperatorKind::scan_state_grad;
  const Tensor& mixed = graph.tensor(op.reads[backward ? 1 : 0]);
  const auto rows = static_cast<double>(mixed.shape[0].size) * static_cast<double>(a.value_heads);
  const double state = static_cast<double>(a.key_dim * a.value_dim);
  double states = 0, operands = 0;  // bytes
  for (const auto* tensors : {&op.reads, &op.writes})
    for (const TensorId id : *tensors) {
      const bool step = op.kind == OperatorKind::scan_step && tensors == &op.writes;
      if (graph.tensor(id).role == Role::cache)
        states += graph.tensor(id).bytes().value() * (step ? static_cast<double>(a.sequence_length) : 1);
      else
        operands += graph.tensor(id).bytes().value();
    }
  if (op.kind == OperatorKind::scan_state || op.kind == OperatorKind::scan_state_grad) {  // one product of two operands
    const double read = bytes_per_element(mixed.type) * static_cast<double>(a.key_dim + a.value_dim);
    return {2 * rows * state, rows * read + graph.tensor(op.writes[0]).bytes().value(), 1};
  }
  if (op.kind == OperatorKind::scan_step) {
    const auto decays = static_cast<double>(a.channel_gates());
    const double of_entry = a.selective() ? 8 : a.delta() ? 6 : 4;
    return {rows * state * of_entry, operands + states + 8 * rows * decays, decays > 0 ? 2 : 1};
  }
  const ScanWork one = chunked_scan_work(a, bytes_per_element(mixed.type), backward, causal);
  return {rows * one.flops, rows * one.bytes + states, one.kernels};
}

Flops flops(const Graph& graph, const Operator& op, double row_scale, bool causal) {
  const OperatorClass type = class_of(op.kind);
  if (type == OperatorClass::scan) return Flops(scan_work(graph, op, causal).flops);
  if (is_gemm(type)) {
    const GemmShape p = gemm_shape(graph, op, row_scale);
    return Flops(2 * p.groups * p.m * p.n * p.k);
  }
  if (type == OperatorClass::cached_attention)
    return Flops(cached_attention_flops(cached_attention_work(graph, op, causal)));
  if (type != OperatorClass::attention) return Flops(0);
  const AttentionWork work = attention_work(graph, op, causal);
  const double per_pair = 2 * (work.backward ? 3 * work.qk_dim + 2 * work.v_dim : work.qk_dim + work.v_dim);
  const double pairs = work.batch_heads * work.queries * work.pairs_per_query;
  return Flops(pairs * per_pair);
}

namespace {

// Only some rows of a table are accessed: those of the micro-batch's tokens, or of one sequence's positions for any
// number of sequences. They are read, and also written where they are a gradient. Token ids are not counted.
Bytes table_bytes(const Graph& graph, const Operator& op) {
  const bool forward = graph.tensor(op.writes[0]).role != Role::gradient;
  const Tensor& x = graph.tensor(forward ? op.writes[0] : op.reads[0]);
  const Tensor& table = graph.tensor(forward ? op.reads[1] : op.writes[0]);
  const auto* positions = std::get_if<PositionAttributes>(&op.attributes);
  const std::int64_t rows = positions != nullptr ? positions->sequence_length : x.shape[0].size;
  const double touched = static_cast<double>(rows * x.shape[1].size) * bytes_per_element(table.type);
  const double passes = forward && positions != nullptr ? 2 : 1;  // positions are added to the input
  return x.bytes() * passes + Bytes(forward ? touched : 2 * touched);
}

// Returns the bytes of a cache that an operator reads or writes.
double cache_bytes(const Graph& graph, const Operator& op, const Tensor& cache) {
  const double row = static_cast<double>(cache.shape[1].size) * bytes_per_element(cache.type);
  const auto of_rows = [&](TensorId rows) {
    return std::min(cache.bytes().value(), row * static_cast<double>(graph.tensor(rows).shape[0].size));
  };
  if (op.kind == OperatorKind::append_cache) return of_rows(op.reads[1]);
  // A token's projections are written when it comes and read when its block ends, by half of the columns twice where
  // blocks overlap.
  if (op.kind == OperatorKind::compress_tokens) return of_rows(op.reads[0]);
  const bool compressed = op.kind == OperatorKind::cached_compressed_attention;
  if (op.kind != OperatorKind::cached_attention && !compressed) return cache.bytes().value();
  const auto& attributes = std::get<CachedAttentionAttributes>(op.attributes);
  const KeysOfPass keys = keys_of_pass(attributes);
  const bool of_entries = compressed && &cache == &graph.tensor(op.reads[3]);
  return static_cast<double>(attributes.requests) * (of_entries ? keys.entries : keys.tokens) * row;
}

// Returns the share of a grouped GEMM's weights that is read.
double weights_hit(const Operator& op, const Tensor& tensor) {
  const auto* matmul = std::get_if<MatmulAttributes>(&op.attributes);
  const bool weight = matmul != nullptr && matmul->groups_hit > 0 && tensor.role == Role::parameter;
  return weight ? matmul->groups_hit / static_cast<double>(tensor.shape[0].size) : 1;
}

}  // namespace

Bytes bytes_moved(const Graph& graph, const Operator& op, double row_scale) {
  double total = 0;
  if (class_of(op.kind) == OperatorClass::embedding) return table_bytes(graph, op);
  if (class_of(op.kind) == OperatorClass::scan) return Bytes(scan_work(graph, op, true).bytes);
  for (TensorId id : op.reads) {
    const Tensor& t = graph.tensor(id);
    total += t.role == Role::cache ? cache_bytes(graph, op, t)
                                   : elements(t, row_scale) * bytes_per_element(t.type) * weights_hit(op, t);
  }
  const auto* cast = std::get_if<CastAttributes>(&op.attributes);
  const auto* matmul = std::get_if<MatmulAttributes>(&op.attributes);
  if (cast != nullptr && cast->finds_scale) total *= 2;
  for (TensorId id : op.writes) {
    const Tensor& t = graph.tensor(id);
    const double chunks = matmul == nullptr ? 1 : static_cast<double>(matmul->chunks);
    const double passes = t.role == Role::gradient ? 2 * chunks : 1;
    total +=
        t.role == Role::cache ? cache_bytes(graph, op, t) : passes * elements(t, row_scale) * bytes_per_element(t.type);
  }
  return Bytes(total);
}

}  // namespace plumbline::model
