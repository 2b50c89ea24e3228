#include <cmath>

#include "tests/support/interpreter/operators.h"

namespace plumbline::tests {

namespace {

// Where one query head of one sequence stands in q, k, v and o.
struct Head {
  Index from, length, query, key, value, output, query_key_dim, value_dim, number;

  auto q(const auto& m) const { return m.block(from, query, length, query_key_dim); }
  auto k(const auto& m) const { return m.block(from, key, length, query_key_dim); }
  auto v(const auto& m) const { return m.block(from, value, length, value_dim); }
  auto o(const auto& m) const { return m.block(from, output, length, value_dim); }
  double scale() const { return 1 / std::sqrt(static_cast<double>(query_key_dim)); }
};

std::vector<Head> heads(const model::AttentionAttributes& a, Index tokens) {
  std::vector<Head> result;
  const Index shared_by = a.query_heads / a.key_value_heads;
  for (Index from = 0; from < tokens; from += a.sequence_length)
    for (Index h = 0; h < a.query_heads; ++h)
      result.push_back({from, a.sequence_length, h * a.query_key_dim, h / shared_by * a.query_key_dim,
                        h / shared_by * a.value_dim, h * a.value_dim, a.query_key_dim, a.value_dim, h});
  return result;
}

// exp(scores - log_sum_exp) below and on the diagonal, 0 above.
Matrix probabilities(const Matrix& scores, const Eigen::VectorXd& log_sum_exp) {
  Matrix p = (scores.colwise() - log_sum_exp).array().exp();
  return p.triangularView<Eigen::Lower>();
}

}  // namespace

void attention(Call& call) {
  const auto& attributes = call.attributes<model::AttentionAttributes>();
  const Matrix &q = call.in(0), &k = call.in(1), &v = call.in(2);
  call.out(0) = Matrix::Zero(q.rows(), attributes.query_heads * attributes.value_dim);
  call.out(1) = Matrix::Zero(q.rows(), attributes.query_heads);
  for (const Head& head : heads(attributes, q.rows())) {
    const Matrix scores = head.scale() * head.q(q) * head.k(k).transpose();
    Eigen::VectorXd log_sum_exp(head.length);
    for (Index t = 0; t < head.length; ++t) log_sum_exp(t) = std::log(scores.row(t).head(t + 1).array().exp().sum());
    call.out(0).block(head.from, head.output, head.length, head.value_dim) =
        probabilities(scores, log_sum_exp) * head.v(v);
    call.out(1).block(head.from, head.number, head.length, 1) = log_sum_exp;
  }
}

void attention_grad(Call& call) {
  const Matrix &d_out = call.in(0), &q = call.in(1), &k = call.in(2), &v = call.in(3), &out = call.in(4);
  for (std::size_t i = 0; i < 3; ++i) call.out(i) = Matrix::Zero(call.in(i + 1).rows(), call.in(i + 1).cols());
  for (const Head& head : heads(call.attributes<model::AttentionAttributes>(), q.rows())) {
    const Eigen::VectorXd log_sum_exp = call.in(5).block(head.from, head.number, head.length, 1);
    const Matrix p = probabilities(head.scale() * head.q(q) * head.k(k).transpose(), log_sum_exp);
    const Matrix d_head = head.o(d_out);
    // Softmax: ds = p * (dp - sum(p * dp)), and sum(p * dp) over the keys is do . o.
    const Eigen::VectorXd inner = (d_head.array() * head.o(out).array()).rowwise().sum();
    const Matrix d_p = d_head * head.v(v).transpose();
    const Matrix d_scores = head.scale() * p.array() * (d_p.colwise() - inner).array();
    call.out(0).block(head.from, head.query, head.length, head.query_key_dim) += d_scores * head.k(k);
    call.out(1).block(head.from, head.key, head.length, head.query_key_dim) += d_scores.transpose() * head.q(q);
    call.out(2).block(head.from, head.value, head.length, head.value_dim) += p.transpose() * d_head;
  }
}

}  // namespace plumbline::tests
