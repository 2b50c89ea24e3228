#include "real/host/operators/operators.h"
#include "real/host/operators/rows.h"

namespace plumbline::real::host {
namespace {

// Returns a token's row in this rank's part of the vocabulary; -1 where another rank has it.
Index own_row(const Call& call, const HostBuffer& ids, Index t, const HostBuffer& table) {
  const Index at = static_cast<Index>(ids.data()[t]) - call.kernel.tensor_rank * table.rows();
  return at >= 0 && at < table.rows() ? at : -1;
}

}  // namespace

void embedding(const Call& call) {
  const HostBuffer &ids = call.in(0), &table = call.in(1);
  HostBuffer& x = call.out(0);
  each_row(call, ids.rows(), table.columns(), [&](Index t) {
    const Index at = own_row(call, ids, t, table);
    if (at < 0)
      row(x, t).setZero();
    else
      row(x, t) = row(table, at);
  });
}

// Divides columns over cores, because tokens with the same id add to the same row.
void embedding_grad(const Call& call) {
  const HostBuffer &dx = call.in(0), &ids = call.in(1);
  HostBuffer& d_table = call.out(0);
  split(call, dx.columns(), dx.rows(), [&](Index begin, Index end) {
    for (Index t = 0; t < ids.rows(); ++t)
      if (const Index at = own_row(call, ids, t, d_table); at >= 0)
        row(d_table, at).segment(begin, end - begin) += row(dx, t).segment(begin, end - begin);
  });
}

void add_positions(const Call& call) {
  const Index length = call.attributes<model::PositionAttributes>().sequence_length;
  const HostBuffer &x = call.in(0), &table = call.in(1);
  const HostBuffer* const lengths = call.ins() > 2 ? &call.in(2) : nullptr;
  each_row(call, x.rows(), x.columns(),
           [&](Index t) { row(call.out(0), t) = row(x, t) + row(table, position(t, length, lengths)); });
}

void add_positions_grad(const Call& call) {
  const Index length = call.attributes<model::PositionAttributes>().sequence_length;
  const HostBuffer& dx = call.in(0);
  split(call, length, dx.size() / length, [&](Index begin, Index end) {
    for (Index place = begin; place < end; ++place)
      for (Index t = place; t < dx.rows(); t += length) row(call.out(0), place) += row(dx, t);
  });
}

void shift_tokens(const Call& call) {
  const auto& a = call.attributes<model::ShiftAttributes>();
  const HostBuffer& ids = call.in(0);
  for (Index t = 0; t < ids.rows(); ++t) {
    const Index last = t - t % a.sequence_length + a.sequence_length - 1;
    call.out(0).data()[t] = ids.data()[std::min<Index>(t + a.distance, last)];
  }
}

}  // namespace plumbline::real::host
