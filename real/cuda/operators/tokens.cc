#include "real/cuda/kernels/permutation/permutation.h"
#include "real/cuda/operators/operators.h"

namespace plumbline::real::cuda {
namespace {

// Returns the first id of this rank's part of the vocabulary.
std::int64_t first_id(const Call& call, const CudaBuffer& table) { return call.kernel.tensor_rank * table.rows(); }

}  // namespace

// Tokens in other ranks' parts get zeros.
Status embedding(const Call& call) {
  const CudaBuffer &ids = call.in(0), &table = call.in(1);
  return outcome(
      gather_rows(table.view(), ids.data<std::int32_t>(), first_id(call, table), call.out(0).view(), call.stream),
      "the embedding");
}

Status embedding_grad(const Call& call) {
  const CudaBuffer &dx = call.in(0), &ids = call.in(1), &table = call.out(0);
  std::int32_t* places = nullptr;
  PLUMBLINE_TRY(call.take(ids.rows(), places));
  PLUMBLINE_TRY(outcome(order_by_id(ids.data<std::int32_t>(), ids.rows(), places, call.stream), "ordering tokens"));
  return outcome(
      add_rows_by_id(dx.view(), ids.data<std::int32_t>(), places, first_id(call, table), table.view(), call.stream),
      "the gradient of the embedding");
}

Status add_positions(const Call& call) {
  const std::int64_t length = call.attributes<model::PositionAttributes>().sequence_length;
  return outcome(
      add_positions(call.in(0).view(), call.in(1).view(), length,
                    call.ins() > 2 ? call.in(2).data<const std::int32_t>() : nullptr, call.out(0).view(), call.stream),
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
  return outcome(shift_ids(ids.data<std::int32_t>(), ids.rows(), a.distance, a.sequence_length,
                           call.out(0).data<std::int32_t>(), call.stream),
                 "shifting tokens");
}

}  // namespace plumbline::real::cuda
