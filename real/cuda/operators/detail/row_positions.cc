#include "real/cuda/operators/detail/row_positions.h"

#include <vector>

#include "real/cuda/operators/row_lists.h"

namespace plumbline::real::cuda {

Status make_positions(CudaBuffer& map, std::int64_t tokens, std::int64_t slots, bool of_choice) {
  const std::int64_t bytes = tokens * slots * static_cast<std::int64_t>(sizeof(std::int32_t));
  if (map.positions == nullptr || map.positions->memory.bytes() < bytes) {
    auto positions = std::make_shared<RowPositions>();
    // Token counts vary from step to step: a quarter more avoids a reallocation at each new maximum.
    PLUMBLINE_TRY(positions->memory.allocate(bytes + bytes / 4));
    map.positions = std::move(positions);
  }
  map.positions->tokens = tokens;
  map.positions->slots = slots;
  map.positions->of_choice = of_choice;
  return {};
}

Status find_positions(const Call& call, CudaBuffer& map) {
  std::vector<std::int32_t> tokens_of_rows(static_cast<std::size_t>(map.rows()));
  PLUMBLINE_TRY(
      outcome(cudaMemcpyAsync(tokens_of_rows.data(), map.view().data, tokens_of_rows.size() * sizeof(std::int32_t),
                              cudaMemcpyDeviceToHost, call.stream),
              "reading a row map"));
  PLUMBLINE_TRY(outcome(cudaStreamSynchronize(call.stream), "reading a row map"));
  const RowLists lists = lists_of(tokens_of_rows);
  PLUMBLINE_TRY(make_positions(map, lists.tokens, lists.slots, false));
  PLUMBLINE_TRY(outcome(cudaMemcpyAsync(map.positions->data(), lists.rows.data(),
                                        lists.rows.size() * sizeof(std::int32_t), cudaMemcpyHostToDevice, call.stream),
                        "writing the positions of rows"));
  return outcome(cudaStreamSynchronize(call.stream), "writing the positions of rows");
}

}  // namespace plumbline::real::cuda
