#include <cassert>

#include "real/host/operators/gemm.h"
#include "real/host/operators/operators.h"
#include "real/host/operators/rows.h"

namespace plumbline::real::host {
namespace {

// Returns the rows of A or B that belong to expert e.
Range rows_of(const HostBuffer& offsets, Index e) {
  return {static_cast<Index>(offsets.data()[e]), static_cast<Index>(offsets.data()[e + 1])};
}

Range share(Index n, const Kernel& kernel) {
  return {n * kernel.part / kernel.parts, n * (kernel.part + 1) / kernel.parts};
}

Range own_experts(const Call& call) { return share(call.in(2).size() - 1, call.kernel); }

Gemm gemm_of(const Call& call, bool adds) { return {1, adds, call.accumulation}; }

// Computes C[e] += op(A) op(B) over the expert's rows. Cores divide the concatenated rows of all C[e].
void weight_gradient(const Call& call, const model::MatmulAttributes& attributes) {
  const HostBuffer &a = call.in(0), &b = call.in(1), &offsets = call.in(2);
  HostBuffer& c = call.out(0);
  const Index height = attributes.transpose_a ? a.columns() : a.rows();
  const Range own = own_rows(call);
  split(call, own.end - own.begin, c.columns(), [&](Index begin, Index end) {
    for (Index at = own.begin + begin; at < own.begin + end;) {
      const Index e = at / height, first = at % height;
      const Index count = std::min(height - first, own.begin + end - at);
      const Range rows = rows_of(offsets, e);
      const Index depth = rows.end - rows.begin;
      const Operand left{
          attributes.transpose_a ? part(a, rows.begin, first, depth, count) : part(a, first, rows.begin, count, depth),
          attributes.transpose_a};
      const Operand right{
          attributes.transpose_b ? part(b, 0, rows.begin, b.rows(), depth) : part(b, rows.begin, 0, depth, b.columns()),
          attributes.transpose_b};
      if (depth > 0) multiply(left, right, part(c, at, 0, count, c.columns()), gemm_of(call, true));
      at += count;
    }
  });
}

}  // namespace

Range own_rows(const Call& call) {
  const Index rows = call.out(0).rows();
  if (call.kernel.parts == 1) return {0, rows};
  if (call.op().kind == model::OperatorKind::matmul) return share(rows, call.kernel);
  assert(call.op().kind == model::OperatorKind::grouped_matmul && "only GEMMs are shared between streams");
  const Range experts = own_experts(call);
  const HostBuffer& offsets = call.in(2);
  if (!call.attributes<model::MatmulAttributes>().accumulate)
    return {static_cast<Index>(offsets.data()[experts.begin]), static_cast<Index>(offsets.data()[experts.end])};
  const Index height = rows / (offsets.size() - 1);
  return {experts.begin * height, experts.end * height};
}

void matmul(const Call& call) {
  const auto& attributes = call.attributes<model::MatmulAttributes>();
  const HostBuffer &a = call.in(0), &b = call.in(1);
  HostBuffer& c = call.out(0);
  const Index depth = attributes.transpose_a ? a.rows() : a.columns();
  if (call.kernel.parts == 1) shaped(c, attributes.transpose_a ? a.columns() : a.rows());
  const Range own = own_rows(call);
  const Operand right{part(b, 0, 0, b.rows(), b.columns()), attributes.transpose_b};
  split(call, own.end - own.begin, depth * c.columns(), [&](Index begin, Index end) {
    const Index first = own.begin + begin, count = end - begin;
    const Operand left{attributes.transpose_a ? part(a, 0, first, depth, count) : part(a, first, 0, count, depth),
                       attributes.transpose_a};
    multiply(left, right, part(c, first, 0, count, c.columns()), gemm_of(call, attributes.accumulate));
    if (call.ins() > 2)
      for (Index i = first; i < first + count; ++i) row(c, i) += call.in(2).array();
  });
}

void grouped_matmul(const Call& call) {
  const auto& attributes = call.attributes<model::MatmulAttributes>();
  if (attributes.accumulate) return weight_gradient(call, attributes);
  const HostBuffer &a = call.in(0), &b = call.in(1), &offsets = call.in(2);
  HostBuffer& c = call.out(0);
  if (call.kernel.parts == 1) shaped(c, a.rows());
  const Index height = b.rows() / (offsets.size() - 1);
  const Range own = own_rows(call), experts = own_experts(call);
  split(call, own.end - own.begin, a.columns() * c.columns(), [&](Index begin, Index end) {
    for (Index e = experts.begin; e < experts.end; ++e) {
      const Range rows = rows_of(offsets, e);
      const Index first = std::max(rows.begin, own.begin + begin), last = std::min(rows.end, own.begin + end);
      if (first >= last) continue;
      multiply({part(a, first, 0, last - first, a.columns())},
               {part(b, e * height, 0, height, b.columns()), attributes.transpose_b},
               part(c, first, 0, last - first, c.columns()), gemm_of(call, false));
    }
  });
}

}  // namespace plumbline::real::host
