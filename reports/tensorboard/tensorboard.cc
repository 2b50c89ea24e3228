#include "reports/tensorboard/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace plumbline::reports {
namespace {

// The messages of tensorboard/compat/proto/event.proto, summary.proto and histogram.proto are small and have been
// stable for years. Their fields are therefore written by hand in protobuf's wire format
// (protobuf.dev/programming-guides/encoding).
enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

constexpr std::size_t buckets = 30;  // per histogram, as many as TensorBoard's histogram view draws

template <std::unsigned_integral Number>
void put_little_endian(std::string& out, Number value) {
  for (std::size_t i = 0; i < sizeof value; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void put_key(std::string& out, std::uint32_t field, Wire wire) {
  put_varint(out, std::uint64_t{field} << 3 | static_cast<std::uint8_t>(wire));
}

void put_double(std::string& out, std::uint32_t field, double value) {
  put_key(out, field, Wire::fixed64);
  put_little_endian(out, std::bit_cast<std::uint64_t>(value));
}

void put_bytes(std::string& out, std::uint32_t field, std::string_view bytes) {
  put_key(out, field, Wire::bytes);
  put_varint(out, bytes.size());
  out += bytes;
}

void put_doubles(std::string& out, std::uint32_t field, const std::vector<double>& values) {
  std::string packed;
  for (const double value : values) put_little_endian(packed, std::bit_cast<std::uint64_t>(value));
  put_bytes(out, field, packed);
}

std::string encode(const BoardScalar& scalar) {  // Summary.Value
  std::string value;
  put_bytes(value, 1, scalar.tag);
  put_key(value, 2, Wire::fixed32);
  put_little_endian(value, std::bit_cast<std::uint32_t>(static_cast<float>(scalar.value)));
  return value;
}

// Encodes buckets of equal width from the smallest to the largest value; each counts the values above the limit before
// it.
std::string encode_histogram(const std::vector<double>& values) {
  const auto [least, largest] = std::minmax_element(values.begin(), values.end());
  const double width = (*largest - *least) / static_cast<double>(buckets);
  std::vector<double> limits, counts;
  for (std::size_t i = 1; i < buckets && width > 0; ++i) limits.push_back(*least + width * static_cast<double>(i));
  limits.push_back(*largest);
  counts.resize(limits.size());
  double sum = 0, squares = 0;
  for (const double value : values) {
    const auto bucket = std::lower_bound(limits.begin(), limits.end() - 1, value) - limits.begin();
    counts[static_cast<std::size_t>(bucket)] += 1;
    sum += value;
    squares += value * value;
  }
  std::string histogram;
  put_double(histogram, 1, *least);
  put_double(histogram, 2, *largest);
  put_double(histogram, 3, static_cast<double>(values.size()));
  put_double(histogram, 4, sum);
  put_double(histogram, 5, squares);
  put_doubles(histogram, 6, limits);
  put_doubles(histogram, 7, counts);
  return histogram;
}

std::string encode(const BoardHistogram& histogram) {  // Summary.Value
  std::string value;
  put_bytes(value, 1, histogram.tag);
  put_bytes(value, 5, encode_histogram(histogram.values));
  return value;
}

std::string event_at(double wall_time) {
  std::string event;
  put_double(event, 1, wall_time);
  return event;
}

constexpr std::array<std::uint32_t, 256> crc32c_table() {
  constexpr std::uint32_t reflected_polynomial = 0x82f63b78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? reflected_polynomial : 0);
    table[byte] = crc;
  }
  return table;
}

// Returns TFRecord's masked checksum; the mask protects the checksum of data that contain checksums.
std::uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8U; }

// Returns a record of TFRecord: length, its checksum, data, their checksum.
std::string record_of(const std::string& data) {
  std::string record;
  put_little_endian(record, std::uint64_t{data.size()});
  put_little_endian(record, masked_crc(record));
  record += data;
  put_little_endian(record, masked_crc(data));
  return record;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "host";
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> table = crc32c_table();
  std::uint32_t crc = 0xffffffff;
  for (const char byte : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~crc;
}

model::Result<TensorBoard> TensorBoard::create(const std::string& folder, double wall_time) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) return model::wrong_input_at(folder, 0, "", "cannot be created: " + failed.message());
  const std::string name =
      fmt::format("events.out.tfevents.{}.{}.plumbline", static_cast<std::int64_t>(wall_time), host_name());
  const std::string path = (std::filesystem::path(folder) / name).string();
  if (std::filesystem::is_symlink(std::filesystem::symlink_status(path, failed)))
    return model::wrong_input_at(path, 0, "", "is a link, which is not followed");
  TensorBoard board(path, std::ofstream(path, std::ios::binary | std::ios::app));
  std::string event = event_at(wall_time);
  put_bytes(event, 3, "brain.Event:2");  // file_version, the only one that exists
  TRY(board.append(event));
  return board;
}

model::Result<void> TensorBoard::write(std::int64_t step, double wall_time, const std::vector<BoardScalar>& scalars,
                                       const std::vector<BoardHistogram>& histograms) {
  std::string summary;
  for (const BoardScalar& scalar : scalars) put_bytes(summary, 1, encode(scalar));
  for (const BoardHistogram& histogram : histograms) put_bytes(summary, 1, encode(histogram));
  std::string event = event_at(wall_time);
  put_key(event, 2, Wire::varint);
  put_varint(event, static_cast<std::uint64_t>(step));
  put_bytes(event, 5, summary);
  return append(event);
}

model::Result<void> TensorBoard::append(const std::string& event) {
  stream_ << record_of(event) << std::flush;
  if (!stream_)
    return model::wrong_input_at(path_, 0, "", fmt::format("cannot be written: {}", std::strerror(errno)),
                                 "the disk may be full, or the folder not yours");
  return {};
}

}  // namespace plumbline::reports
