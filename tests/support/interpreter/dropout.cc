#include <cmath>

#include "tests/support/interpreter/operators.h"
#include "tests/support/tiny_models.h"

namespace plumbline::tests {

double dropout_factor(Index row, Index column, double probability) {
  if (probability == 0) return 1;
  const Index place = row % tiny_sequence_length;
  // A sequence that fills [0, 1) evenly (multiples of the golden ratio, modulo 1).
  const double position = 0.6180339887498949 * static_cast<double>(place + 7 * column);
  return position - std::floor(position) < probability ? 0 : 1 / (1 - probability);
}

void dropout(Call& call) {
  const double probability = call.attributes<model::DropoutAttributes>().probability;
  const Matrix& x = call.in(0);
  call.out(1) = Matrix::NullaryExpr(x.rows(), x.cols(), [&](Index row, Index column) {
    return dropout_factor(row, column, probability) > 0 ? 1.0 : 0.0;
  });
  call.out(0) = x.cwiseProduct(call.out(1)) / (1 - probability);
}

void dropout_grad(Call& call) {
  call.out(0) = call.in(0).cwiseProduct(call.in(1)) / (1 - call.attributes<model::DropoutAttributes>().probability);
}

}  // namespace plumbline::tests
