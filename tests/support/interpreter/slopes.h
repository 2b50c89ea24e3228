// Gradients of operators by differences of what they compute, and functions that several of them share.
#pragma once

#include <cmath>
#include <functional>
#include <stdexcept>
#include <vector>

#include "tests/support/interpreter/interpreter.h"

namespace plumbline::tests {

inline std::vector<Matrix> operands_from(const Call& call, std::size_t first, std::size_t end) {
  std::vector<Matrix> operands;
  for (std::size_t i = first; i < end; ++i) operands.push_back(call.in(i));
  return operands;
}

inline double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
inline double softplus(double x) { return std::log1p(std::exp(x)); }

// Returns the gradient of sum(d_out * function(operands)) to one operand, by central differences of fourth order. The
// functions are smooth and of order 1, so that 9 digits are right.
inline Matrix slopes(const Matrix& d_out, std::vector<Matrix> operands, std::size_t operand,
                     const std::function<Matrix(const std::vector<Matrix>&)>& function) {
  constexpr double step = 1e-4;
  Matrix& x = operands[operand];
  Matrix result(x.rows(), x.cols());
  for (Index i = 0; i < x.size(); ++i) {
    const double at = x.data()[i];
    const auto central = [&](double h) {
      x.data()[i] = at + h;
      const double above = d_out.cwiseProduct(function(operands)).sum();
      x.data()[i] = at - h;
      const double below = d_out.cwiseProduct(function(operands)).sum();
      x.data()[i] = at;
      return (above - below) / (2 * h);
    };
    result.data()[i] = (4 * central(step / 2) - central(step)) / 3;
  }
  return result;
}

[[noreturn]] inline void refuse() { throw std::logic_error("is predicted, and not interpreted"); }

}  // namespace plumbline::tests
