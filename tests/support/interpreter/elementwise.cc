#include <cmath>
#include <numbers>

#include "tests/support/interpreter/operators.h"

namespace plumbline::tests {
namespace {

// Returns 1 / rms of every row.
Eigen::ArrayXd inverse_rms(const Matrix& x, double epsilon) {
  return (x.array().square().rowwise().mean() + epsilon).rsqrt();
}

double normal_distribution(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

Eigen::ArrayXXd sigmoid(const Eigen::ArrayXXd& x) { return 1 / (1 + (-x).exp()); }

// Returns a weight per row, 1 where the operator has none.
Eigen::ArrayXd row_weights(const Call& call, std::size_t operand, Index rows) {
  if (operand < call.ins()) return call.in(operand).col(0).array();
  return Eigen::ArrayXd::Ones(rows);
}

// Returns a gain per column, 1 where the operator has none; those of a head are of each.
Eigen::VectorXd gains(const Call& call, std::size_t operand, Index columns) {
  if (operand >= call.ins()) return Eigen::VectorXd::Ones(columns);
  return call.in(operand).col(0).replicate(columns / call.in(operand).rows(), 1);
}

// Returns the same numbers in rows of so many columns: of a head each, or of all heads.
Matrix in_rows(const Matrix& x, Index columns) {
  return Eigen::Map<const Matrix>(x.data(), x.size() / columns, columns);
}

// Returns dx of y = unit * gamma, where unit = scale * x, without its component along unit.
Matrix along_removed(const Matrix& d_unit, const Matrix& unit) {
  const Eigen::VectorXd along = (d_unit.array() * unit.array()).rowwise().mean();
  return d_unit - along.asDiagonal() * unit;
}

struct Centered {
  Matrix unit;           // mean 0, variance 1
  Eigen::ArrayXd scale;  // 1 / deviation
};

Centered centered(const Matrix& x, double epsilon) {
  const Matrix shifted = x.colwise() - x.rowwise().mean();
  const Eigen::ArrayXd scale = inverse_rms(shifted, epsilon);
  return {scale.matrix().asDiagonal() * shifted, scale};
}

}  // namespace

void rmsnorm(Call& call) {
  const auto& attributes = call.attributes<model::NormAttributes>();
  const Index columns = call.in(0).cols();
  const Matrix x = in_rows(call.in(0), columns / attributes.heads);
  const Matrix unit = inverse_rms(x, attributes.epsilon).matrix().asDiagonal() * x;
  call.out(0) = in_rows(unit, columns) * gains(call, 1, columns).asDiagonal();
}

void rmsnorm_grad(Call& call) {
  const auto& attributes = call.attributes<model::NormAttributes>();
  const Index columns = call.in(0).cols(), width = columns / attributes.heads;
  const Matrix d_unit = in_rows(call.in(0) * gains(call, 2, columns).asDiagonal(), width);
  const Matrix x = in_rows(call.in(1), width);
  const Eigen::ArrayXd scale = inverse_rms(x, attributes.epsilon);
  const Matrix unit = scale.matrix().asDiagonal() * x;
  call.out(0) = in_rows(scale.matrix().asDiagonal() * along_removed(d_unit, unit), columns);
  if (call.outs() < 2) return;
  Matrix& d_gains = call.out(1);
  const Matrix products = call.in(0).cwiseProduct(in_rows(unit, columns));
  d_gains += in_rows(products, d_gains.rows()).colwise().sum().transpose();
}

void layernorm(Call& call) {
  const Matrix unit = centered(call.in(0), call.attributes<model::NormAttributes>().epsilon).unit;
  call.out(0) = unit * call.in(1).col(0).asDiagonal();
  if (call.ins() > 2) call.out(0).rowwise() += call.in(2).col(0).transpose();
}

void layernorm_grad(Call& call) {
  const Matrix& dy = call.in(0);
  const Centered x = centered(call.in(1), call.attributes<model::NormAttributes>().epsilon);
  const Matrix d_shifted = x.scale.matrix().asDiagonal() * along_removed(dy * call.in(2).col(0).asDiagonal(), x.unit);
  call.out(0) = d_shifted.colwise() - d_shifted.rowwise().mean();
  if (call.outs() > 1) call.out(1) += (dy.array() * x.unit.array()).colwise().sum().transpose().matrix();
  if (call.outs() > 2) call.out(2) += dy.colwise().sum().transpose();
}

void cast(Call& call) { call.out(0) = call.in(0); }

// Transposes a matrix, or that of each expert.
void transpose(Call& call) {
  const Matrix& x = call.in(0);
  const Index experts = call.in_tensor(0).shape.size() == 3 ? call.in_tensor(0).shape[0].size : 1;
  const Index height = x.rows() / experts;
  call.out(0).resize(experts * x.cols(), height);
  for (Index e = 0; e < experts; ++e)
    call.out(0).middleRows(e * x.cols(), x.cols()) = x.middleRows(e * height, height).transpose();
}

void cast_transpose(Call& call) { transpose(call); }

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
  const Eigen::ArrayXXd d_gemm = d_hidden.colwise() * row_weights(call, 2, gate_up.rows());
  call.out(0).resize(gate_up.rows(), gate_up.cols());
  call.out(0).leftCols(width) = d_gemm * up * s * (1 + gate * (1 - s));
  call.out(0).rightCols(width) = d_gemm * gate * s;
  if (call.outs() > 1) call.out(1) = (d_hidden * gate * s * up).rowwise().sum().matrix();
}

void clamp(Call& call) {
  const double limit = call.attributes<model::ClampAttributes>().limit;
  const Index width = call.in(0).cols() / 2;
  call.out(0) = call.in(0).cwiseMin(limit);
  call.out(0).rightCols(width) = call.out(0).rightCols(width).cwiseMax(-limit);
}

void clamp_grad(Call& call) {
  const double limit = call.attributes<model::ClampAttributes>().limit;
  const Matrix& gate_up = call.in(1);
  const Index width = gate_up.cols() / 2;
  call.out(0) = Matrix::NullaryExpr(gate_up.rows(), gate_up.cols(), [&](Index row, Index column) {
    const double x = gate_up(row, column);
    return x > limit || (column >= width && x < -limit) ? 0.0 : call.in(0)(row, column);
  });
}

void add_expert_bias(Call& call) {
  call.out(0) = call.in(0);
  for (Index e = 0; e < call.in(1).rows(); ++e)
    for (auto row = static_cast<Index>(call.in(3)(e, 0)); row < static_cast<Index>(call.in(3)(e + 1, 0)); ++row)
      call.out(0).row(row) += call.in(2)(row, 0) * call.in(1).row(e);
}

void add_expert_bias_grad(Call& call) {
  const bool trained = call.outs() > 1;
  Matrix& d_weights = call.out(trained ? 1 : 0);
  d_weights = Matrix::Zero(call.in(2).rows(), call.in(2).cols());
  for (Index e = 0; e < call.in(1).rows(); ++e)
    for (auto row = static_cast<Index>(call.in(3)(e, 0)); row < static_cast<Index>(call.in(3)(e + 1, 0)); ++row) {
      if (trained) call.out(0).row(e) += call.in(2)(row, 0) * call.in(0).row(row);
      d_weights(row, 0) = call.in(0).row(row).dot(call.in(1).row(e));
    }
}

void add_bias(Call& call) { call.out(0) = call.in(0).rowwise() + call.in(1).col(0).transpose(); }

void gelu(Call& call) {
  const Eigen::ArrayXXd h = call.in(0).unaryExpr([](double x) { return x * normal_distribution(x); });
  call.out(0) = h.colwise() * row_weights(call, 1, h.rows());
}

void gelu_grad(Call& call) {
  const Matrix slope = call.in(1).unaryExpr([](double x) {
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
    return normal_distribution(x) + x * density;
  });
  const Eigen::ArrayXXd dy = call.in(0), x = call.in(1);
  call.out(0) = (dy * slope.array()).colwise() * row_weights(call, 2, x.rows());
  if (call.outs() > 1)
    call.out(1) = (dy * x * x.unaryExpr([](double one) { return normal_distribution(one); })).rowwise().sum().matrix();
}

void column_sum(Call& call) { call.out(0) += call.in(0).colwise().sum().transpose(); }

void sigmoid_gate(Call& call) { call.out(0) = (call.in(0).array().colwise() * sigmoid(call.in(1)).col(0)).matrix(); }

void sigmoid_gate_grad(Call& call) {
  const Eigen::ArrayXXd d_out = call.in(0), y = call.in(1);
  const Eigen::ArrayXd s = sigmoid(call.in(2)).col(0);
  call.out(0) = (d_out.colwise() * s).matrix();
  call.out(1) = ((d_out * y).rowwise().sum() * s * (1 - s)).matrix();
}

}  // namespace plumbline::tests
