#include "real/executor/checkpoint_header.h"

#include <zlib.h>

#include <bit>
#include <cstddef>
#include <cstring>

namespace plumbline::real {
namespace {

static_assert(std::endian::native == std::endian::little, "checkpoints are written as they lie in memory");

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

// Takes numbers and texts off the front. Behind the end everything is zero, and sound() false.
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

}  // namespace

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

}  // namespace plumbline::real
