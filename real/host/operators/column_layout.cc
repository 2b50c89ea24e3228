#include "real/host/operators/gemm.h"
#include "real/host/operators/operators.h"
#include "real/host/operators/rows.h"

namespace plumbline::real::host {
namespace {

// The rows and columns of a tile of the transposition: input and output, 8 KiB, fit the first-level cache (assumed).
constexpr Index tile = 32;

void copy_columns(const HostBuffer& from, Index source, HostBuffer& to, Index target, Index width, Index i) {
  row(to, i).segment(target, width) = row(from, i).segment(source, width);
}

}  // namespace

// Transposes a matrix, or each expert's matrix.
void transpose(const Call& call) {
  const HostBuffer& x = call.in(0);
  const auto& shape = call.kernel.graph->tensor(call.op().reads[0]).shape;
  const Index experts = shape.size() == 3 ? shape[0].size : 1;
  const Index height = x.rows() / experts, width = x.columns();
  HostBuffer& y = call.out(0);
  y.resize(experts * width, height);
  split(call, experts * width, height, [&](Index begin, Index end) {
    for (Index to = begin; to < end;) {
      const Index e = to / width, column = to % width;
      const Index count = std::min({tile, width - column, end - to});
      for (Index from = 0; from < height; from += tile) {
        const Index rows = std::min(tile, height - from);
        part(y, to, from, count, rows) = part(x, e * height + from, column, rows, count).transpose();
      }
      to += count;
    }
  });
}

void cast_transpose(const Call& call) { transpose(call); }  // run() rounds the output

void split(const Call& call) {
  const HostBuffer& x = call.in(0);
  for (std::size_t out = 0; out < call.outs(); ++out) shaped(call.out(out), x.rows());
  each_row(call, x.rows(), x.columns(), [&](Index i) {
    Index at = 0;
    for (std::size_t out = 0; out < call.outs(); at += call.out(out++).columns())
      copy_columns(x, at, call.out(out), 0, call.out(out).columns(), i);
  });
}

void concatenate(const Call& call) {
  HostBuffer& y = shaped(call.out(0), call.in(0).rows());
  each_row(call, y.rows(), y.columns(), [&](Index i) {
    Index at = 0;
    for (std::size_t in = 0; in < call.ins(); at += call.in(in++).columns())
      copy_columns(call.in(in), 0, y, at, call.in(in).columns(), i);
  });
}

void assemble_heads(const Call& call) {
  const auto& a = call.attributes<model::HeadsAttributes>();
  const HostBuffer &kv = call.in(0), &rotary_key = call.in(1);
  HostBuffer &k = call.out(0), &v = call.out(1);
  split(call, kv.rows(), k.columns() + v.columns(), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i)
      for (Index head = 0; head < a.heads; ++head) {
        const Index from = head * (a.nope_dim + a.value_dim), to = head * (a.nope_dim + a.rope_dim);
        copy_columns(kv, from, k, to, a.nope_dim, i);
        copy_columns(rotary_key, 0, k, to + a.nope_dim, a.rope_dim, i);
        copy_columns(kv, from + a.nope_dim, v, head * a.value_dim, a.value_dim, i);
      }
  });
}

void assemble_heads_grad(const Call& call) {
  const auto& a = call.attributes<model::HeadsAttributes>();
  const HostBuffer &dk = call.in(0), &dv = call.in(1);
  HostBuffer &dkv = call.out(0), &d_rotary_key = call.out(1);
  each_row(call, dk.rows(), dk.columns() + dv.columns(), [&](Index i) {
    row(d_rotary_key, i).setZero();
    for (Index head = 0; head < a.heads; ++head) {
      const Index to = head * (a.nope_dim + a.value_dim), from = head * (a.nope_dim + a.rope_dim);
      copy_columns(dk, from, dkv, to, a.nope_dim, i);
      copy_columns(dv, head * a.value_dim, dkv, to + a.nope_dim, a.value_dim, i);
      row(d_rotary_key, i) += row(dk, i).segment(from + a.nope_dim, a.rope_dim);
    }
  });
}

}  // namespace plumbline::real::host
