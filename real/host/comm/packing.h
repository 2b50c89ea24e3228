// Numbers as bytes on the wire, in the format of their tensor: formats of 16 bits take 16 bits, all others the 32 of
// the floats that hold them. What was rounded to its format before comes out as it went in.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "model/base/data_type.h"
#include "real/host/buffer.h"

namespace plumbline::real::host {

std::size_t wire_bytes(model::DataType type);  // of one element

// Writes several tensors into one packet, one after the other.
class Packer {
 public:
  explicit Packer(std::size_t bytes) { bytes_.reserve(bytes); }
  void add(model::DataType type, std::span<const float> values);
  void add_rows(const HostBuffer& buffer, std::span<const Index> rows);
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  // Makes room for n elements and says where.
  std::byte* grow(model::DataType type, std::size_t n);

  std::vector<std::byte> bytes_;
};

// Reads them back in the same order.
class Unpacker {
 public:
  explicit Unpacker(std::span<const std::byte> bytes) : bytes_(bytes) {}
  // The next values; throws RankFailure when so many are not there.
  void copy(model::DataType type, std::span<float> into);
  void add(model::DataType type, std::span<float> into);  // onto what is there
  // One row after the other is added onto the given rows.
  void add_rows(model::DataType type, HostBuffer& buffer, std::span<const Index> rows);
  // Throws RankFailure when something is left.
  void finish() const;

 private:
  const std::byte* next(model::DataType type, std::size_t n);

  std::span<const std::byte> bytes_;
};

}  // namespace plumbline::real::host
