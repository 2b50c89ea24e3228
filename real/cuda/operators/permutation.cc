#include "real/cuda/kernels/permutation/permutation.h"

#include "real/cuda/operators/detail/row_positions.h"
#include "real/cuda/operators/operators.h"

namespace plumbline::real::cuda {
namespace {

// Counts the rows of each expert into scratch memory.
Status start_order(const Call& call, const CudaBuffer& indices, RowOrder& order) {
  const std::int64_t experts = call.attributes<model::DispatchAttributes>().experts_per_rank;
  if (experts > most_local_experts || indices.columns() > most_summed_rows)
    return {"a GPU orders rows of at most " + std::to_string(most_local_experts) + " experts and " +
            std::to_string(most_summed_rows) + " per token"};
  order.indices = indices.data<std::int32_t>();
  order.tokens = indices.rows();
  order.slots = static_cast<int>(indices.columns());
  order.experts = static_cast<int>(experts);
  void* memory = nullptr;
  PLUMBLINE_TRY(call.machine.scratch.take(call.stream, row_order_bytes(order.entries(), experts), memory));
  order.totals = static_cast<std::int32_t*>(memory);
  order.counts = order.totals + experts;
  return outcome(count_rows(order, call.stream), "counting the rows of experts");
}

// Sets the rows of each expert on the host, where dispatch stores them. For other indices they are counted once, which
// waits for the stream.
Status learn_rows(const Call& call, const RowOrder& order, CudaBuffer& indices) {
  const auto experts = static_cast<std::size_t>(order.experts);
  if (indices.known.size() == experts) return {};
  std::vector<std::int32_t> totals(experts);
  PLUMBLINE_TRY(outcome(
      cudaMemcpyAsync(totals.data(), order.totals, experts * sizeof(std::int32_t), cudaMemcpyDeviceToHost, call.stream),
      "reading the rows of experts"));
  PLUMBLINE_TRY(outcome(cudaStreamSynchronize(call.stream), "reading the rows of experts"));
  indices.known.assign(totals.begin(), totals.end());
  return {};
}

// Uses the positions that permute stored, or computes them again from the same choice.
Status positions_for(const Call& call, CudaBuffer& indices, CudaBuffer& map) {
  if (map.positions != nullptr && map.positions->of_choice && map.positions->tokens == indices.rows() &&
      map.positions->slots == indices.columns())
    return {};
  RowOrder order;
  PLUMBLINE_TRY(start_order(call, indices, order));
  PLUMBLINE_TRY(learn_rows(call, order, indices));
  PLUMBLINE_TRY(make_positions(map, indices.rows(), indices.columns(), true));
  // The row map is padded unless it has exactly as many rows as the experts.
  order.alignment = row_offsets(indices.known, 1).back() == map.rows() ? 1 : row_alignment_fp8;
  PlacedRows placed;
  placed.positions = map.positions->data();
  return outcome(place_rows(order, placed, call.stream), "placing rows by expert");
}

Status sum(const Call& call, const CudaBuffer& rows, const RowPositions& positions, CudaBuffer& sums) {
  PLUMBLINE_TRY(sums.resize(positions.tokens));
  return outcome(sum_rows(rows.view(), positions.data(), positions.slots, sums.view(), call.stream),
                 "the sum of a token's rows");
}

}  // namespace

Status permute(const Call& call) {
  CudaBuffer &indices = call.in(1), &rows = call.out(0), &map = call.out(1), &row_weights = call.out(2);
  CudaBuffer& offsets = call.out(3);
  RowOrder order;
  order.alignment = rows.format() == Format::fp8_tile ? row_alignment_fp8 : 1;
  PLUMBLINE_TRY(start_order(call, indices, order));
  PLUMBLINE_TRY(learn_rows(call, order, indices));
  offsets.known = row_offsets(indices.known, order.alignment);
  const std::int64_t count = offsets.known.back();
  for (CudaBuffer* const out : {&rows, &map, &row_weights}) PLUMBLINE_TRY(out->resize(count));
  PLUMBLINE_TRY(make_positions(map, indices.rows(), indices.columns(), true));
  PlacedRows placed;
  placed.rows = count;
  placed.weights = call.in(2).data<float>();
  placed.positions = map.positions->data();
  placed.map = map.data<std::int32_t>();
  placed.row_weights = row_weights.data<float>();
  placed.offsets = offsets.data<std::int32_t>();
  PLUMBLINE_TRY(outcome(place_rows(order, placed, call.stream), "placing rows by expert"));
  return outcome(gather_rows(call.in(0).view(), placed.map, 0, rows.view(), call.stream), "gathering rows");
}

Status permute_grad(const Call& call) {
  CudaBuffer &map = call.in(1), &indices = call.in(3), &d_weights = call.out(1);
  PLUMBLINE_TRY(positions_for(call, indices, map));
  PLUMBLINE_TRY(sum(call, call.in(0), *map.positions, call.out(0)));
  PLUMBLINE_TRY(d_weights.resize(indices.rows()));
  return outcome(gather_numbers(call.in(2).data<float>(), map.positions->data(), d_weights.data<float>(),
                                d_weights.elements(), call.stream),
                 "gathering the gradients of weights");
}

Status permute_transpose(const Call& call) {
  CudaBuffer &x = call.in(0), &map = call.in(1), &transposed = call.out(0);
  PLUMBLINE_TRY(transposed.resize(x.columns(), map.rows()));
  return outcome(transpose(x.view(), map.data<std::int32_t>(), transposed.view(), call.stream),
                 "gathering transposed rows");
}

Status unpermute(const Call& call) {
  CudaBuffer& map = call.in(1);
  if (map.positions == nullptr) PLUMBLINE_TRY(find_positions(call, map));
  return sum(call, call.in(0), *map.positions, call.out(0));
}

Status gather_rows(const Call& call) {
  CudaBuffer &map = call.in(1), &rows = call.out(0);
  PLUMBLINE_TRY(rows.resize(map.rows()));
  return outcome(gather_rows(call.in(0).view(), map.data<std::int32_t>(), 0, rows.view(), call.stream),
                 "gathering rows");
}

Status gather_columns(const Call& call) {
  CudaBuffer &x = call.in(0), &map = call.in(1), &columns = call.out(0);
  PLUMBLINE_TRY(columns.resize(x.rows(), map.rows()));
  return outcome(gather_columns(x.view(), map.data<std::int32_t>(), columns.view(), call.stream), "gathering columns");
}

}  // namespace plumbline::real::cuda
