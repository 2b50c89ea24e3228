#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/si_unit.h"
#include "reports/csv/csv_table.h"
#include "reports/text/inputs/inputs_text.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

using model::ConstantRule;

// Returns the usual unit of a dimension; profiles may have another one of the same dimension.
std::string_view usual_unit(model::UnitDimension dimension) {
  static constexpr std::string_view units[] = {"1",       "s",    "B",   "GB/s", "TFLOP/s",   "W",       "J",
                                               "pJ/FLOP", "pJ/B", "MHz", "USD",  "USD/GPU-h", "USD/kWh", "year"};
  return *std::ranges::find_if(
      units, [dimension](std::string_view unit) { return model::si_unit(unit)->dimension == dimension; });
}

std::string allowed(const ConstantRule& rule) {
  const double factor = model::si_unit(usual_unit(rule.dimension))->factor;
  if (rule.range.whole && rule.range.low == 0 && rule.range.high == 1) return "0 or 1";
  return fmt::format("{}{:.6g} to {:.6g}", rule.range.whole ? "a whole number, " : "", rule.range.low / factor,
                     rule.range.high / factor);
}

std::string one_constant_text(const ConstantRule& rule) {
  Table table("constant | " + rule.name);
  table.row("meaning", rule.meaning);
  table.add({"unit", fmt::format("{} ({})", usual_unit(rule.dimension), model::to_string(rule.dimension))});
  table.add({"allowed", allowed(rule)});
  return table.to_string() +
         fmt::format(
             "\nIts values, with their sources:\n  plumbline show profile PROFILE\nAnother value, for one prediction:\n"
             "  plumbline simulate PLAN --set profile.{}=VALUE\n",
             rule.name);
}

}  // namespace

std::string constant_rules_text(const std::vector<ConstantRule>& rules) {
  if (rules.size() == 1) return one_constant_text(rules.front());
  Table table("constant | unit | meaning");
  for (const ConstantRule& rule : rules) table.row(rule.name, usual_unit(rule.dimension), rule.meaning);
  return table.to_string() + "\nplumbline show profile PROFILE has their values, with sources.\n";
}

std::string constant_rules_csv(const std::vector<ConstantRule>& rules) {
  CsvTable table({"constant", "meaning", "unit", "allowed"});
  for (const ConstantRule& rule : rules) table.row(rule.name, rule.meaning, usual_unit(rule.dimension), allowed(rule));
  return table.text();
}

}  // namespace plumbline::reports
