#include "model/base/table_reader.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>

#include "model/base/text_file.h"

namespace plumbline::model {

struct TableReader::Table {
  const toml::table& toml;
};

namespace {

int line_of_node(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

}  // namespace

bool TableReader::has(std::string_view key) {
  known_.emplace_back(key);
  return table_.toml.contains(key);
}

void TableReader::require(std::string_view key) {
  // For the whole file there is no line to name.
  if (!has(key)) fail(key, prefix_.empty() ? 0 : line(), "required key is missing", "");
}

std::string TableReader::text(std::string_view key) {
  require(key);
  return optional_text(key);
}

std::string TableReader::optional_text(std::string_view key) {
  if (!has(key)) return "";
  const auto value = table_.toml.get(key)->value_exact<std::string>();
  if (!value || value->empty()) fail(key, line_of(key), "expected a string that is not empty", "");
  return value.value_or("");
}

double TableReader::positive(std::string_view key) {
  require(key);
  return optional_positive(key).value_or(0);
}

std::optional<double> TableReader::optional_positive(std::string_view key) {
  if (!has(key)) return std::nullopt;
  const toml::node& node = *table_.toml.get(key);
  const auto value = node.is_number() ? node.value<double>() : std::nullopt;
  if (value && std::isfinite(*value) && *value > 0) return value;
  fail(key, line_of(key), "expected a number above 0", "");
  return 0;
}

std::int64_t TableReader::whole(std::string_view key, std::optional<std::int64_t> fallback) {
  if (!fallback) require(key);
  if (!has(key)) return fallback.value_or(1);
  const auto value = table_.toml.get(key)->value_exact<std::int64_t>();
  constexpr std::int64_t most = 1'000'000'000;
  if (value && *value > 0 && *value <= most) return *value;
  fail(key, line_of(key), "expected a whole number above 0", "");
  return 1;
}

bool TableReader::flag(std::string_view key, bool fallback) {
  if (!has(key)) return fallback;
  const auto value = table_.toml.get(key)->value_exact<bool>();
  if (!value) fail(key, line_of(key), "expected true or false", "");
  return value.value_or(fallback);
}

std::optional<std::pair<double, double>> TableReader::optional_shares(std::string_view key) {
  if (!has(key)) return std::nullopt;
  const toml::array* list = table_.toml.get(key)->as_array();
  if (list != nullptr && list->size() == 2) {
    const auto low = list->get(0)->value<double>(), high = list->get(1)->value<double>();
    if (low && high && 0 <= *low && *low < *high && *high <= 1) return std::pair(*low, *high);
  }
  fail(key, line_of(key), "expected two shares from 0 to 1, the smaller one first", "");
  return std::nullopt;
}

std::vector<std::string> TableReader::texts(std::string_view key) {
  require(key);
  return optional_texts(key);
}

std::vector<std::string> TableReader::optional_texts(std::string_view key) {
  std::vector<std::string> values;
  if (!has(key)) return values;
  if (const toml::array* list = table_.toml.get(key)->as_array()) {
    for (const toml::node& item : *list)
      if (const auto value = item.value_exact<std::string>()) values.push_back(*value);
    if (values.size() == list->size() && !values.empty()) return values;
  }
  fail(key, line_of(key), "expected a list of strings that is not empty", "");
  return values;
}

std::vector<std::string> TableReader::text_or_texts(std::string_view key) {
  if (has(key) && table_.toml.get(key)->is_string()) return {text(key)};
  return texts(key);
}

std::string TableReader::word(std::string_view key) {
  require(key);
  const toml::node_view<const toml::node> node = table_.toml[key];
  if (const auto number = node.value_exact<std::int64_t>()) return fmt::format("{}", *number);
  const auto text = node.value_exact<std::string>();
  if (text && !text->empty() && text->find_first_of(" \t\n\r#=") == std::string::npos) return *text;
  fail(key, line_of(key), "expected a whole number or one word", "");
  return "";
}

void TableReader::optional(std::string_view key, std::vector<std::int64_t>& field) {
  if (!has(key)) return;
  const toml::node& node = *table_.toml.get(key);
  const toml::array one{node};
  const toml::array& list = node.is_array() ? *node.as_array() : one;
  field.clear();
  for (const toml::node& item : list)
    if (const auto number = item.value_exact<std::int64_t>(); number && *number > 0) field.push_back(*number);
  if (field.empty() || field.size() != list.size()) fail(key, line_of(key), "expected whole numbers above 0", "");
}

void TableReader::optional_table(std::string_view key, const Visit& visit) {
  if (!has(key)) return;
  const toml::table* table = table_.toml.get(key)->as_table();
  if (table == nullptr) return fail(key, line_of(key), "expected a table", "");
  read_inner({*table}, key, visit);
}

void TableReader::optional_tables(std::string_view key, const Visit& visit) {
  if (!has(key)) return;
  const toml::node& node = *table_.toml.get(key);
  if (!node.is_array_of_tables() || node.as_array()->empty())
    return fail(key, line_of(key), "expected a list of tables", fmt::format("write each as [[{}]]", key));
  for (const toml::node& item : *node.as_array()) read_inner({*item.as_table()}, key, visit);
}

void TableReader::read_inner(const Table& table, std::string_view key, const Visit& visit) {
  TableReader reader(table, fmt::format("{}{}.", prefix_, key), path_, error_);
  visit(reader);
  reader.finish();
}

int TableReader::line() const { return line_of_node(table_.toml); }

int TableReader::line_of(std::string_view key) const {
  const toml::node* node = table_.toml.get(key);
  return node == nullptr ? 0 : line_of_node(*node);
}

std::vector<std::string> TableReader::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, node] : table_.toml) keys.emplace_back(key.str());
  return keys;
}

void TableReader::fail(std::string_view key, int line, std::string message, std::string hint) {
  if (error_) return;
  std::string name = prefix_ + std::string(key);
  if (name.ends_with('.')) name.pop_back();
  error_ = Error{ErrorKind::input, std::move(message), path_, line, std::move(name), std::move(hint)};
}

void TableReader::finish() {
  for (const std::string& key : keys()) {
    if (std::ranges::find(known_, key) != known_.end()) continue;
    std::ranges::sort(known_);
    known_.erase(std::ranges::unique(known_).begin(), known_.end());
    fail(key, line_of(key), "unknown key", did_you_mean(key, known_));
  }
}

Result<void> read_table_text(std::string_view text, const std::string& path, const TableReader::Visit& visit) {
  TRY(check_nesting(text, path));
  std::optional<Error> error;
  try {
    const toml::table root = toml::parse(text, path);
    const TableReader::Table table{root};
    TableReader reader(table, "", path, error);
    visit(reader);
    reader.finish();
  } catch (const toml::parse_error& failure) {
    const int line = static_cast<int>(failure.source().begin.line);
    error = Error{ErrorKind::input, std::string(failure.description()), path, line, "", ""};
  }
  if (error) return tl::unexpected(*error);
  return {};
}

Result<void> read_table_file(const std::string& path, const TableReader::Visit& visit) {
  return read_table_text(TRY(read_text_file(path)), path, visit);
}

bool table_file_has(const std::string& path, std::string_view key) {
  bool found = false;
  (void)read_table_file(path, [&](TableReader& reader) { found = reader.has(key); });
  return found;
}

}  // namespace plumbline::model
