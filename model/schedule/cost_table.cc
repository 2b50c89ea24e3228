#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "model/base/text.h"
#include "model/base/text_file.h"
#include "model/schedule/evaluate.h"

namespace plumbline::model {
namespace {

// The names are in the order of OpType.
const std::vector<std::string> cost_names = {"F", "B", "I", "W", "FB"};
constexpr std::size_t f_cost = 0, b_cost = 1, i_cost = 2, w_cost = 3, fb_cost = 4;
constexpr const char* stage_hint = "each stage needs F, I and W";

using StageValues = std::array<std::optional<double>, 5>;

tl::unexpected<Error> unknown_key(const std::string& file, int line, const std::string& prefix, std::string_view key,
                                  const std::vector<std::string>& known) {
  const std::string nearest = nearest_name(key, known);
  return wrong_input_at(file, line, prefix + std::string(key), "unknown key",
                        nearest.empty() ? fmt::format("known here: {}", fmt::join(known, ", "))
                                        : fmt::format("did you mean '{}{}'?", prefix, nearest));
}

// Returns the costs of a stage; `prefix` is put before the name of a missing cost in errors.
Result<ScheduleCosts> stage_costs(const StageValues& values, const std::string& file, int line,
                                  const std::string& prefix) {
  for (const std::size_t index : {f_cost, i_cost, w_cost})
    if (!values[index])
      return wrong_input_at(file, line, prefix + cost_names[index], "a stage without this cost", stage_hint);
  ScheduleCosts costs;
  costs.F = *values[f_cost];
  costs.I = *values[i_cost];
  costs.W = *values[w_cost];
  costs.B = values[b_cost].value_or(costs.I + costs.W);
  costs.FB = values[fb_cost].value_or(costs.F + costs.B);
  return costs;
}

int node_line(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

Result<double> cost_value(const toml::node& node, const std::string& file, const std::string& key) {
  const auto value = node.is_number() ? node.value<double>() : std::nullopt;
  if (!value || !is_cost(*value)) return wrong_input_at(file, node_line(node), key, not_a_cost);
  return *value;
}

Result<ScheduleCosts> stage_from(const toml::node& node, const std::string& file) {
  const toml::table* table = node.as_table();
  if (table == nullptr) return wrong_input_at(file, node_line(node), "stage", "a stage is a table", stage_hint);
  StageValues values;
  for (const auto& [key, value] : *table) {
    const auto name = std::find(cost_names.begin(), cost_names.end(), key.str());
    if (name == cost_names.end()) return unknown_key(file, node_line(value), "stage.", key.str(), cost_names);
    const auto cost = TRY(cost_value(value, file, "stage." + *name));
    values[static_cast<std::size_t>(name - cost_names.begin())] = cost;
  }
  return stage_costs(values, file, node_line(node), "stage.");
}

Result<void> read_key(CostTable& input, std::string_view key, const toml::node& node) {
  if (key == "p2p") {
    input.uniform.p2p = TRY(cost_value(node, input.file, "p2p"));
    return {};
  }
  const toml::array* list = node.as_array();
  if (key != "stage" && key != "micro_batch_factors")
    return unknown_key(input.file, node_line(node), "", key, {"p2p", "micro_batch_factors", "stage"});
  if (list == nullptr)
    return wrong_input_at(input.file, node_line(node), std::string(key), "not a list",
                          key == "stage" ? stage_hint : "");
  for (const toml::node& item : *list) {
    if (key == "stage")
      input.stages.push_back(TRY(stage_from(item, input.file)));
    else
      input.micro_batch_factors.push_back(TRY(cost_value(item, input.file, "micro_batch_factors")));
  }
  return {};
}

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields = split_at(line, ',');
  for (std::string_view& field : fields) field = trimmed(field);
  return fields;
}

// Returns the cost that each column holds.
Result<std::vector<std::size_t>> columns_from(std::string_view header, const std::string& file, int line) {
  std::vector<std::size_t> columns;
  for (const std::string_view name : fields_of(header)) {
    const auto known = std::find(cost_names.begin(), cost_names.end(), name);
    if (known == cost_names.end()) return unknown_key(file, line, "", name, cost_names);
    const auto index = static_cast<std::size_t>(known - cost_names.begin());
    if (std::find(columns.begin(), columns.end(), index) != columns.end())
      return wrong_input_at(file, line, *known, "two columns of this name");
    columns.push_back(index);
  }
  return columns;
}

Result<ScheduleCosts> stage_from_row(std::string_view row, const std::vector<std::size_t>& columns,
                                     const std::string& file, int line) {
  const std::vector<std::string_view> fields = fields_of(row);
  if (fields.size() != columns.size())
    return wrong_input_at(file, line, "", fmt::format("{} fields below a header of {}", fields.size(), columns.size()));
  StageValues values;
  for (std::size_t column = 0; column < fields.size(); ++column) {
    const std::string_view text = fields[column];
    const auto value = parse_number<double>(text);
    if (!value || !is_cost(*value))
      return wrong_input_at(file, line, cost_names[columns[column]], fmt::format("'{}' is {}", text, not_a_cost));
    values[columns[column]] = value;
  }
  return stage_costs(values, file, line, "");
}

struct CostEntry {
  std::string_view key;
  double* value = nullptr;
  bool given = false;
};

// Reads one "KEY=VALUE" of --costs.
Result<void> parse_cost(std::string_view item, std::span<CostEntry> entries) {
  const std::size_t equals = item.find('=');
  const std::string_view key = item.substr(0, equals);
  const auto entry = std::find_if(entries.begin(), entries.end(), [&](const CostEntry& e) { return e.key == key; });
  if (equals == std::string_view::npos || entry == entries.end()) {
    std::vector<std::string> names;
    for (const CostEntry& known : entries) names.emplace_back(known.key);
    if (equals == std::string_view::npos) names.clear();
    return wrong_input(
        "--costs", fmt::format("'{}' is no cost", item),
        did_you_mean(key, names, "write KEY=VALUE with F, B, I, W, FB or p2p, or name a .toml or .csv file"));
  }
  const std::string_view text = item.substr(equals + 1);
  const auto value = parse_number<double>(text);
  if (!value || !is_cost(*value)) return wrong_input("--costs", fmt::format("'{}' is {}", item, not_a_cost));
  if (entry->given) return wrong_input("--costs", fmt::format("'{}' is given twice", key));
  *entry->value = *value;
  entry->given = true;
  return {};
}

}  // namespace

Result<CostTable> costs_from_toml(const std::string& text, const std::string& file) {
  TRY(check_nesting(text, file));
  CostTable input;
  input.file = file;
  try {
    for (const auto& [key, node] : toml::parse(text, file)) TRY(read_key(input, key.str(), node));
  } catch (const toml::parse_error& failure) {
    return wrong_input_at(file, static_cast<int>(failure.source().begin.line), "", std::string(failure.description()));
  }
  if (input.stages.empty())
    return wrong_input_at(file, 0, "stage", "lists no stage", "write a [[stage]] table with F, I and W for each stage");
  return input;
}

Result<CostTable> costs_from_csv(const std::string& text, const std::string& file) {
  CostTable input;
  input.file = file;
  std::optional<std::vector<std::size_t>> columns;
  int number = 0;
  for (const std::string_view end_to_end : lines_of(text)) {
    const std::string_view line = trimmed(end_to_end);
    ++number;
    if (line.empty()) continue;
    if (!columns) {
      columns = TRY(columns_from(line, file, number));
      continue;
    }
    input.stages.push_back(TRY(stage_from_row(line, *columns, file, number)));
  }
  if (input.stages.empty())
    return wrong_input_at(file, 0, "", "lists no stage", "write a header with F, I and W, and a line for each stage");
  return input;
}

Result<ScheduleCosts> parse_costs(std::string_view text) {
  ScheduleCosts costs;
  std::array<CostEntry, 6> entries = {
      {{"F", &costs.F}, {"B", &costs.B}, {"I", &costs.I}, {"W", &costs.W}, {"FB", &costs.FB}, {"p2p", &costs.p2p}}};
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    TRY(parse_cost(text.substr(0, comma), entries));
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  if (!entries[1].given) costs.B = costs.I + costs.W;
  if (!entries[4].given) costs.FB = costs.F + costs.B;
  return costs;
}

Result<CostTable> read_costs(const std::string& text_or_file) {
  const bool toml = text_or_file.ends_with(".toml"), csv = text_or_file.ends_with(".csv");
  if (!toml && !csv) return CostTable{TRY(parse_costs(text_or_file)), {}, {}, ""};
  const auto text = TRY(read_text_file(text_or_file));
  return toml ? costs_from_toml(text, text_or_file) : costs_from_csv(text, text_or_file);
}

}  // namespace plumbline::model
