#include "cli/executable.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <system_error>

namespace plumbline::cli {

// A bare chroot has no /proc; the kernel also hands over the path with which the program was started.
std::filesystem::path executable() {
  std::error_code failure;
  std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", failure);
  if (!failure) return path;
  const auto* started_as = reinterpret_cast<const char*>(getauxval(AT_EXECFN));  // NOLINT(performance-no-int-to-ptr)
  if (started_as == nullptr) return {};
  path = std::filesystem::canonical(started_as, failure);
  return failure ? std::filesystem::path{} : path;
}

std::optional<std::string> find_program(const std::string& name) {
  std::error_code failed;
  const std::filesystem::path self = executable();
  const std::filesystem::path candidate = self.parent_path() / name;
  if (self.empty() || !std::filesystem::is_regular_file(candidate, failed) || ::access(candidate.c_str(), X_OK) != 0)
    return std::nullopt;
  return candidate.string();
}

}  // namespace plumbline::cli
