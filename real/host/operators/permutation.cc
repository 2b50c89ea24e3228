#include "real/host/operators/gemm.h"
#include "real/host/operators/operators.h"
#include "real/host/operators/rows.h"

namespace plumbline::real::host {
namespace {

Index whole(float number) { return static_cast<Index>(number); }

// Calls body(token, slot, n) for every (token, slot) of a local expert; n is its row, in the order of expert, then
// token. Slots with expert -1 belong to other ranks. `next` holds each expert's first row; the calls advance it.
template <class Body>
void for_rows(const HostBuffer& indices, float* next, const Body& body) {
  for (Index token = 0; token < indices.rows(); ++token)
    for (Index slot = 0; slot < indices.columns(); ++slot) {
      const Index expert = whole(row(indices, token)(slot));
      if (expert < 0) continue;
      body(token, slot, whole(next[expert]));
      ++next[expert];
    }
}

// Computes the first row of each expert, [experts + 1].
void find_offsets(const HostBuffer& indices, Index experts, float* offsets) {
  std::fill_n(offsets, experts + 1, 0.0F);
  for (Index i = 0; i < indices.size(); ++i)
    if (indices.data()[i] >= 0) ++offsets[whole(indices.data()[i]) + 1];
  for (Index e = 0; e < experts; ++e) offsets[e + 1] += offsets[e];
}

void gather(const Call& call, const HostBuffer& x, const HostBuffer& map, HostBuffer& rows) {
  shaped(rows, map.rows());
  each_row(call, map.rows(), x.columns(), [&](Index n) { row(rows, n) = row(x, whole(map.data()[n])); });
}

// Sums each token's rows. Cores divide columns, because a token's rows may be anywhere.
void scatter(const Call& call, const HostBuffer& rows, const HostBuffer& map, HostBuffer& sums) {
  split(call, sums.columns(), sums.rows() + rows.rows(), [&](Index begin, Index end) {
    for (Index token = 0; token < sums.rows(); ++token) row(sums, token).segment(begin, end - begin).setZero();
    for (Index n = 0; n < map.rows(); ++n)
      row(sums, whole(map.data()[n])).segment(begin, end - begin) += row(rows, n).segment(begin, end - begin);
  });
}

}  // namespace

void permute(const Call& call) {
  const Index experts = call.attributes<model::DispatchAttributes>().experts_per_rank;
  const HostBuffer &indices = call.in(1), &weights = call.in(2);
  HostBuffer& offsets = call.out(3);
  find_offsets(indices, experts, offsets.data());
  const Index count = whole(offsets.data()[experts]);
  HostBuffer &map = shaped(call.out(1), count), &row_weights = shaped(call.out(2), count);
  float* const next = scratch<Scratch::tokens>(experts);
  std::copy_n(offsets.data(), experts, next);
  for_rows(indices, next, [&](Index token, Index slot, Index n) {
    map.data()[n] = static_cast<float>(token);
    row_weights.data()[n] = row(weights, token)(slot);
  });
  gather(call, call.in(0), map, call.out(0));
}

void permute_grad(const Call& call) {
  const HostBuffer &d_row_weights = call.in(2), &indices = call.in(3);
  const Index experts = call.attributes<model::DispatchAttributes>().experts_per_rank;
  HostBuffer& d_weights = shaped(call.out(1), indices.rows());
  scatter(call, call.in(0), call.in(1), shaped(call.out(0), indices.rows()));
  float* const next = scratch<Scratch::tokens>(experts + 1);
  find_offsets(indices, experts, next);
  d_weights.matrix().setZero();
  for_rows(indices, next,
           [&](Index token, Index slot, Index n) { row(d_weights, token)(slot) = d_row_weights.data()[n]; });
}

void permute_transpose(const Call& call) {
  const HostBuffer &x = call.in(0), &map = call.in(1);
  HostBuffer& transposed = call.out(0);
  transposed.resize(x.columns(), map.rows());
  split(call, map.rows(), x.columns(), [&](Index begin, Index end) {
    for (Index n = begin; n < end; ++n)
      part(transposed, 0, n, x.columns(), 1) = part(x, whole(map.data()[n]), 0, 1, x.columns()).transpose();
  });
}

// Every received token has at least one local expert, so the largest number in the map is the last token.
void unpermute(const Call& call) {
  const HostBuffer& map = call.in(1);
  const Index tokens = map.rows() == 0 ? 0 : whole(map.array().maxCoeff()) + 1;
  scatter(call, call.in(0), map, shaped(call.out(0), tokens));
}

void gather_rows(const Call& call) { gather(call, call.in(0), call.in(1), call.out(0)); }

void gather_columns(const Call& call) {
  const HostBuffer &x = call.in(0), &map = call.in(1);
  HostBuffer& columns = call.out(0);
  columns.resize(x.rows(), map.rows());
  split(call, x.rows(), map.rows(), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i)
      for (Index n = 0; n < map.rows(); ++n) row(columns, i)(n) = row(x, i)(whole(map.data()[n]));
  });
}

}  // namespace plumbline::real::host
