#include "real/executor/training/detail/checkpoint_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "real/executor/training/durable_file.h"

namespace plumbline::real {
namespace {

static_assert(std::endian::native == std::endian::little, "checkpoints are written in the byte order of memory");

template <class Number>
void put(std::string& bytes, Number value) {
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  bytes.append(raw, sizeof value);
}

void put_text(std::string& bytes, std::string_view text) {
  put(bytes, static_cast<std::uint32_t>(text.size()));
  bytes += text;
}

// Reads numbers and texts from the front. Past the end it returns zeros, and sound() is false.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : rest_(bytes) {}

  bool sound() const { return sound_; }
  bool at_end() const { return rest_.empty(); }

  template <class Number>
  Number number() {
    const std::string_view raw = take(sizeof(Number));
    Number value{};
    if (sound_) std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }
  std::string text() { return std::string(take(number<std::uint32_t>())); }

 private:
  std::string_view take(std::size_t count) {
    sound_ = sound_ && count <= rest_.size();
    if (!sound_) return {};
    const std::string_view front = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return front;
  }

  std::string_view rest_;
  bool sound_ = true;
};

constexpr std::uint64_t element_bytes = sizeof(float);

std::string_view bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * element_bytes};
}

std::span<const std::byte> raw(std::string_view bytes) { return std::as_bytes(std::span(bytes)); }

}  // namespace

tl::unexpected<model::Error> damaged_checkpoint(const std::string& path, const std::string& what) {
  return tl::unexpected(model::Error{
      .message = what, .file = path, .hint = "remove this checkpoint's folder to continue from the one before it"});
}

tl::unexpected<model::Error> other_version(const std::string& path, std::int64_t version) {
  return tl::unexpected(
      model::Error{.message = fmt::format("is of version {}; version {} can be read", version, checkpoint_version),
                   .file = path,
                   .hint = "continue with the plumbline that wrote it"});
}

std::string encode_body(const CheckpointHeader& header) {
  std::string bytes;
  put(bytes, header.identity.step);
  put(bytes, header.identity.rank);
  put(bytes, header.identity.ranks);
  put_text(bytes, header.identity.fingerprint);
  put(bytes, static_cast<std::uint32_t>(header.pieces.size()));
  for (const CheckpointPiece& piece : header.pieces) {
    put_text(bytes, piece.name);
    put(bytes, piece.elements);
    put(bytes, piece.offset);
    put(bytes, piece.crc);
  }
  return bytes;
}

std::optional<CheckpointHeader> decode_body(std::string_view bytes) {
  Cursor cursor(bytes);
  CheckpointHeader header;
  header.identity.step = cursor.number<std::int64_t>();
  header.identity.rank = cursor.number<std::int32_t>();
  header.identity.ranks = cursor.number<std::int32_t>();
  header.identity.fingerprint = cursor.text();
  const auto pieces = cursor.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < pieces && cursor.sound(); ++i) {
    CheckpointPiece piece;
    piece.name = cursor.text();
    piece.elements = cursor.number<std::uint64_t>();
    piece.offset = cursor.number<std::uint64_t>();
    piece.crc = cursor.number<std::uint32_t>();
    header.pieces.push_back(std::move(piece));
  }
  if (!cursor.sound() || !cursor.at_end()) return std::nullopt;
  return header;
}

std::string encode_preamble(const CheckpointPreamble& preamble) {
  std::string bytes(checkpoint_magic);
  put(bytes, preamble.version);
  put(bytes, preamble.crc);
  put(bytes, preamble.body_bytes);
  return bytes;
}

std::optional<CheckpointPreamble> decode_preamble(std::string_view bytes) {
  if (bytes.size() < checkpoint_preamble_bytes || !bytes.starts_with(checkpoint_magic)) return std::nullopt;
  Cursor cursor(bytes.substr(checkpoint_magic.size()));
  CheckpointPreamble preamble;
  preamble.version = cursor.number<std::uint32_t>();
  preamble.crc = cursor.number<std::uint32_t>();
  preamble.body_bytes = cursor.number<std::uint64_t>();
  return preamble;
}

