#include "real/cuda/operators/row_positions.h"

#include <algorithm>

#include "real/cuda/arithmetic_routing.h"

namespace plumbline::real::cuda {

Status make_positions(CudaBuffer& map, std::int64_t tokens, std::int64_t slots) {
  const std::int64_t bytes = tokens * slots * static_cast<std::int64_t>(sizeof(std::int32_t));
  if (map.positions == nullptr || map.positions->memory.bytes() < bytes) {
    auto positions = std::make_shared<RowPositions>();
    // Numbers of tokens vary from step to step: a quarter more keeps memory from being replaced for each new maximum.
    PLUMBLINE_TRY(positions->memory.allocate(bytes + bytes / 4));
    map.positions = std::move(positions);
  }
  map.positions->tokens = tokens;
  map.positions->slots = slots;
  return {};
}

Status find_positions(const Call& call, CudaBuffer& map) {
  std::vector<std::int32_t> tokens_of_rows(static_cast<std::size_t>(map.rows()));
  PLUMBLINE_TRY(
      outcome(cudaMemcpyAsync(tokens_of_rows.data(), map.view().data, tokens_of_rows.size() * sizeof(std::int32_t),
                              cudaMemcpyDeviceToHost, call.stream),
              "reading a row map"));
  PLUMBLINE_TRY(outcome(cudaStreamSynchronize(call.stream), "reading a row map"));
  std::int64_t tokens = 0, slots = 0;
  const std::vector<std::int32_t> positions = positions_of(tokens_of_rows, tokens, slots);
  PLUMBLINE_TRY(make_positions(map, tokens, slots));
  PLUMBLINE_TRY(outcome(cudaMemcpyAsync(map.positions->data(), positions.data(),
                                        positions.size() * sizeof(std::int32_t), cudaMemcpyHostToDevice, call.stream),
                        "writing the positions of rows"));
  return outcome(cudaStreamSynchronize(call.stream), "writing the positions of rows");
}

// A token is received for at least one local expert, so the largest number in the map is the last token.
std::vector<std::int32_t> positions_of(const std::vector<std::int32_t>& map, std::int64_t& tokens,
                                       std::int64_t& slots) {
  std::int32_t last = -1;
  for (const std::int32_t token : map) last = std::max(last, token);
  tokens = last + 1;
  std::vector<std::int64_t> used(static_cast<std::size_t>(tokens));
  slots = 1;
  for (const std::int32_t token : map)
    if (token >= 0) slots = std::max(slots, ++used[static_cast<std::size_t>(token)]);
  std::vector<std::int32_t> positions(static_cast<std::size_t>(tokens * slots), -1);
  std::fill(used.begin(), used.end(), 0);
  for (std::size_t row = 0; row < map.size(); ++row) {
    if (map[row] < 0) continue;
    const std::int64_t slot = used[static_cast<std::size_t>(map[row])]++;
    positions[static_cast<std::size_t>(map[row] * slots + slot)] = static_cast<std::int32_t>(row);
  }
  return positions;
}

std::vector<std::int64_t> row_offsets(const std::vector<std::int64_t>& rows_per_expert, std::int64_t alignment) {
  std::vector<std::int64_t> offsets = {0};
  for (const std::int64_t rows : rows_per_expert) offsets.push_back(offsets.back() + aligned_rows(rows, alignment));
  return offsets;
}

}  // namespace plumbline::real::cuda
