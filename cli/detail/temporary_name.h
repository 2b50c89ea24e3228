// The name under which an output is written until it is whole.
#pragma once

#include <filesystem>

namespace plumbline::cli {

// While an object lives, a signal that ends the process removes the file of this name, and so does the destructor. At
// most one may exist at a time.
class TemporaryName {
 public:
  explicit TemporaryName(const std::filesystem::path& target);  // in the folder of the target
  ~TemporaryName();
  TemporaryName(const TemporaryName&) = delete;
  TemporaryName& operator=(const TemporaryName&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Removes the file of the name that lives, if one does. Safe in a signal handler.
void remove_temporary();

}  // namespace plumbline::cli
