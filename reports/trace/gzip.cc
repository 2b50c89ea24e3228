#include "reports/trace/gzip.h"

#include <zlib.h>

#include <array>
#include <new>
#include <utility>

namespace plumbline::reports {
namespace {

// A trace repeats itself so much that the fastest level already shrinks it more than tenfold.
constexpr int level = 1;
constexpr int gzip_window_bits = 15 + 16;  // zlib: 16 more asks for a gzip header, whose time stamp stays 0
constexpr int memory_level = 8;

}  // namespace

struct Gzip::State {
  z_stream stream{};
  std::array<char, 1 << 16> out{};
};

Gzip::Gzip(Sink sink) : sink_(std::move(sink)), state_(std::make_unique<State>()) {
  const int status =
      deflateInit2(&state_->stream, level, Z_DEFLATED, gzip_window_bits, memory_level, Z_DEFAULT_STRATEGY);
  if (status != Z_OK) throw std::bad_alloc();  // with fixed, valid settings only memory can run out
}

Gzip::~Gzip() { deflateEnd(&state_->stream); }

bool Gzip::write(std::string_view data) { return deflate_all(data, Z_NO_FLUSH); }

bool Gzip::finish() { return deflate_all({}, Z_FINISH); }

bool Gzip::deflate_all(std::string_view data, int flush) {
  z_stream& stream = state_->stream;
  // zlib only reads the input, but its C interface lacks the const.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  do {
    stream.next_out = reinterpret_cast<Bytef*>(state_->out.data());
    stream.avail_out = static_cast<uInt>(state_->out.size());
    deflate(&stream, flush);
    const std::size_t produced = state_->out.size() - stream.avail_out;
    if (produced > 0 && !sink_({state_->out.data(), produced})) return false;
  } while (stream.avail_out == 0);
  return true;
}

}  // namespace plumbline::reports
