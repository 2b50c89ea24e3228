#include "real/cuda/operators/detail/row_positions.h"

#include <algorithm>
#include <cstddef>

#include "real/cuda/kernels/arithmetic/permutation.h"

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

// Every received token has at least one local expert, so that the largest number in the map is the last token.
RowLists lists_of(const std::vector<std::int32_t>& map) {
  RowLists lists;
  for (const std::int32_t token : map) lists.tokens = std::max<std::int64_t>(lists.tokens, token + 1);
  std::vector<std::int64_t> used(static_cast<std::size_t>(lists.tokens));
  for (const std::int32_t token : map)
    if (token >= 0) lists.slots = std::max(lists.slots, ++used[static_cast<std::size_t>(token)]);
  lists.rows.assign(static_cast<std::size_t>(lists.tokens * lists.slots), -1);
  std::fill(used.begin(), used.end(), 0);
  for (std::size_t row = 0; row < map.size(); ++row) {
    if (map[row] < 0) continue;
    const std::int64_t slot = used[static_cast<std::size_t>(map[row])]++;
    lists.rows[static_cast<std::size_t>(map[row] * lists.slots + slot)] = static_cast<std::int32_t>(row);
  }
  return lists;
}

std::vector<std::int64_t> row_offsets(const std::vector<std::int64_t>& rows_per_expert, std::int64_t alignment) {
  std::vector<std::int64_t> offsets = {0};
  for (const std::int64_t rows : rows_per_expert) offsets.push_back(offsets.back() + aligned_rows(rows, alignment));
  return offsets;
}

}  // namespace plumbline::real::cuda
