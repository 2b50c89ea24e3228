#include "tests/support/interpreter/heads_of_attention.h"
#include "tests/support/interpreter/operators.h"

namespace plumbline::tests {
namespace {

// Returns the factors by which dropout multiplies the probabilities of one head.
Matrix dropout_factors(const model::AttentionAttributes& a, const Head& head) {
  return Matrix::NullaryExpr(head.length, head.length, [&](Index t, Index s) {
    return dropout_factor(head.from + t, head.number * head.length + s, a.dropout);
  });
}

}  // namespace

void attention(Call& call) {
  const auto& attributes = call.attributes<model::AttentionAttributes>();
  const Matrix &q = call.in(0), &k = call.in(1), &v = call.in(2);
  call.out(0) = Matrix::Zero(q.rows(), attributes.query_heads * attributes.value_dim);
  call.out(1) = Matrix::Zero(q.rows(), attributes.query_heads);
  for (const Head& head : heads(attributes, q.rows())) {
    const Matrix scores = biased(attributes, head.number, head.scale() * head.q(q) * head.k(k).transpose());
    const Eigen::VectorXd log_sum_exp = scores.array().exp().rowwise().sum().log();
    const Matrix p = (scores.colwise() - log_sum_exp).array().exp();
    call.out(0).block(head.from, head.output, head.length, head.value_dim) =
        p.cwiseProduct(dropout_factors(attributes, head)) * head.v(v);
    call.out(1).block(head.from, head.number, head.length, 1) = log_sum_exp;
  }
}

void attention_grad(Call& call) {
  const auto& attributes = call.attributes<model::AttentionAttributes>();
  const Matrix &d_out = call.in(0), &q = call.in(1), &k = call.in(2), &v = call.in(3), &out = call.in(4);
  for (std::size_t i = 0; i < 3; ++i) call.out(i) = Matrix::Zero(call.in(i + 1).rows(), call.in(i + 1).cols());
  for (const Head& head : heads(attributes, q.rows())) {
    const Eigen::VectorXd log_sum_exp = call.in(5).block(head.from, head.number, head.length, 1);
    const Matrix scores = biased(attributes, head.number, head.scale() * head.q(q) * head.k(k).transpose());
    const Matrix p = (scores.colwise() - log_sum_exp).array().exp();
    const Matrix factors = dropout_factors(attributes, head);
    const Matrix d_head = head.o(d_out);
    // Softmax: ds = p * (dp - sum(p * dp)), and sum(p * dp) over the keys is do . o.
    const Eigen::VectorXd inner = (d_head.array() * head.o(out).array()).rowwise().sum();
    const Matrix d_p = (d_head * head.v(v).transpose()).cwiseProduct(factors);
    const Matrix d_scores = head.scale() * p.array() * (d_p.colwise() - inner).array();
    call.out(0).block(head.from, head.query, head.length, head.query_key_dim) += d_scores * head.k(k);
    call.out(1).block(head.from, head.key, head.length, head.query_key_dim) += d_scores.transpose() * head.q(q);
    call.out(2).block(head.from, head.value, head.length, head.value_dim) +=
        p.cwiseProduct(factors).transpose() * d_head;
  }
}

}  // namespace plumbline::tests
