#include <numbers>
#include <unsupported/Eigen/SpecialFunctions>

#include "real/host/operators/operators.h"
#include "real/host/operators/rows.h"

namespace plumbline::real::host {
namespace {

// Returns the weight of row i; 1 where the operator has no weights.
float row_weight(const Call& call, std::size_t operand, Index i) {
  return operand < call.ins() ? call.in(operand).data()[i] : 1;
}

auto normal_distribution(const auto& x) { return 0.5F * (1 + (x * static_cast<float>(1 / std::numbers::sqrt2)).erf()); }

}  // namespace

void swiglu(const Call& call) {
  const HostBuffer& gate_up = call.in(0);
  HostBuffer& out = shaped(call.out(0), gate_up.rows());
  const Index width = gate_up.columns() / 2;
  split(call, gate_up.rows(), gate_up.columns(), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const auto gate = row(gate_up, i).head(width), up = row(gate_up, i).tail(width);
      row(out, i) = row_weight(call, 1, i) * gate * up / (1 + (-gate).exp());
    }
  });
}

// Stores the sigmoid temporarily in the memory of the gate's gradient.
void swiglu_grad(const Call& call) {
  const HostBuffer &d_hidden = call.in(0), &gate_up = call.in(1);
  HostBuffer& d_gate_up = shaped(call.out(0), gate_up.rows());
  if (call.outs() > 1) shaped(call.out(1), gate_up.rows());
  const Index width = gate_up.columns() / 2;
  split(call, gate_up.rows(), gate_up.columns(), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const auto d = row(d_hidden, i), line = row(gate_up, i);
      const auto gate = line.head(width), up = line.tail(width);
      ArrayMap d_gate(d_gate_up.data() + i * 2 * width, width), d_up(d_gate_up.data() + (i * 2 + 1) * width, width);
      const float weight = row_weight(call, 2, i);
      d_gate = 1 / (1 + (-gate).exp());
      d_up = d * gate * d_gate;
      if (call.outs() > 1) call.out(1).data()[i] = (d_up * up).sum();
      d_up *= weight;
      d_gate = weight * d * up * d_gate * (1 + gate * (1 - d_gate));
    }
  });
}

void gelu(const Call& call) {
  const HostBuffer& x = call.in(0);
  HostBuffer& y = shaped(call.out(0), x.rows());
  split(call, x.rows(), x.columns(), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) row(y, i) = row(x, i) * normal_distribution(row(x, i));
  });
}

void gelu_grad(const Call& call) {
  const HostBuffer &dy = call.in(0), &x = call.in(1);
  HostBuffer& dx = shaped(call.out(0), x.rows());
  const auto density_at_0 = static_cast<float>(std::numbers::inv_sqrtpi / std::numbers::sqrt2);
  split(call, x.rows(), x.columns(), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const auto from = row(x, i);
      row(dx, i) = row(dy, i) * (normal_distribution(from) + from * density_at_0 * (-0.5F * from.square()).exp());
    }
  });
}

}  // namespace plumbline::real::host
