// Converts numbers to the bytes of packets and back. Formats of 16 bits take 16 bits, all others the 32 bits of a
// float. Values that are already rounded to their format do not change.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "model/base/data_type.h"
#include "real/host/pool.h"

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
  // Appends space for n elements and returns its address.
  std::byte* grow(model::DataType type, std::size_t n);

  std::vector<std::byte> bytes_;
};

// Reads the tensors of a packet in the order in which Packer wrote them.
class Unpacker {
 public:
  explicit Unpacker(std::span<const std::byte> bytes) : bytes_(bytes) {}
  // All of these throw RankFailure when too few values are left.
  void copy(model::DataType type, std::span<float> into);
  void add(model::DataType type, std::span<float> into);
  // Adds one row after the other to the given rows of the buffer.
  void add_rows(model::DataType type, HostBuffer& buffer, std::span<const Index> rows);
  // Throws RankFailure when something is left.
  void finish() const;

 private:
  const std::byte* next(model::DataType type, std::size_t n);

  std::span<const std::byte> bytes_;
};

}  // namespace plumbline::real::host
