// The places of this program and of its data on the machine that it runs on.
#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "cli/data.h"
#include "model/base/text_file.h"

namespace plumbline::cli {
namespace {

using model::is_folder;

// Returns the folder of the shared object that this code is in, with links resolved; empty where it is in the program.
std::filesystem::path own_library_folder() {
  static const char anchor = 0;
  Dl_info info;
  link_map* map = nullptr;
  if (dladdr1(&anchor, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 || map == nullptr ||
      *map->l_name == '\0')
    return {};
  std::error_code failed;
  return std::filesystem::canonical(map->l_name, failed).parent_path();
}

// Returns the folder that the environment names for the shipped data, which must have those that every prediction
// reads.
model::Result<std::string> named_data_folder(const std::string& path) {
  constexpr const char* variable = "PLUMBLINE_DATA";
  constexpr const char* remedy = "unset it, or name a folder like share/plumbline";
  if (!is_folder(path)) return model::wrong_input(variable, fmt::format("'{}' is no folder", path), remedy);
  for (const char* part : {"topologies", "profiles", "stacks", "examples"})
    if (!is_folder(std::filesystem::path(path) / part))
      return model::wrong_input(variable, fmt::format("'{}' has no folder {}/", path, part), remedy);
  return path;
}

}  // namespace

model::Result<std::string> data_folder() {
  if (const char* given = std::getenv("PLUMBLINE_DATA"); given != nullptr && *given != '\0')
    return named_data_folder(given);
  // A Python module lies deep in its prefix: lib/python3/dist-packages/plumbline.
  for (std::filesystem::path folder = own_library_folder(); folder.has_relative_path(); folder = folder.parent_path())
    if (is_folder(folder / "share/plumbline/topologies")) return (folder / "share/plumbline").string();
  const std::filesystem::path binary = executable();
  const std::filesystem::path folder = binary.parent_path();
  for (const std::filesystem::path& candidate :
       {folder / "share/plumbline", folder.parent_path() / "share/plumbline"}) {
    if (!binary.empty() && is_folder(candidate)) return candidate.string();
  }
  return model::wrong_input("", fmt::format("the shipped data are not found next to {}", binary.string()),
                            "expected in share/plumbline next to the binary or to its folder; build or install again");
}

// A bare chroot has no /proc; there the kernel's auxiliary vector has the path with which the program was started.
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
