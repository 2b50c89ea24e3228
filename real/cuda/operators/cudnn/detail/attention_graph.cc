#include "real/cuda/operators/cudnn/detail/attention_graph.h"

namespace plumbline::real::cuda {
namespace {

using Tensor = CudnnGraph::Tensor;
using enum AttentionTensor;

constexpr std::int64_t row_axis = 2, column_axis = 3;

class AttentionTensors {
 public:
  AttentionTensors(CudnnGraph& graph, const AttentionShape& shape)
      : scores{shape.sequences, shape.query_heads, shape.length, shape.length},
        per_query{shape.sequences, shape.query_heads, shape.length, 1},
        type(shape.format == Format::fp16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16),
        graph_(graph),
        shape_(shape) {}

  // Adds one of the call's tensors, [tokens, heads * dim].
  Tensor tokens(AttentionTensor which, std::int64_t heads, std::int64_t dim) const {
    return graph_.tensor({{shape_.sequences, heads, shape_.length, dim}, strides(heads, dim), type, id(which)});
  }
  // Adds it with rows and columns transposed.
  Tensor transposed(AttentionTensor which, std::int64_t heads, std::int64_t dim) const {
    const Extents s = strides(heads, dim);
    return graph_.tensor({{shape_.sequences, heads, dim, shape_.length}, {s[0], s[1], s[3], s[2]}, type, id(which)});
  }
  Tensor log_sum_exps() const {
    return graph_.tensor({per_query, strides(shape_.query_heads, 1), CUDNN_DATA_FLOAT, id(log_sum_exp)});
  }
  // Adds the transposed scores, with keys as rows.
  Tensor transposed_scores() const {
    const Extents s = dense_strides(scores);
    return graph_.tensor({{scores[0], scores[1], scores[3], scores[2]}, {s[0], s[1], s[3], s[2]}, type});
  }
  Tensor number(AttentionTensor which) const { return graph_.number(id(which)); }
  static std::int64_t id(AttentionTensor which) { return static_cast<std::int64_t>(which); }

  // Adds q k^T / sqrt(dk), with the lowest number where a query does not see a key.
  Tensor masked_scores(Tensor queries, Tensor transposed_keys, Tensor factor) const {
    const Tensor raw = graph_.inner(scores), scaled = graph_.inner(scores), masked = graph_.inner(scores);
    const Tensor rows = graph_.inner(scores, CUDNN_DATA_INT32), columns = graph_.inner(scores, CUDNN_DATA_INT32);
    const Tensor seen = graph_.inner(scores, CUDNN_DATA_BOOLEAN);
    graph_.matmul(queries, transposed_keys, raw);
    graph_.pointwise(CUDNN_POINTWISE_MUL, raw, factor, scaled);
    graph_.index(scaled, row_axis, rows);
    graph_.index(scaled, column_axis, columns);
    graph_.at_least(rows, columns, seen);
    graph_.select(scaled, number(lowest), seen, masked);
    return masked;
  }

  const Extents scores, per_query;
  const cudnnDataType_t type;

 private:
  Extents strides(std::int64_t heads, std::int64_t dim) const {
    return {shape_.length * heads * dim, dim, heads * dim, 1};
  }

  CudnnGraph& graph_;
  const AttentionShape& shape_;
};

// to = transposed * x, summed over the query heads that share a key-value head.
void gradient_of_shared(CudnnGraph& graph, const AttentionTensors& tensors, const AttentionShape& s, Tensor transposed,
                        Tensor x, std::int64_t dim, Tensor to) {
  if (s.query_heads == s.key_value_heads) return graph.matmul(transposed, x, to);
  const Tensor of_query_heads = graph.inner({s.sequences, s.query_heads, s.length, dim}, tensors.type);
  graph.matmul(transposed, x, of_query_heads);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, of_query_heads, to);
}

}  // namespace

void describe_forward(CudnnGraph& graph, const AttentionShape& s) {
  const AttentionTensors tensors(graph, s);
  const Extents &scores = tensors.scores, &per_query = tensors.per_query;
  const Tensor queries = tensors.tokens(q, s.query_heads, s.query_key_dim);
  const Tensor keys = tensors.transposed(k, s.key_value_heads, s.query_key_dim);
  const Tensor values = tensors.tokens(v, s.key_value_heads, s.value_dim);
  const Tensor masked = tensors.masked_scores(queries, keys, tensors.number(scale));
  const Tensor largest = graph.inner(per_query), sum = graph.inner(per_query), logarithm = graph.inner(per_query);
  const Tensor relative = graph.inner(scores), exponentials = graph.inner(scores);
  const Tensor probabilities = graph.inner(scores, tensors.type);
  graph.reduce(CUDNN_REDUCE_TENSOR_MAX, masked, largest);
  graph.pointwise(CUDNN_POINTWISE_SUB, masked, largest, relative);
  graph.pointwise(CUDNN_POINTWISE_EXP, relative, nullptr, exponentials);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials, sum);
  graph.pointwise(CUDNN_POINTWISE_LOG, sum, nullptr, logarithm);
  graph.pointwise(CUDNN_POINTWISE_ADD, largest, logarithm, tensors.log_sum_exps());
  graph.pointwise(CUDNN_POINTWISE_DIV, exponentials, sum, probabilities);
  graph.matmul(probabilities, values, tensors.tokens(o, s.query_heads, s.value_dim));
}

