// The frames of the control channel as bytes: a header with kind and length, and a payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plumbline::real {

struct Frame {
  // The values are those of every version, so that an older process can read why it is refused.
  enum class Kind : std::uint32_t { hello, welcome, data, abort, leave, challenge, proof, greeting };
  Kind kind = Kind::data;
  std::string bytes;
};

// Returns the bytes that precede a frame's payload.
std::string header_of(const Frame& frame);

// Cuts a stream of bytes into frames. It needs no more memory than the bytes that have come, whatever length a header
// states.
class FrameReader {
 public:
  // `most_bytes` is the largest payload that is accepted.
  explicit FrameReader(std::uint64_t most_bytes) : most_bytes_(most_bytes) {}
  void accept(std::uint64_t most_bytes) { most_bytes_ = most_bytes; }

  void add(std::string_view bytes);
  // Returns the next frame that is complete; nothing where more bytes are needed, or after an invalid header.
  std::optional<Frame> next();
  // Returns whether a header was invalid, or its payload too long; no frame follows.
  bool broken() const { return broken_; }

 private:
  std::uint64_t most_bytes_;
  std::string bytes_;
  std::size_t taken_ = 0;  // bytes of frames that next() has returned
  bool broken_ = false;
};

}  // namespace plumbline::real
