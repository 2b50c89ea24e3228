#include <algorithm>
#include <cmath>

#include "tests/support/interpreter/operators.h"
#include "tests/support/interpreter/slopes.h"

namespace plumbline::tests {
namespace {

using model::ScanAttributes;

// The state as in scan_of(), which calls it.
Matrix constant_decay_of(const ScanAttributes& a, const Matrix& mixed, Matrix& state) {
  const Index columns = a.value_heads * a.key_dim;
  Matrix out = Matrix::Zero(mixed.rows(), a.value_heads * a.value_dim);
  for (Index t = 0; t < mixed.rows(); ++t)
    for (Index h = 0; h < a.value_heads; ++h) {
      const Eigen::VectorXd q = mixed.row(t).segment(h * a.key_dim, a.key_dim);
      const Eigen::VectorXd k = mixed.row(t).segment(columns + h * a.key_dim, a.key_dim);
      const Eigen::VectorXd v = mixed.row(t).segment(2 * columns + h * a.value_dim, a.value_dim);
      Eigen::Map<Matrix> s(state.row(t / a.sequence_length * a.value_heads + h).data(), a.key_dim, a.value_dim);
      s *= std::exp(-std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(a.value_heads)));
      s += k * v.transpose();
      out.row(t).segment(h * a.value_dim, a.value_dim) = s.transpose() * q;
    }
  return out;
}

// The state as in scan_of(), which calls it. Operands: values, time steps, gates, keys, queries, parameters of channels
// (decays of a state's entries, the bias of steps, the way past the state).
Matrix selective_scan_of(const ScanAttributes& a, const std::vector<Matrix>& operands, Matrix& state) {
  const Matrix &values = operands[0], &heads = operands[5];
  Matrix out = Matrix::Zero(values.rows(), a.value_heads);
  for (Index t = 0; t < values.rows(); ++t)
    for (Index h = 0; h < a.value_heads; ++h) {
      const auto parameter = [&](Index row) { return heads(row * a.value_heads + h); };
      const double step = softplus(operands[1](t, h) + parameter(a.key_dim)), v = values(t, h), z = operands[2](t, h);
      double sum = parameter(a.key_dim + 1) * v;
      for (Index row = 0; row < a.key_dim; ++row) {
        double& entry = state(t / a.sequence_length * a.value_heads + h, row);
        entry = std::exp(-std::exp(parameter(row)) * step) * entry + step * v * operands[3](t, row);
        sum += entry * operands[4](t, row);
      }
      out(t, h) = sum * z * sigmoid_of(z);
    }
  return out;
}

// Operands: queries, keys and values; gates, in channel_delta those of columns and the strengths; head parameters
// (decay, biases of its gates, the way past the state). `state` [R*Hv,dk*dv] is that before the tokens, and afterwards
// that after them. The delta rules normalise queries and keys.
Matrix scan_of(const ScanAttributes& a, const std::vector<Matrix>& operands, Matrix& state) {
  if (a.constant()) return constant_decay_of(a, operands[0], state);
  if (a.selective()) return selective_scan_of(a, operands, state);
  const Matrix &mixed = operands[0], &gates = operands[1], &heads = operands.back();
  const bool delta = a.delta(), channels = a.channel_gates() > 0;
  const auto head_row = [&](Index row, Index h) { return heads(row * a.value_heads + h); };
  const Index keys = a.key_heads * a.key_dim;
  Matrix out = Matrix::Zero(mixed.rows(), a.value_heads * a.value_dim);
  for (Index t = 0; t < mixed.rows(); ++t)
    for (Index h = 0; h < a.value_heads; ++h) {
      const Index key_head = h / (a.value_heads / a.key_heads);
      Eigen::VectorXd q = mixed.row(t).segment(key_head * a.key_dim, a.key_dim);
      Eigen::VectorXd k = mixed.row(t).segment(keys + key_head * a.key_dim, a.key_dim);
      const Eigen::VectorXd v = mixed.row(t).segment(2 * keys + h * a.value_dim, a.value_dim);
      Eigen::Map<Matrix> s(state.row(t / a.sequence_length * a.value_heads + h).data(), a.key_dim, a.value_dim);
      const double step = softplus(gates(t, h) + head_row(1, h));
      for (Index row = 0; row < a.key_dim; ++row) {
        const double own = channels ? softplus(gates(t, h * a.key_dim + row) + head_row(1 + row, h)) : step;
        s.row(row) *= std::exp(-std::exp(head_row(0, h)) * own);
      }
      Eigen::VectorXd added = v * step;
      if (delta) {
        q /= std::sqrt(q.squaredNorm() + 1e-6);
        k /= std::sqrt(k.squaredNorm() + 1e-6);
        const double strength = channels ? operands[2](t, h) : gates(t, a.value_heads + h);
        added = sigmoid_of(strength) * (v - s.transpose() * k);
      }
      s += k * added.transpose();
      const Eigen::VectorXd past = delta ? Eigen::VectorXd::Zero(a.value_dim).eval() : (head_row(2, h) * v).eval();
      out.row(t).segment(h * a.value_dim, a.value_dim) = s.transpose() * q + past;
    }
  return out;
}

Matrix flat(const Matrix& x) { return Eigen::Map<const Matrix>(x.data(), x.size(), 1); }

Matrix no_state(const ScanAttributes& a, Index rows) {
  return Matrix::Zero(rows / a.sequence_length * a.value_heads, a.key_dim * a.value_dim);
}

// Queries, keys and values, gates, head parameters.
std::size_t operand_count(const ScanAttributes& a) {
  return a.selective() ? 6 : a.constant() ? 1 : a.channel_gates() > 0 ? 4 : 3;
}

std::vector<Matrix> scan_operands(const Call& call, std::size_t first) {
  std::vector<Matrix> operands = operands_from(call, first, first + operand_count(call.attributes<ScanAttributes>()));
  if (operands.size() > 1) operands.back() = flat(operands.back());
  return operands;
}

void scan_with(Call& call) {
  const auto& a = call.attributes<ScanAttributes>();
  const std::size_t operands = operand_count(a);
  Matrix state = call.ins() > operands ? call.in(operands) : no_state(a, call.in(0).rows());
  call.out(0) = scan_of(a, scan_operands(call, 0), state);
  for (std::size_t i = 1; i < call.outs(); ++i)
    call.out(i) = call.out_tensor(i).role == model::Role::cache ? state : zeros(call.out_tensor(i));
}

// Operands: x, taps and a column more for a bias. Sequences begin with zeros.
Matrix convolution_of(std::int64_t sequence, std::int64_t taps, const std::vector<Matrix>& operands) {
  const Matrix& x = operands[0];
  if (taps == 0) return x.unaryExpr([](double value) { return value * sigmoid_of(value); });
  const Matrix& w = operands[1];
  Matrix out = Matrix::Zero(x.rows(), x.cols());
  for (Index t = 0; t < x.rows(); ++t)
    for (Index column = 0; column < x.cols(); ++column) {
      double sum = w.cols() > taps ? w(column, taps) : 0;
      for (Index back = 0; back < taps && back <= t % sequence; ++back)
        sum += w(column, taps - 1 - back) * x(t - back, column);
      out(t, column) = sum * sigmoid_of(sum);
    }
  return out;
}

// Operands: y, gate, gamma where there is a norm.
Matrix gated_norm_of(const model::NormAttributes& a, const std::vector<Matrix>& operands) {
  const Matrix &y = operands[0], &gate = operands[1];
  const bool normalized = operands.size() > 2;
  const Index width = y.cols() / a.heads;
  Matrix out(y.rows(), y.cols());
  for (Index t = 0; t < y.rows(); ++t)
    for (Index h = 0; h < a.heads; ++h) {
      const auto head = y.row(t).segment(h * width, width);
      const double scale = 1 / std::sqrt(head.squaredNorm() / static_cast<double>(width) + a.epsilon);
      for (Index i = h * width; i < (h + 1) * width; ++i) {
        const double factor = normalized ? operands[2](i % operands[2].rows()) * scale : 1;
        out(t, i) = factor * y(t, i) * gate(t, i) * sigmoid_of(gate(t, i));
      }
    }
  return out;
}

}  // namespace

