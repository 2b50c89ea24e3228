#include "real/executor/training/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace plumbline::real {
namespace {

tl::unexpected<model::Error> failure(const std::string& path, const std::string& what) {
  return tl::unexpected(model::Error{.message = what + ": " + std::strerror(errno),
                                     .file = path,
                                     .hint = "check the folder, its permissions and the free space"});
}

model::Result<void> sync(int descriptor, const std::string& path) {
  if (::fsync(descriptor) != 0) return failure(path, "cannot be written to the disk");
  return {};
}

}  // namespace

model::Result<DurableFile> DurableFile::create(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (descriptor < 0) return failure(path, "cannot be created");
  return DurableFile(path, descriptor);
}

DurableFile::~DurableFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

model::Result<void> DurableFile::write(std::int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failure(path_, "cannot be written");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += written;
  }
  return {};
}

model::Result<void> DurableFile::finish() {
  auto synced = sync(descriptor_, path_);
  // Some file systems report a full disk only here.
  if (::close(std::exchange(descriptor_, -1)) != 0 && synced) return failure(path_, "cannot be closed");
  return synced;
}

model::Result<void> write_durably(const std::string& path, std::string_view text) {
  auto file = TRY(DurableFile::create(path));
  TRY(file.write(0, std::as_bytes(std::span(text))));
  return file.finish();
}

model::Result<void> sync_folder(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return failure(path, "cannot be opened");
  auto synced = sync(descriptor, path);
  ::close(descriptor);
  return synced;
}

}  // namespace plumbline::real
