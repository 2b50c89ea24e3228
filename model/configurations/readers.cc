// Configurations as entries of TOML and YAML.
#include <fmt/format.h>
#include <toml++/toml.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <string>

#include "model/base/text_file.h"
#include "model/configurations/configuration.h"
#include "model/configurations/detail/shared.h"

namespace plumbline::model::configurations {
namespace {

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

// Null has no value, quoted or not. Numbers of YAML 1.1, which programs in Python read, may be 500_000.
std::string yaml_text(const YAML::Node& node) {
  if (!node.IsScalar() || (node.Tag() == "?" && node.Scalar() == "null")) return "";
  std::string text = node.Scalar();
  const bool number = !text.empty() && text.front() >= '1' && text.front() <= '9' &&
                      text.find_first_not_of("0123456789_") == std::string::npos;
  if (number && node.Tag() == "?") std::erase(text, '_');
  return text;
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

}  // namespace

const Entry* Configuration::find(std::string_view key) const {
  const Entry* found = nullptr;
  for (const Entry& entry : entries)
    if (entry.key == key && (found == nullptr || !entry.is_null())) found = &entry;
  return found;
}

Result<Configuration> read_toml(const Source& source) {
  const auto& [text, path, renames, function, modules, definitions] = source;
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

Result<Configuration> read_yaml(const Source& source) {
  const auto& [text, path, renames, function, modules, definitions] = source;
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
