// The text of a file, plain or gzip, read in pieces: a trace of gigabytes is never in memory as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "model/base/error.h"

namespace plumbline::calibrate {

class ByteSource {
 public:
  // Fails (input) when there is no such file, or it is a folder, unreadable or empty.
  static model::Result<ByteSource> open(const std::string& path);
  ~ByteSource();
  ByteSource(ByteSource&& other) noexcept;
  ByteSource& operator=(ByteSource&& other) noexcept;

  // Reads up to `capacity` bytes of text, inflated where the file is gzip, and returns their number; 0 at the end,
  // which may be that of a gzip stream that is cut off. Fails (input) when the stream is damaged, or the file cannot be
  // read.
  model::Result<std::size_t> read(char* to, std::size_t capacity);

  bool cut() const;                     // whether the end of a gzip stream is missing
  std::uint64_t file_position() const;  // bytes of the file read so far, for progress
  std::uint64_t file_size() const;      // 0 when unknown (a pipe)

 private:
  struct State;
  explicit ByteSource(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace plumbline::calibrate
