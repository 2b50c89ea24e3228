#include "real/cuda/operators/detail/multiply.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "real/cuda/kernels/permutation/permutation.h"
#include "real/cuda/operators/gemm_cache.h"

namespace plumbline::real::cuda {
namespace {

constexpr std::int64_t fp8_depth = 16, fp8_width = 8;  // elements: required multiples of the library's FP8 GEMMs
constexpr std::int64_t largest_alignment = 256;        // bytes: of an allocation

cudaDataType_t data_type(Format format) {
  switch (format) {
    case Format::fp32:
      return CUDA_R_32F;
    case Format::fp16:
      return CUDA_R_16F;
    case Format::bf16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_8F_E4M3;
  }
}

ScaleMode scale_mode(Format format) {
  switch (format) {
    case Format::fp8_tile:
      return ScaleMode::row_blocks;
    case Format::fp8_block:
      return ScaleMode::square_blocks;
    case Format::fp8_tensor:
      return ScaleMode::tensor;
    default:
      return ScaleMode::none;
  }
}

bool fp8_is_taken(const GemmTask& t) {
  const bool sizes = t.depth() % fp8_depth == 0 && t.a.tensor.columns % fp8_depth == 0 &&
                     t.b.tensor.columns % fp8_depth == 0 && t.c.rows % fp8_width == 0 && t.c.columns % fp8_width == 0;
  return sizes && !t.transpose_a && t.transpose_b && t.a.column % scale_tile == 0 && t.b.column % scale_tile == 0 &&
         t.batch == 1;
}

// Returns the common alignment of the addresses of all GEMMs of a batch.
std::int64_t alignment(const MatrixPart& part, std::int64_t next) {
  const auto address = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(part.data()));
  return std::gcd(largest_alignment, std::gcd(address, data_bytes(part.tensor.format, next)));
}

// Multiply-adds of the largest GEMM that plumbline's own kernel computes instead of the library: 4 ms at 2e12 a second,
// its rate on a GPU (assumed).
constexpr double most_plain_work = 8e9;

bool is_small(const GemmTask& task) {
  return static_cast<double>(task.c.rows) * static_cast<double>(task.c.columns) *
             static_cast<double>(task.depth() * task.batch) <=
         most_plain_work;
}

constexpr std::int64_t scratch_step = 64;  // floats: 256 bytes, the alignment of the next region of scratch memory

std::int64_t matrix_height(const TensorView& tensor) {
  return tensor.matrix_rows > 0 ? tensor.matrix_rows : tensor.rows;
}

// Returns the rows of blocks of a part that begins and ends at a block or a matrix.
std::int64_t block_rows(const TensorView& tensor, std::int64_t rows) {
  const std::int64_t height = matrix_height(tensor);
  return rows / height * tiles_of(height) + tiles_of(rows % height);
}

bool stays(const TensorView& tensor) { return square_row(tensor) == tiles_of(tensor.columns); }

}  // namespace

bool library_takes(const GemmTask& t) {
  if (t.depth() == 0 || !is_float(t.c.tensor.format)) return false;
  if (t.bias.data != nullptr && t.bias.format != t.c.tensor.format) return false;
  const Format a = t.a.tensor.format, b = t.b.tensor.format;
  if (is_fp8(a) && is_fp8(b)) return fp8_is_taken(t);
  return a == b && is_float(a);
}

bool own_kernel_takes(const GemmTask& t) {
  const auto readable = [](Format format) { return is_float(format) || is_fp8(format); };
  return readable(t.a.tensor.format) && readable(t.b.tensor.format) && is_float(t.c.tensor.format);
}

GemmShape shape_of(const GemmTask& t) {
  GemmShape s;
  s.m = t.c.rows;
  s.n = t.c.columns;
  s.k = t.depth();
  s.operand = data_type(t.a.tensor.format);
  s.result = data_type(t.c.tensor.format);
  s.x_k_contiguous = !t.transpose_a;
  s.w_k_contiguous = t.transpose_b;
  s.accumulate = t.accumulate;
  s.tf32 = t.tf32;
  s.bias = t.bias.data != nullptr;
  s.target_sms = t.target_sms;
  s.alignment = static_cast<int>(
      std::gcd(std::gcd(alignment(t.a, t.a_next), alignment(t.b, t.b_next)), alignment(t.c, t.c_next)));
  s.x_scale = scale_mode(t.a.tensor.format);
  s.w_scale = scale_mode(t.b.tensor.format);
  s.x_stride = t.a.tensor.columns;
  s.w_stride = t.b.tensor.columns;
  s.d_stride = t.c.tensor.columns;
  s.batch = t.batch;
  s.x_batch_stride = t.a_next;
  s.w_batch_stride = t.b_next;
  s.d_batch_stride = t.c_next;
  s.routed = t.routed;
  return s;
}

