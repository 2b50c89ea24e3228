#include "real/host/operators/gemm.h"
#include "real/host/operators/heads.h"
#include "real/host/operators/operators.h"

namespace plumbline::real::host {
namespace {

// Computes one GEMM of one query head of one sequence; scores are stored head by head, over a sequence's keys each.
void gemm_of_head(const Call& call, Index head, Index from) {
  const auto& a = call.attributes<model::BatchedMatmulAttributes>();
  const HostBuffer &left = call.in(0), &right = call.in(1);
  HostBuffer& out = call.out(0);
  const Index group = a.query_heads / a.key_value_heads, length = a.sequence_length;
  const Index own = head * a.dim, shared = head / group * a.dim;
  const auto scores = [&](auto& buffer) { return part(buffer, from, head * length, length, length); };
  const auto rows = [&](auto& buffer, Index column) { return part(buffer, from, column, length, a.dim); };
  Gemm gemm{.scale = static_cast<float>(a.scale), .accumulation = call.accumulation};
  switch (a.form) {
    case model::BatchedForm::rows:
      return multiply({rows(left, own)}, {rows(right, shared), true}, scores(out), gemm);
    case model::BatchedForm::values:
      return multiply({scores(left)}, {rows(right, shared)}, rows(out, own), gemm);
    case model::BatchedForm::columns:
      gemm.accumulate = head % group > 0;
      return multiply({scores(left), true}, {rows(right, own)}, rows(out, shared), gemm);
  }
}

}  // namespace

// One core processes all query heads of a key-value head, because they may add to the same columns.
void batched_matmul(const Call& call) {
  const auto& a = call.attributes<model::BatchedMatmulAttributes>();
  const Index group = a.query_heads / a.key_value_heads;
  const Index groups = call.in(0).rows() / a.sequence_length * a.key_value_heads;
  split(call, groups, a.sequence_length * a.sequence_length * group, [&](Index begin, Index end) {
    for (Index i = begin * group; i < end * group; ++i)
      gemm_of_head(call, i % a.query_heads, i / a.query_heads * a.sequence_length);
  });
}

void softmax(const Call& call) {
  const auto& a = call.attributes<model::AttentionAttributes>();
  const Visibility seen(a);
  const HostBuffer& scores = call.in(0);
  HostBuffer& probabilities = call.out(0);
  split(call, scores.rows(), scores.columns(), [&](Index begin, Index end) {
    for (Index t = begin; t < end; ++t)
      for (Index head = 0; head < a.query_heads; ++head) {
        const Index place = t % a.sequence_length, from = seen.first_key(place), count = place + 1 - from;
        const Index at = head * a.sequence_length;
        row(probabilities, t).segment(at, a.sequence_length).setZero();
        ArrayMap visible(&row(probabilities, t)(at + from), count);
        visible = row(scores, t).segment(at + from, count);
        seen.add_bias(head, visible);
        visible /= exponentiate(visible).sum;
      }
  });
}

void softmax_grad(const Call& call) {
  const auto& a = call.attributes<model::AttentionAttributes>();
  const HostBuffer &d_probabilities = call.in(0), &probabilities = call.in(1);
  split(call, probabilities.rows(), probabilities.columns(), [&](Index begin, Index end) {
    for (Index i = begin * a.query_heads; i < end * a.query_heads; ++i) {
      const auto d = row(d_probabilities, i, a.sequence_length), p = row(probabilities, i, a.sequence_length);
      const float inner = (d * p).sum();
      row(call.out(0), i, a.sequence_length) = p * (d - inner);
    }
  });
}

}  // namespace plumbline::real::host
