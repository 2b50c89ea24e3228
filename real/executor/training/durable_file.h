// Files whose contents are on the disk when the call returns, so that they survive a crash of the machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "model/base/error.h"

namespace plumbline::real {

class DurableFile {
 public:
  // Creates an empty file; a link with its name is refused, not followed. Every function here returns an input error
  // with the path and the system's reason.
  static model::Result<DurableFile> create(const std::string& path);
  ~DurableFile();
  DurableFile(DurableFile&& other) noexcept : path_(other.path_), descriptor_(std::exchange(other.descriptor_, -1)) {}
  DurableFile& operator=(DurableFile&&) = delete;

  model::Result<void> write(std::int64_t offset, std::span<const std::byte> bytes);
  // Waits for the disk and closes the file.
  model::Result<void> finish();

 private:
  DurableFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_;
};

model::Result<void> write_durably(const std::string& path, std::string_view text);
// Makes the folder's entries durable, after a file was created, renamed or removed in it.
model::Result<void> sync_folder(const std::string& path);

}  // namespace plumbline::real
