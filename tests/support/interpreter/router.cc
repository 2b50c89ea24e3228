#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/support/interpreter/operators.h"

namespace plumbline::tests {
namespace {

using Row = Eigen::RowVectorXd;

Row scores(const Row& logits, model::ScoreFunction function) {
  if (function == model::ScoreFunction::sigmoid) return 1 / (1 + (-logits.array()).exp());
  return logits.array().exp() / logits.array().exp().sum();
}

// Returns the positions of the n largest values, largest first.
std::vector<Index> best(const Row& values, Index n) {
  std::vector<Index> order(static_cast<std::size_t>(values.size()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return values(a) > values(b); });
  order.resize(static_cast<std::size_t>(n));
  return order;
}

double sum_of_best(const Row& values, Index n) {
  const std::vector<Index> chosen = best(values, n);
  return std::accumulate(chosen.begin(), chosen.end(), 0.0, [&](double sum, Index i) { return sum + values(i); });
}

// Returns the experts of one token: the best of those in its best groups.
std::vector<Index> choose(Row biased, const model::RouterAttributes& a) {
  const Index width = a.experts / a.groups;
  Row group_scores(a.groups);
  for (Index g = 0; g < a.groups; ++g)
    group_scores(g) = sum_of_best(biased.segment(g * width, width), a.group_score_experts);
  const std::vector<Index> allowed = best(group_scores, a.groups_per_token);
  for (Index g = 0; g < a.groups; ++g)
    if (std::find(allowed.begin(), allowed.end(), g) == allowed.end())
      biased.segment(g * width, width).setConstant(-std::numeric_limits<double>::infinity());
  return best(biased.head(a.experts), a.experts_per_token);
}

}  // namespace

void router(Call& call) {
  const auto& a = call.attributes<model::RouterAttributes>();
  const Matrix& logits = call.in(0);
  call.out(0).resize(logits.rows(), a.experts_per_token);
  call.out(1).resize(logits.rows(), a.experts_per_token);
  for (Index t = 0; t < logits.rows(); ++t) {
    const Row score = scores(logits.row(t), a.score);
    const std::vector<Index> chosen = choose(score + call.in(1).col(0).transpose(), a);
    Index slot = 0;
    for (Index expert : chosen) {
      call.out(0)(t, slot) = static_cast<double>(expert);
      call.out(1)(t, slot++) = score(expert);
    }
    if (a.normalize) call.out(1).row(t) /= call.out(1).row(t).sum();
  }
  call.out(1) *= a.scaling_factor;
}

void router_grad(Call& call) {
  const auto& a = call.attributes<model::RouterAttributes>();
  const Matrix &d_weights = call.in(0), &logits = call.in(1), &indices = call.in(2);
  call.out(0) = Matrix::Zero(logits.rows(), logits.cols());
  for (Index t = 0; t < logits.rows(); ++t) {
    const Row score = scores(logits.row(t), a.score);
    Row chosen(a.experts_per_token);
    for (Index slot = 0; slot < chosen.size(); ++slot) chosen(slot) = score(static_cast<Index>(indices(t, slot)));
    Row d_chosen = a.scaling_factor * d_weights.row(t);
    if (a.normalize) {
      const double total = chosen.sum();
      d_chosen = ((d_chosen.array() - d_chosen.dot(chosen) / total) / total).eval();
    }
    Row d_score = Row::Zero(logits.cols());
    for (Index slot = 0; slot < chosen.size(); ++slot) d_score(static_cast<Index>(indices(t, slot))) = d_chosen(slot);
    if (a.score == model::ScoreFunction::sigmoid)
      call.out(0).row(t) = d_score.array() * score.array() * (1 - score.array());
    else
      call.out(0).row(t) = score.array() * (d_score.array() - d_score.dot(score));
  }
}

}  // namespace plumbline::tests
