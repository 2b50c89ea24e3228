// Reads TensorBoard's event files with code that is independent of the writer.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/text_file.h"

namespace plumbline::tests {

// Computes the checksum bit by bit, as RFC 3720 defines it.
inline std::uint32_t slow_crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0x82f63b78U & (0U - (crc & 1U)));
  }
  return ~crc;
}

template <class Number>
Number take(std::string_view& bytes) {
  if (bytes.size() < sizeof(Number)) throw std::runtime_error("the file ends too early");
  Number value;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}

inline std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = take<std::uint8_t>(bytes);
    value |= std::uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return value;
  }
}

// A field of a protobuf message holds a number as its bits, or a text or message as its bytes.
struct Field {
  std::uint64_t bits = 0;
  std::string bytes;
  double number() const { return std::bit_cast<double>(bits); }
};
// Returns the fields by their number.
inline std::multimap<std::uint64_t, Field> fields_of(std::string_view message) {
  std::multimap<std::uint64_t, Field> fields;
  while (!message.empty()) {
    const std::uint64_t key = take_varint(message);
    Field field;
    switch (key & 7) {
      case 0:
        field.bits = take_varint(message);
        break;
      case 1:
        field.bits = take<std::uint64_t>(message);
        break;
      case 2: {
        const std::uint64_t length = take_varint(message);
        field.bytes = std::string(message.substr(0, length));
        message.remove_prefix(field.bytes.size());
        break;
      }
      case 5:
        field.bits = take<std::uint32_t>(message);
        break;
      default:
        throw std::runtime_error("unknown wire type");
    }
    fields.emplace(key >> 3, field);
  }
  return fields;
}

inline std::vector<double> doubles_of(std::string_view packed) {
  std::vector<double> values;
  while (!packed.empty()) values.push_back(take<double>(packed));
  return values;
}

// Returns the records of a file and checks each checksum.
inline std::vector<std::string> records_of(const std::string& path) {
  const std::string text = model::read_file(path).value();
  std::string_view rest = text;
  const auto check = [&](std::string_view bytes) {
    const std::uint32_t crc = slow_crc32c(bytes);
    EXPECT_EQ(take<std::uint32_t>(rest), ((crc >> 15) | (crc << 17)) + 0xa282ead8U);
  };
  std::vector<std::string> records;
  while (!rest.empty()) {
    const std::string_view length = rest.substr(0, 8);
    const auto bytes = take<std::uint64_t>(rest);
    check(length);
    const std::string_view data = rest.substr(0, bytes);
    rest.remove_prefix(data.size());
    check(data);
    records.emplace_back(data);
  }
  return records;
}

}  // namespace plumbline::tests