void scan(Call& call) { scan_with(call); }
void scan_step(Call& call) { scan_with(call); }

void scan_grad(Call& call) {
  const auto& a = call.attributes<ScanAttributes>();
  const std::vector<Matrix> operands = scan_operands(call, 1);
  const auto function = [&a](const std::vector<Matrix>& x) {
    Matrix state = no_state(a, x[0].rows());
    return scan_of(a, x, state);
  };
  const std::size_t parameters = std::max<std::size_t>(1, operands.size() - 1), workspace = call.outs() - 1;
  for (std::size_t i = 0; i < parameters; ++i) call.out(i) = slopes(call.in(0), operands, i, function);
  call.out(workspace) = zeros(call.out_tensor(workspace));
  if (workspace == parameters) return;  // the head parameters are frozen
  const Matrix heads = slopes(call.in(0), operands, parameters, function);
  Matrix& sum = call.out(parameters);
  sum += Eigen::Map<const Matrix>(heads.data(), sum.rows(), sum.cols());
}

void convolution(Call& call) {
  const auto& a = call.attributes<model::ConvolutionAttributes>();
  if (call.outs() > 1) refuse();
  call.out(0) = convolution_of(a.sequence_length, a.taps, operands_from(call, 0, call.ins()));
}

void convolution_grad(Call& call) {
  const auto& a = call.attributes<model::ConvolutionAttributes>();
  const auto function = [&a](const std::vector<Matrix>& x) { return convolution_of(a.sequence_length, a.taps, x); };
  const std::vector<Matrix> operands = operands_from(call, 1, call.ins());
  call.out(0) = slopes(call.in(0), operands, 0, function);
  if (call.outs() > 1) call.out(1) += slopes(call.in(0), operands, 1, function);
}

