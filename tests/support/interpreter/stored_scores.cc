#include "tests/support/interpreter/heads_of_attention.h"
#include "tests/support/interpreter/operators.h"

namespace plumbline::tests {
namespace {

// Returns the first column of one head's scores, of which there are as many as keys in the sequence.
Index scores_at(const Head& head) { return head.number * head.length; }

std::vector<Head> heads_of(const model::BatchedMatmulAttributes& a, Index tokens) {
  return heads(model::AttentionAttributes{.query_heads = a.query_heads,
                                          .key_value_heads = a.key_value_heads,
                                          .query_key_dim = a.dim,
                                          .value_dim = a.dim,
                                          .sequence_length = a.sequence_length},
               tokens);
}

}  // namespace

void batched_matmul(Call& call) {
  const auto& attributes = call.attributes<model::BatchedMatmulAttributes>();
  const Matrix &a = call.in(0), &b = call.in(1);
  call.out(0) = Matrix::Zero(a.rows(), call.out_tensor(0).shape[1].size);
  for (const Head& head : heads_of(attributes, a.rows())) {
    const auto scores = [&](auto& m) { return m.block(head.from, scores_at(head), head.length, head.length); };
    switch (attributes.form) {
      case model::BatchedForm::rows:
        scores(call.out(0)) = attributes.scale * call.gemm(head.q(a), head.k(b).transpose());
        break;
      case model::BatchedForm::values:
        call.out(0).block(head.from, head.query, head.length, attributes.dim) =
            attributes.scale * call.gemm(scores(a), head.k(b));
        break;
      case model::BatchedForm::columns:
        call.out(0).block(head.from, head.key, head.length, attributes.dim) +=
            attributes.scale * call.gemm(scores(a).transpose(), head.q(b));
        break;
    }
  }
}

void softmax(Call& call) {
  const auto& attributes = call.attributes<model::AttentionAttributes>();
  call.out(0) = call.in(0);
  for (const Head& head : heads(attributes, call.in(0).rows())) {
    auto scores = call.out(0).block(head.from, scores_at(head), head.length, head.length);
    const Matrix weights = biased(attributes, head.number, scores).array().exp();
    scores = weights.array().colwise() / weights.rowwise().sum().array();
  }
}

void softmax_grad(Call& call) {
  call.out(0) = call.in(0);
  for (const Head& head : heads(call.attributes<model::AttentionAttributes>(), call.in(0).rows())) {
    const Matrix p = call.in(1).block(head.from, scores_at(head), head.length, head.length);
    auto gradient = call.out(0).block(head.from, scores_at(head), head.length, head.length);
    const Eigen::VectorXd inner = gradient.cwiseProduct(p).rowwise().sum();
    gradient = (p.array() * (gradient.colwise() - inner).array()).matrix().eval();
  }
}

}  // namespace plumbline::tests
