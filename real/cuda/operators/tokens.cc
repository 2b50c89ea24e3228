#include "real/cuda/kernels/permutation/tokens.h"

#include "real/cuda/kernels/permutation/gather.h"
#include "real/cuda/operators/operators.h"

namespace plumbline::real::cuda {

namespace {

std::int32_t* ids_of(const CudaBuffer& buffer) { return buffer.data<std::int32_t>(); }

// The first id of this rank's part of the vocabulary.
std::int64_t first_id(const Call& call, const CudaBuffer& table) { return call.kernel.tensor_rank * table.rows(); }

}  // namespace

// Tokens of other ranks' parts get zeros.
Status embedding(const Call& call) {
  const CudaBuffer &ids = call.in(0), &table = call.in(1);
  return outcome(gather_rows(table.view(), ids_of(ids), first_id(call, table), call.out(0).view(), call.stream),
                 "the embedding");
}

Status embedding_grad(const Call& call) {
  const CudaBuffer &dx = call.in(0), &ids = call.in(1), &table = call.out(0);
  void* order = nullptr;
  PLUMBLINE_TRY(
      call.machine.scratch.take(call.stream, ids.rows() * static_cast<std::int64_t>(sizeof(std::int32_t)), order));
  auto* const places = static_cast<std::int32_t*>(order);
  PLUMBLINE_TRY(outcome(order_by_id(ids_of(ids), ids.rows(), places, call.stream), "ordering tokens"));
  return outcome(add_rows_by_id(dx.view(), ids_of(ids), places, first_id(call, table), table.view(), call.stream),
                 "the gradient of the embedding");
}

Status add_positions(const Call& call) {
  const std::int64_t length = call.attributes<model::PositionAttributes>().sequence_length;
  return outcome(add_positions(call.in(0).view(), call.in(1).view(), length, call.out(0).view(), call.stream),
                 "adding positions");
}

Status add_positions_grad(const Call& call) {
  const std::int64_t length = call.attributes<model::PositionAttributes>().sequence_length;
  return outcome(add_rows_by_position(call.in(0).view(), length, call.out(0).view(), call.stream),
                 "the gradient of positions");
}

Status shift_tokens(const Call& call) {
  const auto& a = call.attributes<model::ShiftAttributes>();
  const CudaBuffer& ids = call.in(0);
  return outcome(shift_ids(ids_of(ids), ids.rows(), a.distance, a.sequence_length, ids_of(call.out(0)), call.stream),
                 "shifting tokens");
}

}  // namespace plumbline::real::cuda
