#include <cmath>

#include "tests/support/interpreter/operators.h"

namespace plumbline::tests {

namespace {

Matrix sum_over_ranks(Calls calls) {
  Matrix sum = calls[0].in(0);
  for (std::size_t rank = 1; rank < calls.size(); ++rank) sum += calls[rank].in(0);
  return sum;
}

}  // namespace

void all_reduce(Calls calls) {
  const Matrix sum = sum_over_ranks(calls);
  for (Call& call : calls) call.out(0) = sum;
}

void reduce_scatter(Calls calls) {
  const Matrix sum = sum_over_ranks(calls);
  const Index shard = sum.rows() / static_cast<Index>(calls.size());
  for (std::size_t rank = 0; rank < calls.size(); ++rank)
    calls[rank].out(0) = sum.middleRows(static_cast<Index>(rank) * shard, shard);
}

void all_gather(Calls calls) {
  const Index shard = calls[0].in(0).rows();
  Matrix whole(shard * static_cast<Index>(calls.size()), calls[0].in(0).cols());
  for (std::size_t rank = 0; rank < calls.size(); ++rank)
    whole.middleRows(static_cast<Index>(rank) * shard, shard) = calls[rank].in(0);
  for (Call& call : calls) call.out(0) = whole;
}

void adamw(Call& call) {
  const auto& a = call.attributes<model::AdamwAttributes>();
  const Matrix& gradient = call.in(0);
  Matrix& master = call.out(1);
  Matrix& first = call.out(2);
  Matrix& second = call.out(3);
  first = a.beta1 * first + (1 - a.beta1) * gradient;
  second = a.beta2 * second + (1 - a.beta2) * gradient.cwiseAbs2();
  const double first_scale = 1 - std::pow(a.beta1, static_cast<double>(a.step));
  const double second_scale = 1 - std::pow(a.beta2, static_cast<double>(a.step));
  const Matrix direction = (first / first_scale).array() / ((second / second_scale).array().sqrt() + a.epsilon);
  master -= a.learning_rate * (direction + a.weight_decay * master);
  call.out(0) = master;
}

}  // namespace plumbline::tests
