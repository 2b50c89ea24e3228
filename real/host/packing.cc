#include "real/host/packing.h"

#include <cstdint>
#include <cstring>
#include <string>

#include "real/host/rounding.h"
#include "real/host/transport.h"

namespace plumbline::real::host {

namespace {

template <class Encode>
void encode_16(std::span<const float> values, std::byte* to, Encode encode) {
  for (const float value : values) {
    const std::uint16_t bits = encode(value);
    std::memcpy(to, &bits, sizeof bits);
    to += sizeof bits;
  }
}

void encode(model::DataType type, std::span<const float> values, std::byte* to) {
  if (type == model::DataType::bf16) return encode_16(values, to, to_bf16);
  if (type == model::DataType::fp16) return encode_16(values, to, to_fp16);
  if (!values.empty()) std::memcpy(to, values.data(), values.size_bytes());
}

// Calls take(value, into) for every value and its place.
template <class Decode, class Take>
void decode_16(const std::byte* from, std::span<float> into, Decode decode, Take take) {
  for (float& place : into) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from, sizeof bits);
    take(decode(bits), place);
    from += sizeof bits;
  }
}

template <class Take>
void decode(model::DataType type, const std::byte* from, std::span<float> into, Take take) {
  if (type == model::DataType::bf16) return decode_16(from, into, from_bf16, take);
  if (type == model::DataType::fp16) return decode_16(from, into, from_fp16, take);
  for (float& place : into) {
    float value = 0;
    std::memcpy(&value, from, sizeof value);
    take(value, place);
    from += sizeof value;
  }
}

constexpr auto store = [](float value, float& place) { place = value; };
constexpr auto accumulate = [](float value, float& place) { place += value; };

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
