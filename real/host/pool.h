// The buffer of a tensor in host memory. Elements of every format are stored as floats. Formats of 16 bits are rounded
// after an operator has written them (real/host/rounding.h) and take 16 bits in packets. Whole numbers (indices, token
// ids) are exact up to 2^24.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
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

// Which tokens a dispatch sent to each rank of the group, and how many it received from each. dispatch stores it with
// the router's indices; combine and the gradients read it there.
struct DispatchLayout {
  std::vector<std::vector<Index>> sent;  // [rank of the group] own tokens, ascending
  std::vector<Index> received;           // [rank of the group] number of tokens; received tensors are in this order
};

class HostBuffer final : public Buffer {
 public:
  // Takes uninitialized memory of the pool, with a capacity of rows x columns.
  HostBuffer(Pool& pool, model::DataType type, Index rows, Index columns);
  // A view of memory that it does not own.
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

  // Changes the shape, which routing decides; the contents are lost. A view cannot grow.
  void resize(Index rows) { resize(rows, columns_); }
  void resize(Index rows, Index columns);

  MatrixMap matrix() { return {data_, rows_, columns_}; }
  ConstMatrixMap matrix() const { return {data_, rows_, columns_}; }
  std::span<float> elements() { return {data_, static_cast<std::size_t>(size())}; }
  std::span<const float> elements() const { return {data_, static_cast<std::size_t>(size())}; }
  ArrayMap array() { return {data_, size()}; }
  ConstArrayMap array() const { return {data_, size()}; }

  std::shared_ptr<const DispatchLayout> dispatch_layout;  // only of a router's indices [T, k], after their dispatch

 private:
  void count(Index elements);

  Pool* pool_ = nullptr;  // nullptr: a view
  model::DataType type_;
  float* data_ = nullptr;
  Index rows_ = 0, columns_ = 0;
  std::size_t capacity_ = 0;  // floats
  double counted_ = 0;        // bytes of it in the pool's count
};

// A memory pool for buffers. Pieces come from large blocks and are reused after they are given back, so that steps
// after the first allocate nothing. Their addresses are staggered over cache sets, because operands that all begin at
// multiples of a page would evict each other.

class Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  struct Piece {
    float* data = nullptr;
    std::size_t capacity = 0;  // floats
  };
  // Returns at least `floats` floats, aligned to 64 bytes. Any thread may call it.
  Piece take(std::size_t floats);
  void give_back(Piece piece);
  // Adds what a tensor takes in its own format, or subtracts it.
  void count(double bytes);
  double most_bytes() const;  // the highest sum of count()

 private:
  float* carve(std::size_t floats);

  mutable std::mutex mutex_;
  double bytes_ = 0, most_bytes_ = 0;
  std::vector<std::unique_ptr<float[]>> blocks_;
  float* next_ = nullptr;
  std::size_t left_ = 0;                             // free floats from next_ on
  std::size_t stagger_ = 0;                          // offset of the next piece, in cache lines
  std::map<std::size_t, std::vector<float*>> free_;  // by capacity
};

}  // namespace plumbline::real::host
