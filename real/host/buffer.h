// Memory of a tensor in the host's memory. Whatever the tensor's format, elements are held as floats; formats of 16
// bits are rounded when an operator has written them (real/host/rounding.h) and take 16 bits on the wire. Whole numbers
// (indices, token ids) are exact up to 2^24.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "model/base/data_type.h"
#include "real/executor/device.h"

namespace plumbline::real::host {

using Eigen::Index;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using MatrixMap = Eigen::Map<Matrix>;
using ConstMatrixMap = Eigen::Map<const Matrix>;
using ArrayMap = Eigen::Map<Eigen::ArrayXf>;
using ConstArrayMap = Eigen::Map<const Eigen::ArrayXf>;

class Pool;

// Which tokens of this rank an exchange sent to which rank of the group, and how many it received from each. dispatch
// leaves it with the indices that decided it; combine and the gradients read it there.
struct DispatchLayout {
  std::vector<std::vector<Index>> sent;  // [rank of the group] own tokens, ascending
  std::vector<Index> received;           // [rank of the group] tokens, in this order in the received tensors
};

class HostBuffer final : public Buffer {
 public:
  // Memory of the pool, not cleared; capacity for rows x columns.
  HostBuffer(Pool& pool, model::DataType type, Index rows, Index columns);
  // A view of memory that somebody else owns.
  HostBuffer(float* data, model::DataType type, Index rows, Index columns);
  ~HostBuffer() override;
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

  model::DataType type() const { return type_; }
  Index rows() const { return rows_; }
  Index columns() const { return columns_; }
  Index size() const { return rows_ * columns_; }
  float* data() { return data_; }
  const float* data() const { return data_; }

  // Another shape, for what routing decides; contents are lost. Not for views that would grow.
  void resize(Index rows) { resize(rows, columns_); }
  void resize(Index rows, Index columns);

  MatrixMap matrix() { return {data_, rows_, columns_}; }
  ConstMatrixMap matrix() const { return {data_, rows_, columns_}; }
  std::span<float> elements() { return {data_, static_cast<std::size_t>(size())}; }
  std::span<const float> elements() const { return {data_, static_cast<std::size_t>(size())}; }
  ArrayMap array() { return {data_, size()}; }
  ConstArrayMap array() const { return {data_, size()}; }

  std::shared_ptr<const DispatchLayout> dispatch_layout;  // of the indices [T, k] of a router, once dispatch has run

 private:
  Pool* pool_ = nullptr;  // nullptr: a view
  model::DataType type_;
  float* data_ = nullptr;
  Index rows_ = 0, columns_ = 0;
  std::size_t capacity_ = 0;  // floats
};

}  // namespace plumbline::real::host
