#include "model/schedule/cost_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "model/base/text.h"
#include "model/base/text_file.h"

namespace plumbline::model {
namespace {

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
  if (!toml && !csv) {
    return CostTable{TRY(parse_costs(text_or_file)), {}, {}, ""};
  }
  const auto text = TRY(read_text_file(text_or_file));
  return toml ? costs_from_toml(text, text_or_file) : costs_from_csv(text, text_or_file);
}

}  // namespace plumbline::model