void gated_rmsnorm(Call& call) {
  call.out(0) = gated_norm_of(call.attributes<model::NormAttributes>(), operands_from(call, 0, call.ins()));
}

void gated_rmsnorm_grad(Call& call) {
  const auto& a = call.attributes<model::NormAttributes>();
  const std::vector<Matrix> operands = operands_from(call, 1, call.ins());
  const auto function = [&a](const std::vector<Matrix>& x) { return gated_norm_of(a, x); };
  call.out(0) = slopes(call.in(0), operands, 0, function);
  call.out(1) = slopes(call.in(0), operands, 1, function);
  if (call.outs() > 2) call.out(2) += slopes(call.in(0), operands, 2, function);
}

// A column of gates is for as many columns of y as there are to each.
void gate_columns(Call& call) {
  const Matrix &y = call.in(0), &gates = call.in(1);
  const Index width = y.cols() / gates.cols();
  call.out(0) = y;
  for (Index column = 0; column < y.cols(); ++column)
    call.out(0).col(column).array() *=
        gates.col(column / width).unaryExpr([](double x) { return sigmoid_of(x); }).array();
}

void gate_columns_grad(Call& call) {
  const Matrix &dout = call.in(0), &y = call.in(1);
  const Matrix s = call.in(2).unaryExpr([](double x) { return sigmoid_of(x); });
  const Index width = y.cols() / s.cols();
  call.out(0) = dout;
  call.out(1) = Matrix::Zero(s.rows(), s.cols());
  for (Index column = 0; column < y.cols(); ++column) {
    const auto gate = s.col(column / width).array();
    call.out(0).col(column).array() *= gate;
    call.out(1).col(column / width).array() += dout.col(column).array() * y.col(column).array() * gate * (1 - gate);
  }
}

void row_products(Call&) { refuse(); }
void scan_state(Call&) { refuse(); }
void scan_state_grad(Call&) { refuse(); }
void add_states(Call&) { refuse(); }

}  // namespace plumbline::tests