void describe_backward(CudnnGraph& graph, const AttentionShape& s) {
  const AttentionTensors tensors(graph, s);
  const Extents &scores = tensors.scores, &per_query = tensors.per_query;
  const Extents of_outputs{s.sequences, s.query_heads, s.length, s.value_dim};
  const Extents of_queries{s.sequences, s.query_heads, s.length, s.query_key_dim};
  const Tensor queries = tensors.tokens(q, s.query_heads, s.query_key_dim);
  const Tensor transposed_keys = tensors.transposed(k, s.key_value_heads, s.query_key_dim);
  const Tensor transposed_values = tensors.transposed(v, s.key_value_heads, s.value_dim);
  const Tensor outputs = tensors.tokens(o, s.query_heads, s.value_dim);
  const Tensor d_outputs = tensors.tokens(d_o, s.query_heads, s.value_dim);
  const Tensor factor = tensors.number(scale), unit = tensors.number(one);

  // do . o of every query. The factor of one takes the place of dropout, which the library's pattern requires.
  const Tensor weighted = graph.inner(of_outputs), sums = graph.inner(per_query), inner = graph.inner(per_query);
  graph.pointwise(CUDNN_POINTWISE_MUL, d_outputs, outputs, weighted);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, weighted, sums);
  graph.pointwise(CUDNN_POINTWISE_MUL, sums, unit, inner);

  // The probabilities, recomputed, and dv = p^T do.
  const Tensor masked = tensors.masked_scores(queries, transposed_keys, factor);
  const Tensor relative = graph.inner(scores), p = graph.inner(scores), transposed_p = tensors.transposed_scores();
  graph.pointwise(CUDNN_POINTWISE_SUB, masked, tensors.log_sum_exps(), relative);
  graph.pointwise(CUDNN_POINTWISE_EXP, relative, nullptr, p);
  graph.reshape(p, transposed_p);
  gradient_of_shared(graph, tensors, s, transposed_p, d_outputs, s.value_dim,
                     tensors.tokens(dv, s.key_value_heads, s.value_dim));

  // ds = p (do v^T - do . o) / sqrt(dk).
  const Tensor dp = graph.inner(scores), kept = graph.inner(scores), centered = graph.inner(scores);
  const Tensor weighted_dp = graph.inner(scores), ds = graph.inner(scores, tensors.type);
  graph.matmul(d_outputs, transposed_values, dp);
  graph.pointwise(CUDNN_POINTWISE_MUL, dp, unit, kept);
  graph.pointwise(CUDNN_POINTWISE_SUB, kept, inner, centered);
  graph.pointwise(CUDNN_POINTWISE_MUL, centered, p, weighted_dp);
  graph.pointwise(CUDNN_POINTWISE_MUL, weighted_dp, factor, ds);

  // dk = ds^T q, dq = ds k.
  const Tensor transposed_ds = tensors.transposed_scores();
  graph.reshape(ds, transposed_ds);
  gradient_of_shared(graph, tensors, s, transposed_ds, queries, s.query_key_dim,
                     tensors.tokens(dk, s.key_value_heads, s.query_key_dim));
  const Extents strides{s.length * s.key_value_heads * s.query_key_dim, s.query_key_dim,
                        s.key_value_heads * s.query_key_dim, 1};
  const Tensor keys =
      graph.tensor({{s.sequences, s.key_value_heads, s.length, s.query_key_dim}, strides, tensors.type});
  const Tensor sum = graph.tensor(
      {of_queries, dense_strides(of_queries), CUDNN_DATA_FLOAT, AttentionTensors::id(dq_sum), false, true});
  graph.reshape(transposed_keys, keys);
  graph.matmul(ds, keys, sum);
  graph.pointwise(CUDNN_POINTWISE_IDENTITY, sum, nullptr, tensors.tokens(dq, s.query_heads, s.query_key_dim));
}

}  // namespace plumbline::real::cuda
