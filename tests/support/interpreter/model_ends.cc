#include <algorithm>
#include <cmath>

#include "tests/support/interpreter/operators.h"

namespace plumbline::tests {
namespace {

// Returns the tokens that have a label.
std::vector<Index> labeled(const model::LossAttributes& a, Index tokens) {
  std::vector<Index> result;
  for (Index t = 0; t < tokens; ++t)
    if (t % a.sequence_length < a.sequence_length - a.ignored) result.push_back(t);
  return result;
}

}  // namespace

void embedding(Call& call) {
  const Matrix &ids = call.in(0), &table = call.in(1);
  call.out(0).resize(ids.rows(), table.cols());
  for (Index t = 0; t < ids.rows(); ++t) call.out(0).row(t) = table.row(static_cast<Index>(ids(t)));
}

void embedding_grad(Call& call) {
  const Matrix &dx = call.in(0), &ids = call.in(1);
  for (Index t = 0; t < ids.rows(); ++t) call.out(0).row(static_cast<Index>(ids(t))) += dx.row(t);
}

void add_positions(Call& call) {
  const Index length = call.attributes<model::PositionAttributes>().sequence_length;
  call.out(0) = call.in(0);
  for (Index t = 0; t < call.in(0).rows(); ++t) {
    const Index earlier = call.ins() > 2 ? static_cast<Index>(call.in(2)(t / length)) : 0;
    call.out(0).row(t) += call.in(1).row(earlier + t % length);
  }
}

void add_positions_grad(Call& call) {
  const Index length = call.attributes<model::PositionAttributes>().sequence_length;
  for (Index t = 0; t < call.in(0).rows(); ++t) call.out(0).row(t % length) += call.in(0).row(t);
}

void cross_entropy(Call& call) {
  const auto& attributes = call.attributes<model::LossAttributes>();
  const Matrix &logits = call.in(0), &labels = call.in(1);
  call.out(1) = logits.array().exp().rowwise().sum().log().matrix();
  if (call.outs() == 3) call.out(2) = logits.colwise() - call.out(1).col(0);
  double total = 0;
  const std::vector<Index> tokens = labeled(attributes, logits.rows());
  for (Index t : tokens) total += call.out(1)(t) - logits(t, static_cast<Index>(labels(t)));
  call.out(0) = Matrix::Constant(1, 1, attributes.weight * total / static_cast<double>(tokens.size()));
}

void cross_entropy_grad(Call& call) {
  const auto& attributes = call.attributes<model::LossAttributes>();
  const Matrix &logits = call.in(0), &labels = call.in(1);
  const bool are_logarithms = call.ins() == 2;
  call.out(0) = Matrix::Zero(logits.rows(), logits.cols());
  const std::vector<Index> tokens = labeled(attributes, logits.rows());
  for (Index t : tokens) {
    call.out(0).row(t) = (logits.row(t).array() - (are_logarithms ? 0 : call.in(2)(t))).exp();
    call.out(0)(t, static_cast<Index>(labels(t))) -= 1;
  }
  call.out(0) *= attributes.weight / static_cast<double>(tokens.size());
}

void shift_tokens(Call& call) {
  const auto& a = call.attributes<model::ShiftAttributes>();
  const Matrix& ids = call.in(0);
  call.out(0).resize(ids.rows(), 1);
  for (Index t = 0; t < ids.rows(); ++t) {
    const Index last = t - t % a.sequence_length + a.sequence_length - 1;
    call.out(0)(t) = ids(std::min<Index>(t + a.distance, last));
  }
}

}  // namespace plumbline::tests
