#include "real/cuda/operators/multiply.h"

#include <algorithm>

#include "real/cuda/operators/product_cache.h"

namespace plumbline::real::cuda {

namespace {

// Multiply-adds of the largest product that our own kernel takes in the library's place: at the 2e12 a second that it
// reaches on a GPU (assumed), 4 ms.
constexpr double most_plain_work = 8e9;

bool is_small(const ProductTask& task) {
  return static_cast<double>(task.c.rows) * static_cast<double>(task.c.columns) *
             static_cast<double>(task.depth() * task.batch) <=
         most_plain_work;
}

}  // namespace

Status take_product_room(const Call& call, std::int64_t scale_floats, ProductRoom& room) {
  const std::int64_t scale_bytes = scale_floats * static_cast<std::int64_t>(sizeof(float));
  void* memory = nullptr;
  PLUMBLINE_TRY(call.machine.scratch.take(call.stream, scale_bytes + product_workspace_bytes, memory));
  room.scales = static_cast<float*>(memory);
  room.workspace = static_cast<char*>(memory) + scale_bytes;
  return {};
}

Status multiply(const Call& call, const ProductTask& task, const ProductRoom& room) {
  if (task.c.rows == 0 || task.c.columns == 0) return {};
  Status why{"no library has products of these formats or widths"};
  if (library_takes(task)) {
    const ProductShape shape = shape_of(task);
    const ProductOperands operands = operands_of(task);
    ProductCache& products = *call.machine.products;
    if (products.has(shape, operands, why)) return products.run(shape, operands, room.workspace, call.stream);
  }
  if (!is_small(task) || !own_kernel_takes(task)) return why;
  for (std::int64_t i = 0; i < task.batch; ++i) {
    PLUMBLINE_TRY(outcome(plain_product(plain_of(task, i), call.stream), "a product"));
  }
  return {};
}

ProductTask task_of(const Call& call) {
  ProductTask task;
  task.tf32 = call.kernel.graph->tensor(call.op().reads[0]).type == model::DataType::tf32;
  task.target_sms = call.target_sms;
  return task;
}

Share share_of(std::int64_t count, const Kernel& kernel) {
  const std::int64_t begin = count * kernel.part / kernel.parts, end = count * (kernel.part + 1) / kernel.parts;
  return {begin, end - begin};
}

Share share_of_rows(std::int64_t rows, const Kernel& kernel) {
  const Share tiles = share_of(tiles_of(rows), kernel);
  const std::int64_t begin = std::min(rows, tiles.begin * scale_tile);
  return {begin, std::min(rows, (tiles.begin + tiles.count) * scale_tile) - begin};
}

}  // namespace plumbline::real::cuda