GemmOperands operands_of(const GemmTask& t) {
  GemmOperands o;
  o.x = t.a.data();
  o.w = t.b.data();
  o.d = t.c.data();
  o.x_scales = t.a_scales;
  o.w_scales = t.b_scales;
  o.bias = t.bias.data;
  o.factor = t.factor;
  return o;
}

PlainGemm plain_of(const GemmTask& t, std::int64_t index) {
  PlainGemm p{t.a, t.b, t.c, t.transpose_a, t.transpose_b, t.accumulate, t.factor, t.bias};
  p.a.column += index * t.a_next;
  p.b.column += index * t.b_next;
  p.c.column += index * t.c_next;
  return p;
}

Status take_gemm_scratch(const Call& call, std::int64_t scale_floats, GemmScratch& scratch) {
  const std::int64_t scale_bytes = scale_floats * static_cast<std::int64_t>(sizeof(float));
  void* memory = nullptr;
  PLUMBLINE_TRY(call.machine.scratch.take(call.stream, scale_bytes + gemm_workspace_bytes, memory));
  scratch.scales = static_cast<float*>(memory);
  scratch.workspace = static_cast<char*>(memory) + scale_bytes;
  return {};
}

Status multiply(const Call& call, const GemmTask& task, const GemmScratch& scratch) {
  if (task.c.rows == 0 || task.c.columns == 0) return {};
  Status why{"no library has GEMMs of these formats or widths"};
  if (library_takes(task)) {
    const GemmShape shape = shape_of(task);
    const GemmOperands operands = operands_of(task);
    GemmCache& gemms = *call.machine.gemms;
    if (gemms.has(shape, operands, why)) return gemms.run(shape, operands, scratch.workspace, call.stream);
  }
  if (!is_small(task) || !own_kernel_takes(task)) return why;
  for (std::int64_t i = 0; i < task.batch; ++i)
    PLUMBLINE_TRY(outcome(plain_gemm(plain_of(task, i), call.stream), "a GEMM"));
  return {};
}

GemmTask task_of(const Call& call) {
  GemmTask task;
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

std::int64_t square_row(const TensorView& tensor) { return padded_block_count(tensor.columns); }

const float* stored_scales(const MatrixPart& part) {
  const std::int64_t blocks = tiles_of(part.tensor.columns);
  switch (part.tensor.format) {
    case Format::fp8_tile:
      return part.tensor.scales + part.row * blocks;
    case Format::fp8_block:
      return part.tensor.scales + block_rows(part.tensor, part.row) * blocks;
    default:
      return part.tensor.scales;
  }
}

std::int64_t scale_room(const MatrixPart& part) {
  std::int64_t floats = 0;
  if (part.tensor.format == Format::fp8_tile) floats = part.rows * tiles_of(part.tensor.columns);
  if (part.tensor.format == Format::fp8_block && !stays(part.tensor))
    floats = block_rows(part.tensor, part.rows) * square_row(part.tensor);
  return (floats + scratch_step - 1) / scratch_step * scratch_step;
}

Status lay_out_scales(const MatrixPart& part, float* scratch, cudaStream_t stream, const float*& scales) {
  const float* const stored = stored_scales(part);
  const std::int64_t blocks = tiles_of(part.tensor.columns);
  scales = scale_room(part) > 0 ? scratch : stored;
  if (scales == stored) return {};
  if (part.tensor.format == Format::fp8_tile)
    return outcome(lay_out_rows(stored, scratch, part.rows, blocks, stream), "laying out scales");
  return outcome(lay_out_squares(stored, scratch, block_rows(part.tensor, part.rows), blocks, stream),
                 "laying out scales");
}

}  // namespace plumbline::real::cuda
