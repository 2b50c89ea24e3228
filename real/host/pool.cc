#include "real/host/pool.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>

namespace plumbline::real::host {

HostBuffer::HostBuffer(Pool& pool, model::DataType type, Index rows, Index columns)
    : pool_(&pool), type_(type), rows_(rows), columns_(columns) {
  const Pool::Piece piece = pool.take(static_cast<std::size_t>(rows * columns));
  data_ = piece.data;
  capacity_ = piece.capacity;
  count(rows * columns);
}

HostBuffer::HostBuffer(float* data, model::DataType type, Index rows, Index columns)
    : type_(type), data_(data), rows_(rows), columns_(columns), capacity_(static_cast<std::size_t>(rows * columns)) {}

HostBuffer::~HostBuffer() {
  if (!pool_) return;
  count(0);
  pool_->give_back({data_, capacity_});
}

void HostBuffer::count(Index elements) {
  const double bytes = static_cast<double>(elements) * model::bytes_per_element(type_);
  pool_->count(bytes - counted_);
  counted_ = bytes;
}

void HostBuffer::resize(Index rows, Index columns) {
  rows_ = rows;
  columns_ = columns;
  if (pool_) count(rows * columns);
  const auto floats = static_cast<std::size_t>(rows * columns);
  if (floats <= capacity_) return;
  assert(pool_ && "a view cannot grow");
  pool_->give_back({data_, capacity_});
  const Pool::Piece piece = pool_->take(floats + floats / 2);  // a tensor that grew once is likely to grow again
  data_ = piece.data;
  capacity_ = piece.capacity;
}

namespace {

constexpr std::size_t line = 64 / sizeof(float);  // floats of a cache line (x86-64: 64 bytes, datasheet)
constexpr std::size_t lines_of_page = 64;         // of 4 KiB; as many as a first-level cache has sets
constexpr std::size_t block = (std::size_t{64} << 20) / sizeof(float);  // 64 MiB, assumed: many tensors, few blocks
// The step of the stagger, in cache lines: odd, so that it visits every line of a page, and about a third of a page, so
// that the two operands and the result of a GEMM are far apart.
constexpr std::size_t stagger_step = 21;

// Rounds sizes up to an eighth of a power of two, so that routed tensors of similar size reuse the same pieces.
std::size_t size_class(std::size_t floats) {
  const std::size_t step = std::max(line, std::bit_floor(std::max(floats, line)) / 8);
  return std::max(line, (floats + step - 1) / step * step);
}

std::size_t line_in_page(const float* data) {
  return reinterpret_cast<std::uintptr_t>(data) / (line * sizeof(float)) % lines_of_page;
}

float* aligned(float* data) {
  const std::size_t beyond = reinterpret_cast<std::uintptr_t>(data) / sizeof(float) % line;
  return beyond == 0 ? data : data + (line - beyond);
}

}  // namespace

Pool::Piece Pool::take(std::size_t floats) {
  const std::size_t capacity = size_class(floats);
  float* data = nullptr;
  {
    const std::lock_guard lock(mutex_);
    std::vector<float*>& free = free_[capacity];
    if (!free.empty()) {
      data = free.back();
      free.pop_back();
      return {data, capacity};
    }
    data = carve(capacity);
  }
  std::fill_n(data, capacity, 0.0F);  // the system maps memory at the first touch: now, not inside a step
  return {data, capacity};
}

void Pool::give_back(Piece piece) {
  const std::lock_guard lock(mutex_);
  free_[piece.capacity].push_back(piece.data);
}

void Pool::count(double bytes) {
  const std::lock_guard lock(mutex_);
  bytes_ += bytes;
  most_bytes_ = std::max(most_bytes_, bytes_);
}

double Pool::most_bytes() const {
  const std::lock_guard lock(mutex_);
  return most_bytes_;
}

float* Pool::carve(std::size_t floats) {
  const bool staggered = floats >= line * lines_of_page;  // smaller pieces are spread anyway
  const std::size_t needed = floats + (staggered ? line * lines_of_page : 0);
  if (left_ < needed) {
    const std::size_t size = std::max(block, needed) + line;
    blocks_.push_back(std::unique_ptr<float[]>(new float[size]));
    float* const begin = aligned(blocks_.back().get());
    if (needed > block) return begin;  // it has its own block; the rest of the current one is kept
    next_ = begin;
    left_ = block;
  }
  if (staggered) {
    const std::size_t skip = (stagger_ + lines_of_page - line_in_page(next_)) % lines_of_page * line;
    next_ += skip;
    left_ -= skip;
    stagger_ = (stagger_ + stagger_step) % lines_of_page;
  }
  float* const data = next_;
  next_ += floats;
  left_ -= floats;
  return data;
}

}  // namespace plumbline::real::host
