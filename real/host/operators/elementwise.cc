#include <cmath>

#include "real/host/operators/operators.h"
#include "real/host/operators/rows.h"

namespace plumbline::real::host {
namespace {

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

// Copies the values; run() rounds them.
void cast(const Call& call) {
  const HostBuffer& x = call.in(0);
  HostBuffer& y = shaped(call.out(0), x.rows());
  split(call, x.size(), 1,
        [&](Index begin, Index end) { std::copy(x.data() + begin, x.data() + end, y.data() + begin); });
}

void add(const Call& call) {
  HostBuffer& sum = shaped(call.out(0), call.in(0).rows());
  split(call, sum.rows(), sum.columns() * static_cast<Index>(call.ins()), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      if (call.ins() == 1) row(sum, i) = row(call.in(0), i);
      if (call.ins() > 1) row(sum, i) = row(call.in(0), i) + row(call.in(1), i);
      for (std::size_t other = 2; other < call.ins(); ++other) row(sum, i) += row(call.in(other), i);
    }
  });
}

void add_bias(const Call& call) {
  const HostBuffer& y = call.in(0);
  HostBuffer& sum = shaped(call.out(0), y.rows());
  split(call, y.rows(), y.columns(), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) row(sum, i) = row(y, i) + call.in(1).array();
  });
}

void column_sum(const Call& call) {
  const HostBuffer& dy = call.in(0);
  const auto of_rows = [&](Index begin, Index end, float* sums) {
    for (Index i = begin; i < end; ++i) ArrayMap(sums, dy.columns()) += row(dy, i);
  };
  sum_rows(call, dy.rows(), dy.columns(), of_rows,
           [&](const float* sums) { call.out(0).array() += ConstArrayMap(sums, dy.columns()); });
}

void sigmoid_gate(const Call& call) {
  const HostBuffer &y = call.in(0), &gate = call.in(1);
  HostBuffer& out = shaped(call.out(0), y.rows());
  split(call, y.rows(), y.columns(), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) row(out, i) = row(y, i) * sigmoid(gate.data()[i]);
  });
}

void sigmoid_gate_grad(const Call& call) {
  const HostBuffer &d_out = call.in(0), &y = call.in(1), &gate = call.in(2);
  HostBuffer &dy = shaped(call.out(0), y.rows()), &d_gate = shaped(call.out(1), y.rows());
  split(call, y.rows(), y.columns(), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const float s = sigmoid(gate.data()[i]);
      row(dy, i) = row(d_out, i) * s;
      d_gate.data()[i] = (row(d_out, i) * row(y, i)).sum() * s * (1 - s);
    }
  });
}

}  // namespace plumbline::real::host