std::uint32_t crc32_of(std::string_view bytes) {
  return static_cast<std::uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

model::Result<std::uint32_t> write_checkpoint_file(const std::string& path, const CheckpointIdentity& identity,
                                                   const std::vector<StatePiece>& state, Device& device) {
  auto file = TRY(DurableFile::create(path));
  CheckpointHeader header{.identity = identity};
  for (const StatePiece& piece : state) header.pieces.push_back({.name = piece.name});
  // Numbers have fixed widths, so the body has its final length before offsets and checksums are filled in.
  std::uint64_t end = checkpoint_preamble_bytes + encode_body(header).size();
  for (std::size_t i = 0; i < state.size(); ++i) {
    const std::vector<float> values = device.read(*state[i].buffer);
    CheckpointPiece& piece = header.pieces[i];
    piece.elements = values.size();
    piece.offset = end;
    piece.crc = crc32_of(bytes_of(values));
    if (auto written = file.write(static_cast<std::int64_t>(end), raw(bytes_of(values))); !written)
      return tl::unexpected(written.error());
    end += piece.elements * element_bytes;
  }
  const std::string body = encode_body(header);
  const std::uint32_t crc = crc32_of(body);
  const std::string front = encode_preamble({.crc = crc, .body_bytes = body.size()}) + body;
  TRY(file.write(0, raw(front)));
  TRY(file.finish());
  return crc;
}

model::Result<CheckpointFile> CheckpointFile::open(const std::string& path) {
  CheckpointFile file(path, std::ifstream(path, std::ios::binary));
  if (!file.stream_)
    return tl::unexpected(
        model::Error{.message = "cannot be read", .file = path, .hint = "every rank must see the whole checkpoint"});
  TRY(file.read_header());
  return file;
}

model::Result<void> CheckpointFile::read_header() {
  stream_.seekg(0, std::ios::end);
  const auto bytes = static_cast<std::uint64_t>(stream_.tellg());
  stream_.seekg(0);
  std::string front(checkpoint_preamble_bytes, '\0');
  stream_.read(front.data(), static_cast<std::streamsize>(front.size()));
  const auto preamble = stream_ ? decode_preamble(front) : std::nullopt;
  if (!preamble) return damaged_checkpoint(path_, "is no checkpoint of plumbline");
  if (preamble->version != checkpoint_version) return other_version(path_, preamble->version);
  if (preamble->body_bytes > bytes - checkpoint_preamble_bytes)
    return damaged_checkpoint(path_, "is cut off in its header");
  std::string body(preamble->body_bytes, '\0');
  stream_.read(body.data(), static_cast<std::streamsize>(body.size()));
  if (!stream_ || crc32_of(body) != preamble->crc) return damaged_checkpoint(path_, "has a damaged header");
  auto header = decode_body(body);
  if (!header) return damaged_checkpoint(path_, "has a damaged header");
  header_ = std::move(*header);
  crc_ = preamble->crc;
  return check_extent(checkpoint_preamble_bytes + preamble->body_bytes, bytes);
}

model::Result<void> CheckpointFile::check_extent(std::uint64_t end_of_header, std::uint64_t bytes) const {
  std::uint64_t end = end_of_header;
  for (const CheckpointPiece& piece : header_.pieces) {
    if (piece.offset != end) return damaged_checkpoint(path_, "has a damaged header");
    if (piece.elements > (bytes - end) / element_bytes)
      return damaged_checkpoint(path_, "is cut off in piece '" + piece.name + "'");
    end += piece.elements * element_bytes;
  }
  if (end != bytes) return damaged_checkpoint(path_, "is longer than its header states");
  return {};
}

const CheckpointPiece* CheckpointFile::find(std::string_view name) const {
  const auto found = std::find_if(header_.pieces.begin(), header_.pieces.end(),
                                  [&](const CheckpointPiece& piece) { return piece.name == name; });
  return found == header_.pieces.end() ? nullptr : &*found;
}

model::Result<std::vector<float>> CheckpointFile::read(const CheckpointPiece& piece) {
  std::vector<float> values(piece.elements);
  stream_.clear();
  stream_.seekg(static_cast<std::streamoff>(piece.offset));
  stream_.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(piece.elements * element_bytes));
  if (!stream_) return damaged_checkpoint(path_, "cannot be read in piece '" + piece.name + "'");
  if (crc32_of(bytes_of(values)) != piece.crc)
    return damaged_checkpoint(path_, "is damaged in piece '" + piece.name + "'");
  return values;
}

}  // namespace plumbline::real
