#include "model/configurations/configuration.h"

#include <fmt/format.h>
#include <toml++/toml.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/text_file.h"

namespace plumbline::model::configurations {
namespace {

constexpr std::size_t kMostValues = 100'000;
constexpr std::size_t kLargestFile = 8 << 20;
constexpr int kDeepest = 64;

// Returns "callbacks[].name" of "callbacks[0].name": tables of keys do not count the elements of a list.
std::string without_indices(const std::string& written) {
  std::string key;
  bool inside = false;
  for (const char letter : written) {
    if (letter == ']') inside = false;
    if (!inside) key += letter;
    if (letter == '[') inside = true;
  }
  return key;
}

// Collects entries under their renamed keys and keeps the first error.
class Collector {
 public:
  Collector(const std::string& path, const std::vector<Rename>& renames) : renames_(renames) { out_.file = path; }

  bool failed() const { return error_.has_value(); }

  // Returns whether reading may go on at this depth.
  bool enter(int depth, int line) {
    if (depth > kDeepest) fail(line, "", fmt::format("nested more than {} levels deep", kDeepest));
    return !failed();
  }

  void fail(int line, const std::string& key, std::string message) {
    if (!error_) error_ = Error{ErrorKind::input, std::move(message), out_.file, line, key, ""};
  }

  // Adds a value. Of a merge key, values that the table has itself are left out.
  void add(Entry entry, bool merged) {
    if (failed()) return;
    if (!written_.insert(entry.written).second) {
      if (!merged) fail(entry.line, entry.written, "is given twice");
      return;
    }
    if (out_.entries.size() >= kMostValues)
      return fail(entry.line, "", fmt::format("more than {} values: aliases that expand each other?", kMostValues));
    entry.key = renamed(without_indices(entry.written));
    out_.entries.push_back(std::move(entry));
  }

  Result<Configuration> result() && {
    if (error_) return tl::unexpected(*error_);
    return std::move(out_);
  }

 private:
  std::string renamed(const std::string& written) const {
    for (const auto& [prefix, replacement] : renames_)
      if (written.starts_with(prefix)) return std::string(replacement) + written.substr(prefix.size());
    return written;
  }

  const std::vector<Rename>& renames_;
  Configuration out_;
  std::set<std::string, std::less<>> written_;
  std::optional<Error> error_;
};

std::string joined(const std::string& prefix, std::string_view key) {
  return prefix.empty() ? std::string(key) : fmt::format("{}.{}", prefix, key);
}

std::string toml_text(const toml::node& node) {
  if (const auto* text = node.as_string()) return **text;
  if (const auto* integer = node.as_integer()) return std::to_string(**integer);
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", **number);
  if (const auto* flag = node.as_boolean()) return **flag ? "true" : "false";
  return "";
}

void collect(const toml::node& node, const std::string& key, int depth, Collector& out) {
  const int line = static_cast<int>(node.source().begin.line);
  if (!out.enter(depth, line)) return;
  if (const auto* table = node.as_table()) {
    for (const auto& [name, child] : *table) collect(child, joined(key, name.str()), depth + 1, out);
    return;
  }
  Entry entry{"", key, toml_text(node), {}, line};
  if (const auto* array = node.as_array()) {
    entry.is_list = true;
    for (std::size_t i = 0; i < array->size(); ++i) {
      const toml::node& item = *array->get(i);
      if (item.is_table() || item.is_array())
        collect(item, fmt::format("{}[{}]", key, i), depth + 1, out);
      else
        entry.items.push_back(toml_text(item));
    }
  }
  out.add(std::move(entry), false);
}

int line_of(const YAML::Node& node) { return node.Mark().line + 1; }

// Null has no value, quoted or not.
std::string yaml_text(const YAML::Node& node) {
  return node.IsScalar() && !(node.Tag() == "?" && node.Scalar() == "null") ? node.Scalar() : "";
}

void collect(const YAML::Node& node, const std::string& key, int depth, bool merged, Collector& out);

void collect_map(const YAML::Node& node, const std::string& key, int depth, bool merged, Collector& out) {
  std::vector<YAML::Node> merges;
  for (const auto& pair : node) {
    const YAML::Node &name = pair.first, &child = pair.second;
    if (out.failed()) return;
    if (!name.IsScalar()) return out.fail(line_of(name), key, "has a key that is no word");
    if (name.Scalar() == "<<")
      merges.push_back(child);
    else
      collect(child, joined(key, name.Scalar()), depth + 1, merged, out);
  }
  for (const YAML::Node& merge : merges) {
    if (!merge.IsSequence()) collect(merge, key, depth + 1, true, out);
    if (merge.IsSequence())
      for (const auto& one : merge) collect(one, key, depth + 1, true, out);
  }
}

void collect(const YAML::Node& node, const std::string& key, int depth, bool merged, Collector& out) {
  if (!out.enter(depth, line_of(node))) return;
  if (node.IsMap()) return collect_map(node, key, depth, merged, out);
  Entry entry{"", key, yaml_text(node), {}, line_of(node)};
  if (node.IsSequence()) {
    entry.is_list = true;
    std::size_t index = 0;
    for (const auto& item : node) {
      if (item.IsMap() || item.IsSequence())
        collect(item, fmt::format("{}[{}]", key, index), depth + 1, merged, out);
      else
        entry.items.push_back(yaml_text(item));
      ++index;
      if (out.failed()) return;
    }
  }
  out.add(std::move(entry), merged);
}

std::optional<Error> too_large(std::string_view text, const std::string& path) {
  if (text.size() <= kLargestFile) return std::nullopt;
  return Error{ErrorKind::input,
               fmt::format("is larger than {} MiB", kLargestFile >> 20),
               path,
               0,
               "",
               "a configuration is a short text"};
}

}  // namespace

const Entry* Configuration::find(std::string_view key) const {
  const auto found = std::ranges::find(entries, key, &Entry::key);
  return found == entries.end() ? nullptr : &*found;
}

Result<Configuration> read_toml(std::string_view text, const std::string& path, const std::vector<Rename>& renames) {
  if (const auto error = too_large(text, path)) return tl::unexpected(*error);
  TRY(check_nesting(text, path));
  try {
    const toml::table root = toml::parse(text, path);
    Collector out(path, renames);
    collect(root, "", 0, out);
    return std::move(out).result();
  } catch (const toml::parse_error& failure) {
    return wrong_input_at(path, static_cast<int>(failure.source().begin.line), "", std::string(failure.description()),
                          "a TOML file is expected");
  }
}

Result<Configuration> read_yaml(std::string_view text, const std::string& path, const std::vector<Rename>& renames) {
  if (const auto error = too_large(text, path)) return tl::unexpected(*error);
  try {
    std::string spaced(text);
    std::ranges::replace(spaced, '\t', ' ');  // JSON may be indented by tabs, YAML may not
    const YAML::Node root = YAML::Load(spaced);
    if (!root.IsMap()) return wrong_input_at(path, 0, "", "holds no keys", "a YAML or JSON file of keys is expected");
    Collector out(path, renames);
    collect(root, "", 0, false, out);
    return std::move(out).result();
  } catch (const YAML::Exception& failure) {
    return wrong_input_at(path, failure.mark.line + 1, "", failure.msg, "a YAML or JSON file is expected");
  }
}

}  // namespace plumbline::model::configurations
