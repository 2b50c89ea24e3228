#include "calibrate/import/kineto/detail/byte_source.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>

namespace plumbline::calibrate {
namespace {

namespace fs = std::filesystem;

constexpr int gzip_window_bits = 15 + 16;  // zlib: 16 more asks for a gzip header
constexpr unsigned char gzip_first = 0x1f, gzip_second = 0x8b;

}  // namespace

struct ByteSource::State {
  std::string path;
  std::FILE* file = nullptr;
  std::uint64_t position = 0, size = 0, text_bytes = 0;
  std::array<unsigned char, 1 << 16> raw{};  // bytes of the file, still compressed
  std::size_t raw_at = 0, raw_end = 0;
  z_stream stream{};
  bool gzip = false, cut = false;
  bool finished = false;  // past the last gzip member

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (gzip) inflateEnd(&stream);
    if (file != nullptr) std::fclose(file);
  }

  // Fills `raw` when it is used up; raw_at == raw_end afterwards marks the end of the file.
  model::Result<void> refill() {
    if (raw_at < raw_end) return {};
    raw_at = 0;
    raw_end = std::fread(raw.data(), 1, raw.size(), file);
    position += raw_end;
    if (raw_end == 0 && std::ferror(file) != 0)
      return model::wrong_input_at(
          path, 0, "", fmt::format("cannot read the file behind byte {}: {}", position, std::strerror(errno)));
    return {};
  }

  model::Result<std::size_t> read_plain(char* to, std::size_t capacity) {
    TRY(refill());
    const std::size_t count = std::min(capacity, raw_end - raw_at);
    std::memcpy(to, raw.data() + raw_at, count);
    raw_at += count;
    return count;
  }

  model::Result<std::size_t> read_gzip(char* to, std::size_t capacity) {
    stream.next_out = reinterpret_cast<Bytef*>(to);
    stream.avail_out = static_cast<uInt>(capacity);
    while (!finished && stream.avail_out == capacity) {
      TRY(refill());
      if (raw_at == raw_end) {
        cut = true;
        return std::size_t{0};
      }
      stream.next_in = raw.data() + raw_at;
      stream.avail_in = static_cast<uInt>(raw_end - raw_at);
      const int status = inflate(&stream, Z_NO_FLUSH);
      raw_at = raw_end - stream.avail_in;
      if (status == Z_STREAM_END) {
        TRY(next_member());
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        return model::wrong_input_at(path, 0, "",
                                     fmt::format("the gzip stream is damaged; {} bytes of text were read", text_bytes),
                                     "copy the file again, or test it with gzip -t");
      }
    }
    const std::size_t produced = capacity - stream.avail_out;
    text_bytes += produced;
    return produced;
  }

  // Continues with the next gzip stream of the file, if any; padding after the last one is ignored.
  model::Result<void> next_member() {
    TRY(refill());
    finished = raw_at == raw_end || raw.at(raw_at) != gzip_first;
    if (!finished) inflateReset(&stream);
    return {};
  }
};

model::Result<ByteSource> ByteSource::open(const std::string& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (!fs::exists(status)) return model::wrong_input_at(path, 0, "", "no such file", "check the path");
  if (fs::is_directory(status))
    return model::wrong_input_at(path, 0, "", "is a folder, not a file", "name a trace in it");
  auto state = std::make_unique<State>();
  state->path = path;
  errno = 0;
  state->file = std::fopen(path.c_str(), "rb");
  if (state->file == nullptr) return model::wrong_input_at(path, 0, "", "cannot open the file", std::strerror(errno));
  if (fs::is_regular_file(status)) state->size = fs::file_size(path, ignored);
  TRY(state->refill());
  if (state->raw_end == 0) return model::wrong_input_at(path, 0, "", "the file is empty", "record the trace again");
  if (state->raw_end > 1 && state->raw[0] == gzip_first && state->raw[1] == gzip_second) {
    // The settings are fixed and valid, so that only memory can run out.
    if (inflateInit2(&state->stream, gzip_window_bits) != Z_OK) throw std::bad_alloc();
    state->gzip = true;
  }
  return ByteSource(std::move(state));
}

ByteSource::ByteSource(std::unique_ptr<State> state) : state_(std::move(state)) {}
ByteSource::~ByteSource() = default;
ByteSource::ByteSource(ByteSource&& other) noexcept = default;
ByteSource& ByteSource::operator=(ByteSource&& other) noexcept = default;

model::Result<std::size_t> ByteSource::read(char* to, std::size_t capacity) {
  return state_->gzip ? state_->read_gzip(to, capacity) : state_->read_plain(to, capacity);
}

bool ByteSource::cut() const { return state_->cut; }
std::uint64_t ByteSource::file_position() const { return state_->position; }
std::uint64_t ByteSource::file_size() const { return state_->size; }

}  // namespace plumbline::calibrate
