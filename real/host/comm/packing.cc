#include "real/host/comm/packing.h"

#include <cstring>
#include <string>

#include "real/host/comm/transport.h"
#include "real/host/rounding.h"

namespace plumbline::real::host {
namespace {

// Converts formats of 16 bits by Eigen's casts, which are vectorized. Addresses are even, because all elements of a
// packet have 16 or 32 bits.
template <class Half>
using Wire = Eigen::Map<Eigen::Array<Half, Eigen::Dynamic, 1>>;
template <class Half>
using ConstWire = Eigen::Map<const Eigen::Array<Half, Eigen::Dynamic, 1>>;

template <class Half>
void encode_as(std::span<const float> values, std::byte* to) {
  const auto n = static_cast<Index>(values.size());
  Wire<Half>(reinterpret_cast<Half*>(to), n) = ConstArrayMap(values.data(), n).cast<Half>();
}

void encode(model::DataType type, std::span<const float> values, std::byte* to) {
  if (type == model::DataType::bf16) return encode_as<Eigen::bfloat16>(values, to);
  if (type == model::DataType::fp16) return encode_as<Eigen::half>(values, to);
  if (!values.empty()) std::memcpy(to, values.data(), values.size_bytes());
}

// Calls take(destination, values) with all elements.
template <class Half, class Take>
void decode_as(const std::byte* from, ArrayMap into, Take take) {
  take(into, ConstWire<Half>(reinterpret_cast<const Half*>(from), into.size()).template cast<float>());
}

template <class Take>
void decode(model::DataType type, const std::byte* from, std::span<float> places, Take take) {
  ArrayMap into(places.data(), static_cast<Index>(places.size()));
  if (type == model::DataType::bf16) return decode_as<Eigen::bfloat16>(from, into, take);
  if (type == model::DataType::fp16) return decode_as<Eigen::half>(from, into, take);
  // After an odd number of 16-bit elements, floats are not aligned.
  take(into, Eigen::ArrayXf::NullaryExpr(into.size(), [from](Index i) {
         float value = 0;
         std::memcpy(&value, from + i * static_cast<Index>(sizeof value), sizeof value);
         return value;
       }));
}

constexpr auto store = [](ArrayMap& into, const auto& values) { into = values; };
constexpr auto accumulate = [](ArrayMap& into, const auto& values) { into += values; };

}  // namespace

std::size_t wire_bytes(model::DataType type) { return is_16_bit(type) ? 2 : sizeof(float); }

std::byte* Packer::grow(model::DataType type, std::size_t n) {
  const std::size_t before = bytes_.size();
  bytes_.resize(before + n * wire_bytes(type));
  return bytes_.data() + before;
}

void Packer::add(model::DataType type, std::span<const float> values) {
  encode(type, values, grow(type, values.size()));
}

void Packer::add_rows(const HostBuffer& buffer, std::span<const Index> rows) {
  const auto columns = static_cast<std::size_t>(buffer.columns());
  std::byte* to = grow(buffer.type(), rows.size() * columns);
  for (const Index row : rows) {
    encode(buffer.type(), {buffer.data() + row * buffer.columns(), columns}, to);
    to += columns * wire_bytes(buffer.type());
  }
}

const std::byte* Unpacker::next(model::DataType type, std::size_t n) {
  const std::size_t size = n * wire_bytes(type);
  if (size > bytes_.size())
    throw RankFailure("a packet ends " + std::to_string(size - bytes_.size()) + " bytes before what it should hold");
  const std::byte* at = bytes_.data();
  bytes_ = bytes_.subspan(size);
  return at;
}

void Unpacker::copy(model::DataType type, std::span<float> into) { decode(type, next(type, into.size()), into, store); }

void Unpacker::add(model::DataType type, std::span<float> into) {
  decode(type, next(type, into.size()), into, accumulate);
}

void Unpacker::add_rows(model::DataType type, HostBuffer& buffer, std::span<const Index> rows) {
  const auto columns = static_cast<std::size_t>(buffer.columns());
  for (const Index row : rows) add(type, {buffer.data() + row * buffer.columns(), columns});
}

void Unpacker::finish() const {
  if (!bytes_.empty()) throw RankFailure("a packet holds " + std::to_string(bytes_.size()) + " bytes too many");
}

}  // namespace plumbline::real::host
