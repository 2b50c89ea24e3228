#include "model/base/parameter_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <utility>

#include "model/base/text_file.h"

namespace plumbline::model {
namespace {

const std::vector<std::string> entry_keys = {"value", "unit", "kind", "source", "uncertainty", "low", "high"};
const std::vector<std::string> setting_keys = {"key", "value", "kind", "source", "needs", "instead_of"};
const std::vector<std::string> has_keys = {"key", "values", "kind", "source"};
const std::vector<std::string> fit_keys = {"constants", "correlation"};

int line_of(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

std::string toml_of(const toml::node& node) {
  std::ostringstream text;
  node.visit([&text](const auto& value) { text << value; });
  return text.str();
}

// Reads one file. Methods return false once `error_` holds the first problem found.
class Reader {
 public:
  Reader(ParameterFile& file, const std::vector<std::string>& text_keys, const std::vector<std::string>& list_keys,
         ParameterForm form)
      : file_(file),
        text_keys_(text_keys),
        list_keys_(list_keys),
        is_stack_(form == ParameterForm::stack),
        is_profile_(form == ParameterForm::profile) {
    if (is_stack_) entry_keys_.emplace_back("rows");
  }

  bool read_root(const toml::table& root) {
    for (const auto& [key, node] : root) {
      const std::string name(key.str());
      const bool is_list_key = std::ranges::find(list_keys_, name) != list_keys_.end();
      const bool is_setting = is_stack_ && name == "setting", is_has = is_stack_ && name == "has";
      const bool is_fit = is_profile_ && name == "fit";
      if (!(is_list_key  ? read_list(name, node)
            : is_setting ? read_tables(name, node, &Reader::read_setting)
            : is_has     ? read_tables(name, node, &Reader::read_has)
            : is_fit     ? read_tables(name, node, &Reader::read_fit)
                         : read_node(name, node)))
        return false;
    }
    std::ranges::sort(file_.numbers, {}, [](const ParameterFile::Number& number) { return number.parameter.name; });
    return true;
  }

  const Error& error() const { return error_; }

 private:
  bool fail(const std::string& key, int line, std::string message, std::string hint) {
    error_ = Error{ErrorKind::input, std::move(message), file_.path, line, key, std::move(hint)};
    return false;
  }

  bool read_text(const std::string& key, const toml::node& node) {
    const auto value = node.value_exact<std::string>();
    if (!value || value->empty()) return fail(key, line_of(node), "expected a string", "write it in quotes");
    file_.texts.push_back({key, *value, line_of(node), file_.path});
    return true;
  }

  bool read_list(const std::string& key, const toml::node& node) {
    const toml::array* list = node.as_array();
    if (list == nullptr) return fail(key, line_of(node), "expected an array of strings", "write it in brackets");
    for (const toml::node& item : *list)
      if (!read_text(key, item)) return false;
    return true;
  }

  bool read_node(const std::string& name, const toml::node& node) {
    if (std::ranges::find(text_keys_, name) != text_keys_.end()) return read_text(name, node);
    const toml::table* table = node.as_table();
    if (table == nullptr) return fail_not_table(name, node);
    // Any of its keys marks an entry, so that one without a value is still found.
    const bool is_entry = table->is_inline() || std::ranges::any_of(entry_keys_, [&](const std::string& key) {
                            const toml::node* inner = table->get(key);
                            return inner != nullptr && !inner->is_table();
                          });
    if (is_entry) return read_entry(name, *table);
    for (const auto& [key, inner] : *table)
      if (!read_node(name + "." + std::string(key.str()), inner)) return false;
    return true;
  }

  bool fail_not_table(const std::string& name, const toml::node& node) {
    if (node.is_number())
      return fail(name, line_of(node), "a number without unit, kind and source",
                  "write { value = ..., unit = \"...\", kind = \"...\", source = \"...\" }");
    return fail(name, line_of(node), "unknown key", did_you_mean(name, text_keys_));
  }

  bool read_entry(const std::string& name, const toml::table& table) {
    for (const auto& [key, inner] : table) {
      if (std::ranges::find(entry_keys_, key.str()) != entry_keys_.end()) continue;
      return fail(name + "." + std::string(key.str()), line_of(inner), "unknown key",
                  did_you_mean(key.str(), entry_keys_, fmt::format("an entry has {}", fmt::join(entry_keys_, ", "))));
    }
    std::vector<std::string> missing;
    for (const char* key : {"value", "unit", "kind", "source"})
      if (!table.contains(key)) missing.push_back(fmt::format("'{}'", key));
    if (!missing.empty())
      return fail(name, line_of(table), fmt::format("lacks {}", fmt::join(missing, ", ")),
                  "every constant has value, unit, kind and source");
    ParameterFile::Number number;
    number.parameter.name = name;
    number.line = line_of(table);
    number.path = file_.path;
    std::string kind;
    if (!read_value(name, table, number.parameter.value) || !read_word(name, table, "unit", number.parameter.unit) ||
        !read_word(name, table, "kind", kind) || !read_word(name, table, "source", number.parameter.source) ||
        !read_uncertainty(name, table, number.parameter) || !read_range(name, table, number.parameter) ||
        !read_evidence(name, table, kind, number.parameter.kind) || !read_rows(name, table, number.parameter))
      return false;
    file_.numbers.push_back(std::move(number));
    return true;
  }

  bool read_evidence(const std::string& name, const toml::table& table, const std::string& word, Evidence& kind) {
    const auto evidence = parse_evidence(word);
    if (!evidence)
      return fail(name + ".kind", line_of(*table.get("kind")), evidence.error().message, evidence.error().hint);
    kind = *evidence;
    return true;
  }

  bool read_rows(const std::string& name, const toml::table& table, Parameter& parameter) {
    const toml::node* node = table.get("rows");
    if (node == nullptr) return true;
    const std::string key = name + ".rows";
    if (parameter.kind != Evidence::fitted)
      return fail(key, line_of(*node), "only a fitted constant rests on rows", "write kind = \"fitted\"");
    const toml::array* list = node->as_array();
    if (list == nullptr || list->empty() || !list->is_homogeneous<std::string>())
      return fail(key, line_of(*node), "expected a list of sets of measured steps", "write their names in brackets");
    for (const toml::node& item : *list) parameter.rows.push_back(*item.value<std::string>());
    return true;
  }

  bool read_tables(const std::string& key, const toml::node& node, bool (Reader::*read)(const toml::table&)) {
    const toml::array* list = node.as_array();
    if (list == nullptr || !list->is_array_of_tables())
      return fail(key, line_of(node), "expected a list of tables", fmt::format("write each {0} under [[{0}]]", key));
    return std::ranges::all_of(*list, [&](const toml::node& item) { return (this->*read)(*item.as_table()); });
  }

  bool read_fit(const toml::table& table) {
    for (const auto& [key, inner] : table)
      if (std::ranges::find(fit_keys, key.str()) == fit_keys.end())
        return fail("fit." + std::string(key.str()), line_of(inner), "unknown key", did_you_mean(key.str(), fit_keys));
    ParameterFile::Fit made;
    made.line = line_of(table);
    const toml::array* constants = table["constants"].as_array();
    if (constants == nullptr || !std::ranges::all_of(*constants, [&](const toml::node& entry) {
          auto& names = made.fit.constants.emplace_back();
          if (const auto name = entry.value_exact<std::string>()) names.push_back(*name);
          if (const toml::array* several = entry.as_array())
            for (const toml::node& name : *several) names.push_back(name.value_exact<std::string>().value_or(""));
          return !names.empty() && std::ranges::find(names, "") == names.end();
        }))
      return fail("fit.constants", made.line, "expected a list of names, or of lists of names",
                  "constants = [\"network.nic_rate\", [\"network.latency\", ...]]");
    const toml::array* rows = table["correlation"].as_array();
    for (std::size_t i = 0; rows != nullptr && i < rows->size(); ++i) {
      const toml::array* row = rows->get(i)->as_array();
      auto& numbers = made.fit.correlation.emplace_back();
      for (std::size_t j = 0; row != nullptr && j < row->size(); ++j)
        numbers.push_back(row->get(j)->value<double>().value_or(2));
      if (numbers.size() != i + 1 || !std::ranges::all_of(numbers, [](double r) { return std::abs(r) <= 1; }))
        return fail("fit.correlation", made.line, fmt::format("row {0} is not {0} numbers between -1 and 1", i + 1),
                    "each row has the correlations of a constant with those before it");
    }
    if (made.fit.correlation.size() + 1 != made.fit.constants.size())
      return fail(
          "fit.correlation", made.line,
          fmt::format("{} rows for {} entries of constants", made.fit.correlation.size(), made.fit.constants.size()),
          "every entry but the first has a row");
    file_.fits.push_back(std::move(made));
    return true;
  }

  bool read_setting(const toml::table& table) {
    return read_decision("setting", setting_keys, "value", table, file_.settings);
  }

  bool read_has(const toml::table& table) { return read_decision("has", has_keys, "values", table, file_.has); }

  // Reads what a stack decides about a key of a plan, from a table of the list `name`.
  bool read_decision(const std::string& name, const std::vector<std::string>& keys, const std::string& value_key,
                     const toml::table& table, std::vector<ParameterFile::Setting>& all) {
    const std::string hint = fmt::format("each [[{}]] has {}", name, fmt::join(keys, ", "));
    for (const auto& [key, inner] : table) {
      if (std::ranges::find(keys, key.str()) != keys.end()) continue;
      return fail(name + "." + std::string(key.str()), line_of(inner), "unknown key",
                  did_you_mean(key.str(), keys, hint));
    }
    ParameterFile::Setting made;
    made.line = line_of(table);
    std::string kind;
    if (!read_word(name, table, "key", made.key, hint) || !read_word(name, table, "kind", kind, hint) ||
        !read_word(name, table, "source", made.source, hint) || !read_evidence(name, table, kind, made.kind))
      return false;
    const toml::node* value = table.get(value_key);
    if (value == nullptr) return fail(made.key, made.line, fmt::format("lacks '{}'", value_key), hint);
    made.value = toml_of(*value);
    if (const toml::node* other = table.get("instead_of")) made.instead_of = toml_of(*other);
    if (table.contains("needs") && !read_word(name, table, "needs", made.needs, hint)) return false;
    all.push_back(std::move(made));
    return true;
  }

  bool read_value(const std::string& name, const toml::table& table, double& value) {
    const toml::node* node = table.get("value");
    const auto number = node->is_number() ? node->value<double>() : std::nullopt;
    if (!number || !std::isfinite(*number)) return fail(name + ".value", line_of(*node), "expected a number", "");
    value = *number;
    return true;
  }

  bool read_word(const std::string& name, const toml::table& table, const char* key, std::string& word,
                 const std::string& hint = "") {
    const toml::node* node = table.get(key);
    if (node == nullptr) return fail(name, line_of(table), fmt::format("lacks '{}'", key), hint);
    const auto value = node->value_exact<std::string>();
    if (!value || value->empty())
      return fail(fmt::format("{}.{}", name, key), line_of(*node), "expected a string that is not empty",
                  key == std::string_view("unit") ? "a number without dimension has unit \"1\"" : "");
    word = *value;
    return true;
  }

  bool read_uncertainty(const std::string& name, const toml::table& table, Parameter& parameter) {
    const toml::node* node = table.get("uncertainty");
    if (node == nullptr) return true;
    const auto value = node->is_number() ? node->value<double>() : std::nullopt;
    if (!value || !std::isfinite(*value) || *value < 0)
      return fail(name + ".uncertainty", line_of(*node), "expected a number that is not negative",
                  "one standard deviation over the value");
    parameter.relative_uncertainty = *value;
    return true;
  }

  bool read_range(const std::string& name, const toml::table& table, Parameter& parameter) {
    const auto bound = [&](const char* key, std::optional<double>& value) {
      const toml::node* node = table.get(key);
      if (node == nullptr) return true;
      value = node->is_number() ? node->value<double>() : std::nullopt;
      if (value && std::isfinite(*value)) return true;
      return fail(fmt::format("{}.{}", name, key), line_of(*node), "expected a number", "");
    };
    if (!bound("low", parameter.low) || !bound("high", parameter.high)) return false;
    const double low = parameter.low.value_or(parameter.value), high = parameter.high.value_or(parameter.value);
    if (low <= parameter.value && parameter.value <= high) return true;
    return fail(name, line_of(table), fmt::format("{} is not between {} and {}", parameter.value, low, high),
                "low and high enclose the value");
  }

  ParameterFile& file_;
  const std::vector<std::string>& text_keys_;
  const std::vector<std::string>& list_keys_;
  bool is_stack_, is_profile_;
  std::vector<std::string> entry_keys_ = entry_keys;
  Error error_;
};

Error extends_error(const ParameterFile& file, std::string message, std::string hint) {
  return Error{ErrorKind::input, std::move(message), file.path, file.text("extends")->line, "extends", std::move(hint)};
}

// Returns the file of a base: next to the one that extends it, else in `shipped`; "" where there is none.
std::string base_file(const std::string& base, const std::filesystem::path& folder, const std::string& shipped) {
  const std::string name = base + ".toml";
  std::string adjacent = (folder / name).string();
  if (is_file(adjacent)) return adjacent;
  std::string file = (std::filesystem::path(shipped) / name).string();
  return !shipped.empty() && is_file(file) ? file : "";
}

Error no_base(const ParameterFile& file, const std::string& base, const std::filesystem::path& folder,
              const std::string& shipped, const std::string& what) {
  std::vector<std::string> names = names_in_folder(folder.empty() ? "." : folder, ".toml");
  if (!shipped.empty()) std::ranges::copy(names_in_folder(shipped, ".toml"), std::back_inserter(names));
  return extends_error(
      file,
      fmt::format("no {} '{}' in the same folder{}", what, base, shipped.empty() ? "" : ", and none that is shipped"),
      did_you_mean(base, names, "give the name without .toml"));
}

}  // namespace

const ParameterFile::Number* ParameterFile::number(std::string_view name) const {
  const auto found =
      std::ranges::find(numbers, name, [](const Number& entry) { return std::string_view(entry.parameter.name); });
  return found == numbers.end() ? nullptr : &*found;
}

const ParameterFile::Text* ParameterFile::text(std::string_view key) const {
  const auto found = std::ranges::find(texts, key, [](const Text& entry) { return std::string_view(entry.key); });
  return found == texts.end() ? nullptr : &*found;
}

std::string ParameterFile::text_or_empty(std::string_view key) const {
  const Text* found = text(key);
  return found == nullptr ? std::string() : found->value;
}

std::vector<std::string> ParameterFile::values(std::string_view key) const {
  std::vector<std::string> values;
  for (const Text& entry : texts)
    if (entry.key == key) values.push_back(entry.value);
  return values;
}

std::string ParameterFile::name() const {
  const Text* stated = text("name");
  return stated == nullptr ? std::filesystem::path(path).stem().string() : stated->value;
}

std::vector<Parameter> take_constants(ParameterFile file) {
  std::vector<Parameter> constants;
  for (ParameterFile::Number& number : file.numbers) constants.push_back(std::move(number.parameter));
  return constants;
}

std::vector<Parameter*> constants_of(ParameterFile& file) {
  std::vector<Parameter*> constants;
  for (ParameterFile::Number& number : file.numbers) constants.push_back(&number.parameter);
  return constants;
}

Result<ParameterFile> read_parameter_file(const std::string& path, const std::vector<std::string>& text_keys,
                                          const std::vector<std::string>& list_keys, ParameterForm form) {
  const auto text = TRY(read_text_file(path));
  TRY(check_nesting(text, path));
  ParameterFile file;
  file.path = path;
  Reader reader(file, text_keys, list_keys, form);
  try {
    if (!reader.read_root(toml::parse(text, path))) return tl::unexpected(reader.error());
  } catch (const toml::parse_error& failure) {
    return wrong_input_at(path, static_cast<int>(failure.source().begin.line), "", std::string(failure.description()));
  }
  return file;
}

Result<std::vector<ParameterFile>> read_chain(const std::string& path, const std::string& shipped,
                                              const ChainKind& kind) {
  std::vector<ParameterFile> chain;
  for (std::string next = path; !next.empty();) {
    auto file = TRY(read_parameter_file(next, kind.text_keys, kind.list_keys, kind.form));
    if (kind.check != nullptr) TRY(kind.check(file));
    chain.push_back(std::move(file));
    const std::string base = chain.back().text_or_empty("extends");
    if (base.empty()) break;
    const std::filesystem::path folder = std::filesystem::path(next).parent_path();
    next = base_file(base, folder, shipped);
    if (next.empty()) return tl::unexpected(no_base(chain.back(), base, folder, shipped, kind.what));
    if (std::ranges::find(chain, next, &ParameterFile::path) != chain.end())
      return tl::unexpected(extends_error(chain.back(), fmt::format("'{}' extends itself", base), "remove the circle"));
  }
  return chain;
}

ParameterFile joined(std::vector<ParameterFile> chain) {
  ParameterFile file = std::move(chain.front());
  for (std::size_t i = 1; i < chain.size(); ++i) {
    for (ParameterFile::Number& number : chain[i].numbers)
      if (file.number(number.parameter.name) == nullptr) file.numbers.push_back(std::move(number));
    std::erase_if(chain[i].texts, [&](const ParameterFile::Text& text) {
      return text.key == "name" || text.key == "description" || file.text(text.key) != nullptr;
    });
    std::ranges::move(chain[i].texts, std::back_inserter(file.texts));
  }
  std::ranges::sort(file.numbers, {}, [](const ParameterFile::Number& number) { return number.parameter.name; });
  return file;
}

}  // namespace plumbline::model
