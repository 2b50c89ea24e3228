#include "real/host/buffer.h"

#include <cassert>

#include "real/host/pool.h"

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

}  // namespace plumbline::real::host
