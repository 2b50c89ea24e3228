#include "cli/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/executable.h"
#include "model/base/text_file.h"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;
using model::Error;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// A kind of shipped data: where it lies under the data folder and what its files are called.
struct Collection {
  std::string_view what;  // "plan", for messages
  std::string_view folder;
  std::string_view extension;
};

constexpr Collection plans = {"plan", "examples", ".toml"};
constexpr Collection models = {"model", "examples/models", ".json"};
constexpr Collection topologies = {"topology", "topologies", ".toml"};
constexpr Collection profiles = {"profile", "profiles", ".toml"};
constexpr Collection cases = {"validation case", "cases", ".toml"};
constexpr Collection published = {"measurement", "published", ".csv"};
constexpr Collection gpu_cases = {"file of cases to measure", "gpu-cases", ".toml"};
constexpr Collection host_cases = {"file of cases to measure on the host", "host-cases", ".toml"};

Error miss(const Collection& collection, const std::string& wanted, const fs::path& folder) {
  const std::vector<std::string> names = model::names_in_folder(folder, collection.extension);
  const std::string nearest = model::nearest_name(fs::path(wanted).filename().string(), names);
  const std::string by_stem = model::nearest_name(fs::path(wanted).stem().string(), names);
  const std::string suggestion = nearest.empty() ? by_stem : nearest;
  Error error;
  error.message = fmt::format("no file and no shipped {} named '{}'", collection.what, wanted);
  error.hint = fmt::format("{}shipped: {}", suggestion.empty() ? "" : fmt::format("did you mean '{}'? ", suggestion),
                           fmt::join(names, ", "));
  return error;
}

// `wanted` in the shipped data: by its path under the data folder or under the collection's folder, or by name.
model::Result<std::string> find_shipped(const Collection& collection, const std::string& wanted) {
  const auto root = data_folder();
  if (!root) return tl::unexpected(root.error());
  const fs::path folder = fs::path(*root) / collection.folder;
  const std::string named = wanted + std::string(collection.extension);
  for (const fs::path& candidate :
       {fs::path(*root) / wanted, folder.parent_path() / wanted, folder / wanted, folder / named}) {
    if (is_file(candidate)) return candidate.lexically_normal().string();
  }
  return tl::unexpected(miss(collection, wanted, folder));
}

model::Result<std::string> resolve(const Collection& collection, const std::string& path_or_name) {
  if (is_file(path_or_name)) return path_or_name;
  return find_shipped(collection, path_or_name);
}

}  // namespace

model::Result<std::string> data_folder() {
  if (const char* given = std::getenv("PLUMBLINE_DATA"); given != nullptr && is_folder(given)) return given;
  const fs::path binary = executable();
  const fs::path folder = binary.parent_path();
  for (const fs::path& candidate : {folder / "share/plumbline", folder.parent_path() / "share/plumbline"}) {
    if (!binary.empty() && is_folder(candidate)) return candidate.string();
  }
  Error error;
  error.message = fmt::format("the shipped data are not found beside {}", binary.string());
  error.hint = "expected in share/plumbline beside the binary or beside its folder; build or install again";
  return tl::unexpected(error);
}

model::Result<std::string> resolve_plan(const std::string& path_or_name) { return resolve(plans, path_or_name); }

model::Result<std::string> resolve_topology(const std::string& path_or_name) {
  return resolve(topologies, path_or_name);
}

model::Result<std::string> resolve_profile(const std::string& path_or_name) { return resolve(profiles, path_or_name); }

model::Result<std::string> resolve_case(const std::string& path_or_name) { return resolve(cases, path_or_name); }

model::Result<std::string> resolve_gpu_cases(const std::string& path_or_name) {
  return resolve(gpu_cases, path_or_name);
}

model::Result<std::string> resolve_host_cases(const std::string& path_or_name) {
  return resolve(host_cases, path_or_name);
}

model::Result<std::string> resolve_published(const std::string& path_or_name) {
  return resolve(published, path_or_name);
}

model::Result<std::string> kernel_classes_file(const std::string& path) {
  if (!path.empty()) return path;
  return data_folder().map([](const std::string& root) { return root + "/kernels.toml"; });
}

model::Result<std::vector<std::string>> shipped_case_files() {
  const auto root = data_folder();
  if (!root) return tl::unexpected(root.error());
  const fs::path folder = fs::path(*root) / cases.folder;
  std::vector<std::string> files;
  for (const std::string& name : model::names_in_folder(folder, cases.extension))
    files.push_back((folder / (name + std::string(cases.extension))).string());
  return files;
}

model::Result<std::string> resolve_model(const std::string& plan_file, const std::string& config) {
  // An absolute config stays as it is: joining an absolute path drops what is before it.
  const fs::path beside = fs::path(plan_file).parent_path() / config;
  if (is_file(beside)) return beside.lexically_normal().string();
  auto found = find_shipped(models, config);
  if (found || plan_file.empty()) return found;
  Error error = found.error();
  error.file = plan_file;
  error.key = "model.config";
  return tl::unexpected(error);
}

model::Result<std::string> resolve_device_folder(const std::string& topology_path) {
  const fs::path beside = fs::path(topology_path).parent_path() / "devices";
  if (is_folder(beside)) return beside.string();
  auto root = data_folder();
  if (!root) return tl::unexpected(root.error());
  return (fs::path(*root) / "topologies/devices").string();
}

}  // namespace plumbline::cli
