#include "real/bootstrap/detail/frame.h"

#include <cstring>

namespace plumbline::real {
namespace {

struct Header {
  std::uint32_t magic, kind;
  std::uint64_t bytes;
};
constexpr std::uint32_t frame_magic = 0x706c756d;

}  // namespace

std::string header_of(const Frame& frame) {
  const Header header{frame_magic, static_cast<std::uint32_t>(frame.kind), frame.bytes.size()};
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

void FrameReader::add(std::string_view bytes) {
  bytes_.erase(0, taken_);
  taken_ = 0;
  bytes_ += bytes;
}

std::optional<Frame> FrameReader::next() {
  const std::size_t left = bytes_.size() - taken_;
  Header header{};
  if (broken_ || left < sizeof header) return std::nullopt;
  std::memcpy(&header, bytes_.data() + taken_, sizeof header);
  broken_ = header.magic != frame_magic || header.kind > static_cast<std::uint32_t>(Frame::Kind::greeting) ||
            header.bytes > most_bytes_;
  if (broken_ || left - sizeof header < header.bytes) return std::nullopt;
  Frame frame{static_cast<Frame::Kind>(header.kind), {}};
  if (taken_ == 0 && bytes_.size() == sizeof header + header.bytes) {  // a large payload is not copied
    frame.bytes.swap(bytes_);
    frame.bytes.erase(0, sizeof header);
    return frame;
  }
  frame.bytes = bytes_.substr(taken_ + sizeof header, header.bytes);
  taken_ += sizeof header + header.bytes;
  return frame;
}

}  // namespace plumbline::real
