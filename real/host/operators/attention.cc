#include <cassert>

#include "real/host/operators/gemm.h"
#include "real/host/operators/heads.h"
#include "real/host/operators/operators.h"

namespace plumbline::real::host {
namespace {

// The number of queries that are processed at a time: a multiple of the GEMM's innermost tile, and few enough that
// their scores against 4096 keys, 1 MiB, stay in a second-level cache (assumed).
constexpr Index block_queries = 64;

float scale_of(const model::AttentionAttributes& a) { return 1 / std::sqrt(static_cast<float>(a.query_key_dim)); }

// Queries first .. first + count - 1 of a sequence, and the keys that they attend to, from `low` to the last query.
struct Block {
  Index first, count, low;
  Index keys() const { return first + count - low; }
};

template <class Body>
void for_blocks(const model::AttentionAttributes& a, const Body& body) {
  const Visibility seen(a);
  for (Index first = 0; first < a.sequence_length; first += block_queries)
    body(Block{first, std::min(block_queries, a.sequence_length - first), seen.first_key(first)});
}

// The position of one query head of one sequence.
struct Head {
  const model::AttentionAttributes& a;
  Index number, from;  // of the query head; first token

  Index shared() const { return number / (a.query_heads / a.key_value_heads); }
  auto queries(auto& q, const Block& b) const {
    return part(q, from + b.first, number * a.query_key_dim, b.count, a.query_key_dim);
  }
  auto outputs(auto& o, const Block& b) const {
    return part(o, from + b.first, number * a.value_dim, b.count, a.value_dim);
  }
  auto keys(auto& k, const Block& b) const {
    return part(k, from + b.low, shared() * a.query_key_dim, b.keys(), a.query_key_dim);
  }
  auto values(auto& v, const Block& b) const {
    return part(v, from + b.low, shared() * a.value_dim, b.keys(), a.value_dim);
  }
};

// Calls body(query, its visible scores) for each row of a block's scores, [count, keys], and sets the others to 0.
template <class Body>
void for_queries(const model::AttentionAttributes& a, Index head, const Block& b, float* scores, const Body& body) {
  const Visibility seen(a);
  for (Index i = 0; i < b.count; ++i) {
    float* const line = scores + i * b.keys();
    const Index from = seen.first_key(b.first + i) - b.low, to = b.first + i + 1 - b.low;
    const ArrayMap visible(line + from, to - from);
    seen.add_bias(head, visible);
    body(i, visible);
    std::fill(line, line + from, 0.0F);
    std::fill(line + to, line + b.keys(), 0.0F);
  }
}

Part scores_of(float* memory, const Block& b) { return {memory, b.count, b.keys(), Eigen::OuterStride<>(b.keys())}; }
ConstPart as_const(const Part& p) { return {p.data(), p.rows(), p.cols(), Eigen::OuterStride<>(p.outerStride())}; }

Index sequences(const model::AttentionAttributes& a, const HostBuffer& q) { return q.rows() / a.sequence_length; }

void forward(const Call& call, const Head& head) {
  const model::AttentionAttributes& a = head.a;
  HostBuffer &out = call.out(0), &log_sum_exp = call.out(1);
  float* const memory = scratch<Scratch::scores>(block_queries * a.sequence_length);
  for_blocks(a, [&](const Block& b) {
    Part scores = scores_of(memory, b);
    multiply({head.queries(call.in(0), b)}, {head.keys(call.in(1), b), true}, scores, {.scale = scale_of(a)});
    for_queries(a, head.number, b, memory, [&](Index i, ArrayMap visible) {
      const Exponentials found = exponentiate(visible);
      visible /= found.sum;
      row(log_sum_exp, head.from + b.first + i)(head.number) = found.largest + std::log(found.sum);
    });
    multiply({as_const(scores)}, {head.values(call.in(2), b)}, head.outputs(out, b));
  });
}

// Computes, with p the probabilities: dv = p^T do, ds = p (do v^T - do . o), dq = ds k, dk = ds^T q.
void backward(const Call& call, const Head& head) {
  const model::AttentionAttributes& a = head.a;
  const HostBuffer &d_out = call.in(0), &q = call.in(1), &k = call.in(2), &v = call.in(3), &out = call.in(4);
  HostBuffer &dq = call.out(0), &dk = call.out(1), &dv = call.out(2);
  const HostBuffer& log_sum_exp = call.in(5);
  const Index floats = block_queries * a.sequence_length;
  float* const p_memory = scratch<Scratch::scores>(floats);
  float* const d_memory = scratch<Scratch::score_gradients>(floats);
  for_blocks(a, [&](const Block& b) {
    Part p = scores_of(p_memory, b), d_scores = scores_of(d_memory, b);
    const ConstPart d_block = head.outputs(d_out, b), o_block = head.outputs(out, b);
    multiply({head.queries(q, b)}, {head.keys(k, b), true}, p, {.scale = scale_of(a)});
    multiply({d_block}, {head.values(v, b), true}, d_scores);
    for_queries(a, head.number, b, p_memory, [&](Index i, ArrayMap visible) {
      visible = (visible - row(log_sum_exp, head.from + b.first + i)(head.number)).exp();
    });
    for (Index i = 0; i < b.count; ++i) {
      const float inner = d_block.row(i).dot(o_block.row(i));
      d_scores.row(i).array() = scale_of(a) * p.row(i).array() * (d_scores.row(i).array() - inner);
    }
    multiply({as_const(d_scores)}, {head.keys(k, b)}, head.queries(dq, b));
    multiply({as_const(d_scores), true}, {head.queries(q, b)}, head.keys(dk, b), {.accumulate = true});
    multiply({as_const(p), true}, {d_block}, head.values(dv, b), {.accumulate = true});
  });
}

}  // namespace

void attention(const Call& call) {
  const auto& a = call.attributes<model::AttentionAttributes>();
  assert(a.dropout == 0 && a.ring_ranks == 1 && call.in(0).rows() == call.in(1).rows() &&
         "dropout and sequences divided over ranks are not for the host");
  const Index work = a.sequence_length * a.sequence_length;
  each_row(call, sequences(a, call.in(0)) * a.query_heads, work, [&](Index i) {
    forward(call, {a, i % a.query_heads, i / a.query_heads * a.sequence_length});
  });
}

// One core processes all query heads of a key-value head, because they add to the same gradients.
void attention_grad(const Call& call) {
  const auto& a = call.attributes<model::AttentionAttributes>();
  const Index group = a.query_heads / a.key_value_heads;
  call.out(1).matrix().setZero();
  call.out(2).matrix().setZero();
  const Index work = a.sequence_length * a.sequence_length * group;
  split(call, sequences(a, call.in(1)) * a.key_value_heads, work, [&](Index begin, Index end) {
    for (Index i = begin * group; i < end * group; ++i)
      backward(call, {a, i % a.query_heads, i / a.query_heads * a.sequence_length});
  });
}

}  // namespace plumbline::real::host
