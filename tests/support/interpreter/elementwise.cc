#include <cmath>

#include "tests/support/interpreter/operators.h"

namespace plumbline::tests {

namespace {

// 1 / rms of every row.
Eigen::ArrayXd inverse_rms(const Matrix& x, double epsilon) {
  return (x.array().square().rowwise().mean() + epsilon).rsqrt();
}

Eigen::ArrayXXd sigmoid(const Eigen::ArrayXXd& x) { return 1 / (1 + (-x).exp()); }

// A weight per row, 1 where the operator has none.
Eigen::ArrayXd row_weights(const Call& call, std::size_t operand, Index rows) {
  if (operand < call.ins()) return call.in(operand).col(0).array();
  return Eigen::ArrayXd::Ones(rows);
}

}  // namespace

void rmsnorm(Call& call) {
  const Matrix& x = call.in(0);
  const Eigen::ArrayXd scale = inverse_rms(x, call.attributes<model::NormAttributes>().epsilon);
  call.out(0) = scale.matrix().asDiagonal() * x * call.in(1).col(0).asDiagonal();
}

void rmsnorm_grad(Call& call) {
  const Matrix &dy = call.in(0), &x = call.in(1), &gamma = call.in(2);
  const Eigen::ArrayXd scale = inverse_rms(x, call.attributes<model::NormAttributes>().epsilon);
  const Matrix unit = scale.matrix().asDiagonal() * x;
  const Matrix d_unit = dy * gamma.col(0).asDiagonal();
  const Eigen::VectorXd along = (d_unit.array() * unit.array()).rowwise().mean();
  call.out(0) = scale.matrix().asDiagonal() * (d_unit - along.asDiagonal() * unit);
  call.out(1) += (dy.array() * unit.array()).colwise().sum().transpose().matrix();
}

void cast(Call& call) { call.out(0) = call.in(0); }

// Of a matrix, or of each expert's.
void transpose(Call& call) {
  const Matrix& x = call.in(0);
  const Index experts = call.in_tensor(0).shape.size() == 3 ? call.in_tensor(0).shape[0].size : 1;
  const Index height = x.rows() / experts;
  call.out(0).resize(experts * x.cols(), height);
  for (Index e = 0; e < experts; ++e)
    call.out(0).middleRows(e * x.cols(), x.cols()) = x.middleRows(e * height, height).transpose();
}

void add(Call& call) {
  call.out(0) = call.in(0);
  for (std::size_t i = 1; i < call.ins(); ++i) call.out(0) += call.in(i);
}

void split(Call& call) {
  Index from = 0;
  for (std::size_t i = 0; i < call.outs(); ++i) {
    const Index width = call.out_tensor(i).shape[1].size;
    call.out(i) = call.in(0).middleCols(from, width);
    from += width;
  }
}

void concatenate(Call& call) {
  call.out(0) = call.in(0);
  for (std::size_t i = 1; i < call.ins(); ++i) {
    Matrix joined(call.in(i).rows(), call.out(0).cols() + call.in(i).cols());
    joined << call.out(0), call.in(i);
    call.out(0) = std::move(joined);
  }
}

void swiglu(Call& call) {
  const Matrix& gate_up = call.in(0);
  const Index width = gate_up.cols() / 2;
  const Eigen::ArrayXXd gate = gate_up.leftCols(width), up = gate_up.rightCols(width);
  call.out(0) = (gate * sigmoid(gate) * up).colwise() * row_weights(call, 1, gate_up.rows());
}

void swiglu_grad(Call& call) {
  const Matrix& gate_up = call.in(1);
  const Index width = gate_up.cols() / 2;
  const Eigen::ArrayXXd d_hidden = call.in(0), gate = gate_up.leftCols(width), up = gate_up.rightCols(width);
  const Eigen::ArrayXXd s = sigmoid(gate);
  const Eigen::ArrayXXd d_product = d_hidden.colwise() * row_weights(call, 2, gate_up.rows());
  call.out(0).resize(gate_up.rows(), gate_up.cols());
  call.out(0).leftCols(width) = d_product * up * s * (1 + gate * (1 - s));
  call.out(0).rightCols(width) = d_product * gate * s;
  if (call.outs() > 1) call.out(1) = (d_hidden * gate * s * up).rowwise().sum().matrix();
}

}  // namespace plumbline::tests
