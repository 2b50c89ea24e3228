#include "cli/data.h"

#include <fmt/format.h>

#include <string_view>
#include <system_error>
#include <utility>

#include "cli/detail/foreign_file.h"
#include "model/base/text.h"
#include "model/base/text_file.h"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;
using model::is_file;
using model::is_folder;
using model::wrong_input;

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

model::Failure miss(const Collection& collection, const std::string& wanted, const fs::path& root) {
  std::error_code ignored;
  if (is_folder(wanted))
    return model::wrong_input_at(wanted, 0, "", fmt::format("is a folder, not a {}", collection.what),
                                 "name a file in it");
  // Inputs are read more than once, as what they name is looked for next to them.
  if (fs::exists(wanted, ignored))
    return model::wrong_input_at(wanted, 0, "", fmt::format("is a pipe or a device, not a {}", collection.what),
                                 "write it to a file first");
  if (collection.what == collection_of(Shipped::plan).what)
    for (const std::string& name : collection_of(Shipped::model).names(root))
      if (!wanted.empty() && name.starts_with(wanted))
        return wrong_input("", fmt::format("'{}' is a model, not a plan", wanted),
                           fmt::format("plumbline plan {} --gpus N --cluster NAME -o PLAN.toml makes one", wanted));
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

std::string source_revision() {
  const auto text =
      data_folder().and_then([](const std::string& data) { return model::read_text_file(data + "/revision"); });
  const std::string_view revision = text ? model::trimmed(model::lines_of(*text).front()) : "";
  return revision.empty() ? "unknown" : std::string(revision);
}

model::Result<std::string> resolve(Shipped kind, const std::string& path_or_name, const std::string& named_in) {
  const fs::path adjacent = fs::path(named_in).parent_path() / path_or_name;
  const bool next_to_it = !named_in.empty() && is_file(adjacent);
  if (!next_to_it && !is_file(path_or_name)) return find_shipped(kind, path_or_name);
  std::string path = next_to_it ? adjacent.lexically_normal().string() : path_or_name;
  if (collection_of(kind).extension == ".toml" || kind == Shipped::model)
    TRY(refuse_foreign(path, collection_of(kind).what));
  return path;
}

model::Result<std::string> whole_name(const std::string& text, std::initializer_list<Shipped> kinds) {
  if (text.empty() || is_file(text)) return text;
  std::vector<std::string> found, by_word;
  for (const Shipped kind : kinds) {
    if (find_shipped(kind, text)) return text;
    for (const std::string& name : TRY(shipped_names(kind))) {
      if (name.starts_with(text)) found.push_back(name);
      if (name.starts_with(text + "-")) by_word.push_back(name);
    }
  }
  if (!by_word.empty()) found = std::move(by_word);  // h20 is h20-hgx, not h200-hgx
  if (found.size() > 1)
    return wrong_input("", fmt::format("several shipped names begin with '{}'", text),
                       fmt::format("give one of them in full: {}", fmt::join(found, ", ")));
  return found.empty() ? text : found.front();
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
  if (is_file(adjacent)) {
    std::string path = adjacent.lexically_normal().string();
    TRY(refuse_foreign(path, collection_of(Shipped::model).what));
    return path;
  }
  auto found = whole_name(config, {Shipped::model}).and_then([](const std::string& name) {
    return find_shipped(Shipped::model, name);
  });
  if (found || plan_file.empty()) return found;
  model::Error error = found.error();
  error.file = plan_file;
  error.key = "model.config";
  return tl::unexpected(error);
}

model::Result<std::string> resolve_device_folder(const std::string& topology_path) {
  const fs::path adjacent = fs::path(topology_path).parent_path() / "devices";
  if (is_folder(adjacent)) return adjacent.string();
  return (fs::path(TRY(data_folder())) / "topologies/devices").string();
}

}  // namespace plumbline::cli
