// Buffers the text of a trace and passes it to the sink in pieces, compressed or not.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <iterator>
#include <optional>
#include <string_view>

#include "reports/trace/gzip.h"

namespace plumbline::reports {

class TraceOutput {
 public:
  TraceOutput(const Gzip::Sink& sink, bool gzip) : sink_(sink) {
    if (gzip) gzip_.emplace(sink);
  }

  void add(std::string_view text) { buffer_.append(text.data(), text.data() + text.size()); }
  std::back_insert_iterator<fmt::memory_buffer> end() { return std::back_inserter(buffer_); }
  // Begins the next event of the list, which the caller adds.
  TraceOutput& next_event() {
    add(events_++ == 0 ? "\n" : ",\n");
    return *this;
  }

  // Ends an object whose members each end with a comma, or which is empty.
  void end_members() {
    if (buffer_.size() > 0 && buffer_[buffer_.size() - 1] == ',')
      buffer_[buffer_.size() - 1] = '}';
    else
      add("}");
  }

  // Return false once the sink has refused a piece.
  bool drain_if_full() { return buffer_.size() < piece_bytes || drain(); }
  bool finish() { return drain() && (!gzip_ || gzip_->finish()); }

 private:
  static constexpr std::size_t piece_bytes = 1 << 16;

  bool drain() {
    const std::string_view piece(buffer_.data(), buffer_.size());
    const bool taken = gzip_ ? gzip_->write(piece) : sink_(piece);
    buffer_.clear();
    return taken;
  }

  const Gzip::Sink& sink_;
  std::optional<Gzip> gzip_;
  fmt::memory_buffer buffer_;
  std::size_t events_ = 0;
};

}  // namespace plumbline::reports
