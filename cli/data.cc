#include "cli/data.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "model/base/text.h"
#include "model/base/text_file.h"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;
using model::Failure;
using model::wrong_input;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// Returns the folder of the shared object that this code is in, with links resolved; empty where it is in the program.
fs::path own_library_folder() {
  static const char anchor = 0;
  Dl_info info;
  link_map* map = nullptr;
  if (dladdr1(&anchor, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 || map == nullptr ||
      *map->l_name == '\0')
    return {};
  std::error_code failed;
  return fs::canonical(map->l_name, failed).parent_path();
}

// A kind of shipped data: its folders under the data folder and the extension of its files.
struct Collection {
  std::string_view what;  // "plan", for messages
  std::string_view folder;
  std::string_view extension;
  std::string_view subfolder = "";  // of `folder`, whose files have names of their own; empty: none

  std::vector<std::string> names(const fs::path& root) const {
    std::vector<std::string> found = model::names_in_folder(root / folder, extension);
    if (subfolder.empty()) return found;
    const std::vector<std::string> more = model::names_in_folder(root / folder / subfolder, extension);
    found.insert(found.end(), more.begin(), more.end());
    return found;
  }
};

const Collection& collection_of(Shipped kind) {
  static constexpr Collection collections[] = {{"plan", "examples", ".toml", "serving"},
                                               {"model", "examples/models", ".json"},
                                               {"topology", "topologies", ".toml"},
                                               {"profile", "profiles", ".toml"},
                                               {"stack", "stacks", ".toml"},
                                               {"validation case", "cases", ".toml"},
                                               {"measurement", "published", ".csv"},
                                               {"file of cases to measure", "gpu-cases", ".toml"},
                                               {"file of cases to measure on the host", "host-cases", ".toml"},
                                               {"reliability file", "reliability", ".toml"}};
  return collections[static_cast<std::size_t>(kind)];
}

Failure miss(const Collection& collection, const std::string& wanted, const fs::path& root) {
  const std::vector<std::string> names = collection.names(root);
  const std::string by_name = model::did_you_mean(fs::path(wanted).filename().string(), names);
  const std::string nearest = by_name.empty() ? model::did_you_mean(fs::path(wanted).stem().string(), names) : by_name;
  return wrong_input("", fmt::format("no file and no shipped {} named '{}'", collection.what, wanted),
                     fmt::format("{}{}shipped: {}", nearest, nearest.empty() ? "" : " ", fmt::join(names, ", ")));
}

// Finds `wanted` in the shipped data: by its path under the data folder or the collection's folder, or by name.
model::Result<std::string> find_shipped(Shipped kind, const std::string& wanted) {
  const Collection& collection = collection_of(kind);
  const auto root = TRY(data_folder());
  const fs::path folder = fs::path(root) / collection.folder;
  const std::string named = wanted + std::string(collection.extension);
  for (const fs::path& candidate :
       {fs::path(root) / wanted, folder.parent_path() / wanted, folder / wanted, folder / named,
        folder / collection.subfolder / wanted, folder / collection.subfolder / named}) {
    if (is_file(candidate)) return candidate.lexically_normal().string();
  }
  return miss(collection, wanted, root);
}

}  // namespace

model::Result<std::string> data_folder() {
  if (const char* given = std::getenv("PLUMBLINE_DATA"); given != nullptr && is_folder(given)) return given;
  // A Python module lies deep in its prefix: lib/python3/dist-packages/plumbline.
  for (fs::path folder = own_library_folder(); folder.has_relative_path(); folder = folder.parent_path())
    if (is_folder(folder / "share/plumbline/topologies")) return (folder / "share/plumbline").string();
  const fs::path binary = executable();
  const fs::path folder = binary.parent_path();
  for (const fs::path& candidate : {folder / "share/plumbline", folder.parent_path() / "share/plumbline"}) {
    if (!binary.empty() && is_folder(candidate)) return candidate.string();
  }
  return wrong_input("", fmt::format("the shipped data are not found next to {}", binary.string()),
                     "expected in share/plumbline next to the binary or to its folder; build or install again");
}

std::string source_revision() {
  const auto text =
      data_folder().and_then([](const std::string& data) { return model::read_text_file(data + "/revision"); });
  const std::string_view revision = text ? model::trimmed(model::lines_of(*text).front()) : "";
  return revision.empty() ? "unknown" : std::string(revision);
}

model::Result<std::string> resolve(Shipped kind, const std::string& path_or_name, const std::string& named_in) {
  const fs::path adjacent = fs::path(named_in).parent_path() / path_or_name;
  if (!named_in.empty() && is_file(adjacent)) return adjacent.lexically_normal().string();
  if (is_file(path_or_name)) return path_or_name;
  return find_shipped(kind, path_or_name);
}

model::Result<std::vector<std::string>> shipped_names(Shipped kind) {
  const Collection& collection = collection_of(kind);
  return data_folder().map([&](const std::string& root) { return collection.names(root); });
}

model::Result<std::string> kernel_classes_file(const std::string& path) {
  if (!path.empty()) return path;
  return data_folder().map([](const std::string& root) { return root + "/kernels.toml"; });
}

model::Result<std::vector<std::string>> shipped_case_files() {
  const auto root = TRY(data_folder());
  const Collection& cases = collection_of(Shipped::validation_case);
  const fs::path folder = fs::path(root) / cases.folder;
  std::vector<std::string> files;
  for (const std::string& name : model::names_in_folder(folder, cases.extension))
    files.push_back((folder / (name + std::string(cases.extension))).string());
  return files;
}

model::Result<std::string> resolve_model(const std::string& plan_file, const std::string& config) {
  // An absolute config stays as it is: joining an absolute path drops the part before it.
  const fs::path adjacent = fs::path(plan_file).parent_path() / config;
  if (is_file(adjacent)) return adjacent.lexically_normal().string();
  auto found = find_shipped(Shipped::model, config);
  if (found || plan_file.empty()) return found;
  model::Error error = found.error();
  error.file = plan_file;
  error.key = "model.config";
  return tl::unexpected(error);
}

model::Result<std::string> resolve_device_folder(const std::string& topology_path) {
  const fs::path adjacent = fs::path(topology_path).parent_path() / "devices";
  if (is_folder(adjacent)) return adjacent.string();
  auto root = TRY(data_folder());
  return (fs::path(root) / "topologies/devices").string();
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
