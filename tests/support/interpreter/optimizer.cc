#include <algorithm>
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

// Rows become columns of heads or the other way round. Where there are fewer heads than ranks, several ranks have the
// same one, and its gradients are summed.
void exchange_heads(Calls calls) {
  const auto ranks = static_cast<Index>(calls.size());
  for (Call& call : calls) call.out(0) = zeros(call.out_tensor(0));
  const bool sends_heads = calls[0].out(0).rows() > calls[0].in(0).rows();
  const Index columns = std::min(calls[0].in(0).cols(), calls[0].out(0).cols());
  const Index all = std::max(calls[0].in(0).cols(), calls[0].out(0).cols());
  const Index rows = std::min(calls[0].in(0).rows(), calls[0].out(0).rows());
  for (Index from = 0; from < ranks; ++from)
    for (Index to = 0; to < ranks; ++to) {
      const Index of_heads = sends_heads ? to : from, of_rows = sends_heads ? from : to;
      const Index column = of_heads * all / ranks / columns * columns;
      Matrix& whole = calls[static_cast<std::size_t>(to)].out(0);
      const Matrix& sent = calls[static_cast<std::size_t>(from)].in(0);
      if (sends_heads)
        whole.middleRows(of_rows * rows, rows) = sent.middleCols(column, columns);
      else
        whole.middleCols(column, columns) += sent.middleRows(of_rows * rows, rows);
    }
}

void sum_of_squares(Call& call) {
  Matrix sum = Matrix::Zero(1, 1);
  for (std::size_t i = 0; i < call.ins(); ++i) sum(0, 0) += call.in(i).squaredNorm();
  call.out(0) = sum;
}

void unscale(Call& call) {
  const double scale = call.in(call.ins() - 1)(0, 0);
  Matrix found = Matrix::Zero(1, 1);
  for (std::size_t i = 0; i + 1 < call.ins(); ++i) {
    call.out(i) = call.in(i) / scale;
    if (!call.in(i).allFinite()) found(0, 0) = 1;
  }
  call.out(call.outs() - 1) = found;
}

void copy_to_host(Call& call) {
  const model::Dimension &from = call.in_tensor(0).shape[0], &to = call.out_tensor(0).shape[0];
  if (from.size == to.size)
    call.out(0) = call.in(0);  // as many rows as routing has made it
  else
    call.out(0) = call.in(0).topRows(to.size);
}

void copy_to_device(Call& call) { copy_to_host(call); }

void adamw(Call& call) {
  const auto& a = call.attributes<model::AdamwAttributes>();
  const double clip = call.ins() > 1 ? std::min(1.0, a.largest_norm / std::sqrt(call.in(1)(0, 0))) : 1;
  const Matrix gradient = clip * call.in(0);
  const bool has_master = call.outs() == 4;
  Matrix& master = call.out(has_master ? 1 : 0);
  Matrix& first = call.out(call.outs() - 2);
  Matrix& second = call.out(call.outs() - 1);
  first = a.beta1 * first + (1 - a.beta1) * gradient;
  second = a.beta2 * second + (1 - a.beta2) * gradient.cwiseAbs2();
  const double first_scale = 1 - std::pow(a.beta1, static_cast<double>(a.step));
  const double second_scale = 1 - std::pow(a.beta2, static_cast<double>(a.step));
  const Matrix direction = (first / first_scale).array() / ((second / second_scale).array().sqrt() + a.epsilon);
  master -= a.learning_rate * (direction + a.weight_decay * master);
  if (has_master) call.out(0) = master;
}

}  // namespace plumbline::tests
