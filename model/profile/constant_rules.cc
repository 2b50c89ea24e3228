#include "model/profile/constant_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <unordered_map>
#include <utility>

namespace plumbline::model {
namespace {

// The ranges of constants.def. The smallest and largest values are far from any hardware; they keep times and rates
// finite. Times end at 1000 s, because a step is counted in picoseconds of 64 bits.
namespace ranges {
constexpr ConstantRange rate{1e3, 1e18}, flop_rate{1e6, 1e21};
constexpr ConstantRange delay{0, 1e3}, duration{1e-18, 1e3};
constexpr ConstantRange slowdown{1, 1e3}, factor{0, 1e3}, share{0, 1}, speed{1e-3, 1e3};
constexpr ConstantRange part{1e-6, 1}, efficiency{1e-6, 1e3};
constexpr ConstantRange extent{1, 65536, true}, depth{0, 65536}, sms{1, 1e6}, blocks{0, 1024, true}, flag{0, 1, true};
constexpr ConstantRange resource{0, 1e9, true}, memory{0, 1e12}, reserved{0, 1e12, true};
constexpr ConstantRange power{0, 1e6}, limit{1, 1e6}, exponent{0, 10}, norm{1, 100, false, 1}, energy{0, 1e-3};
}  // namespace ranges

using Words = std::vector<std::string_view>;

// The lists of words by name; "class" has the classes of kernels that have a bandwidth, "operator" those and the kinds
// of operators, which have a class of their own where the names are the same.
std::unordered_map<std::string_view, Words> word_lists() {
  std::unordered_map<std::string_view, Words> lists;
  Words& classes = lists["class"];
  classes = {
      "default",
#define OPERATOR_CLASS(name, ...) #name,
#include "model/cost/operator_classes.def"
  };
  std::erase_if(classes, [](std::string_view name) {
    constexpr std::string_view others[] = {"gemm",     "weight_gradient_gemm", "attention", "router",
                                           "exchange", "collective",           "host_link"};
    return std::ranges::find(others, name) != std::end(others);
  });
  Words& operators = lists["operator"];
  operators.assign(lists["class"].begin() + 1, lists["class"].end());
  for (const std::string_view kind : {
#define OPERATOR(kind, ...) std::string_view(#kind),
#include "model/graph/operators.def"
       })
    if (std::ranges::find(operators, kind) == operators.end()) operators.push_back(kind);
#define CONSTANT_WORDS(name, ...) lists[name] = Words{__VA_ARGS__};
#define CONSTANT(...)
#include "model/profile/constants.def"
  return lists;
}

// Appends the rule once for each combination of words.
void expand(const ConstantRule& rule, const std::unordered_map<std::string_view, Words>& lists,
            std::vector<ConstantRule>& rules) {
  const std::size_t open = rule.name.find('<');
  if (open == std::string::npos) {
    rules.push_back(rule);
    return;
  }
  const std::size_t close = rule.name.find('>', open);
  for (const std::string_view word : lists.at(std::string_view(rule.name).substr(open + 1, close - open - 1))) {
    ConstantRule one = rule;
    one.name.replace(open, close - open + 1, word);
    expand(one, lists, rules);
  }
}

std::vector<ConstantRule> read_table() {
  const auto lists = word_lists();
  std::vector<ConstantRule> rules;
#define CONSTANT_WORDS(...)
#define CONSTANT(name, dimension, range, meaning) \
  expand({name, UnitDimension::dimension, ranges::range, meaning}, lists, rules);
#include "model/profile/constants.def"
  return rules;
}

bool is_pattern(std::string_view name) { return name.find_first_of("#*") != std::string_view::npos; }

// Neither # nor * ever takes a letter that the rest of the pattern needs, so the first match is the only one.
bool fits_pattern(std::string_view name, std::string_view pattern) {
  std::size_t at = 0;
  for (const char letter : pattern) {
    const std::size_t begin = at;
    if (letter == '#') {
      at = std::min(name.find_first_not_of("0123456789", at), name.size());
      if (at == begin || name[begin] == '0') return false;
    } else if (letter == '*') {
      at = std::min(name.find('.', at), name.size());
      if (at == begin) return false;
    } else if (at == name.size() || name[at++] != letter) {
      return false;
    }
  }
  return at == name.size();
}

std::string_view first_word(std::string_view name) { return name.substr(0, name.find('.')); }

// The rules by name, and those whose name is a pattern by its first word, which every pattern states. Each draw of an
// interval checks all constants of a profile.
struct RuleIndex {
  std::unordered_map<std::string_view, std::vector<const ConstantRule*>> by_name, patterns;

  explicit RuleIndex(const std::vector<ConstantRule>& rules) {
    for (const ConstantRule& rule : rules)
      (is_pattern(rule.name) ? patterns[first_word(rule.name)] : by_name[rule.name]).push_back(&rule);
  }
};

std::vector<const ConstantRule*> rules_of(std::string_view name) {
  static const RuleIndex index(constant_rules());
  if (const auto found = index.by_name.find(name); found != index.by_name.end()) return found->second;
  std::vector<const ConstantRule*> fitting;
  const auto patterns = index.patterns.find(first_word(name));
  if (patterns == index.patterns.end()) return fitting;
  for (const ConstantRule* rule : patterns->second)
    if (fits_pattern(name, rule->name)) fitting.push_back(rule);
  return fitting;
}

Failure unknown_name(const std::string& name) {
  std::vector<std::string> names;
  for (const ConstantRule& rule : constant_rules()) names.push_back(rule.name);
  return wrong_input(name, "unknown constant",
                     did_you_mean(name, names, "no prediction reads it; docs/costs.md explains those that are read"));
}

std::string unit_text(const SiUnit& unit, const std::string& word) {
  return unit.dimension == UnitDimension::count ? "" : " " + word;
}

// Returns the allowed values in words, in a unit of that size.
std::string range_text(const ConstantRange& range, double factor, const std::string& in_unit) {
  if (range.whole && range.low == 0 && range.high == 1) return "0 or 1";
  return fmt::format("{}from {:.6g} to {:.6g}{}", range.whole ? "a whole number " : "", range.low / factor,
                     range.high / factor, in_unit);
}

bool is_allowed(double value, const ConstantRange& range) {
  constexpr double rounding = 1e-12;  // of the conversion to SI
  return value >= range.low * (1 - rounding) && value <= range.high * (1 + rounding) &&
         (!range.whole || value == std::floor(value));
}

}  // namespace

const std::vector<ConstantRule>& constant_rules() {
  static const std::vector<ConstantRule> rules = read_table();
  return rules;
}

Result<std::vector<ConstantRule>> find_constant_rules(std::string_view name) {
  std::vector<ConstantRule> exact, below, by_leaf;
  for (const ConstantRule* rule : rules_of(name)) exact.push_back(*rule);
  for (const ConstantRule& rule : constant_rules()) {
    if (rule.name.starts_with(fmt::format("{}.", name))) below.push_back(rule);
    if (rule.name.ends_with(fmt::format(".{}", name))) by_leaf.push_back(rule);
  }
  for (auto* found : {&exact, &below, &by_leaf})
    if (!found->empty()) return std::move(*found);
  return unknown_name(std::string(name));
}

bool is_of_serving(std::string_view name) {
  constexpr std::string_view families[] = {"serving.",           "cached_attention.", "residual.cached_attention",
                                           "collective.custom.", "residual.small_",   "exchange.low_latency."};
  return name.find("small_m_") != std::string_view::npos ||
         std::ranges::any_of(families, [&](std::string_view family) { return name.starts_with(family); });
}

std::optional<ConstantRange> constant_range(const Parameter& constant) {
  const std::vector<const ConstantRule*> rules = rules_of(constant.name);
  const auto unit = si_unit(constant.unit);
  if (!unit) return std::nullopt;
  const auto rule = std::ranges::find(rules, unit->dimension, &ConstantRule::dimension);
  if (rule == rules.end()) return std::nullopt;
  const ConstantRange& range = (*rule)->range;
  return ConstantRange{range.low / unit->factor, range.high / unit->factor, range.whole, range.origin / unit->factor};
}

double log_deviation(const Parameter& constant, double relative_uncertainty) {
  const auto range = constant_range(constant);
  const double above = constant.value - (range ? range->origin : 0);
  return std::log1p(above > 0 ? relative_uncertainty * constant.value / above : relative_uncertainty);
}

Result<void> check_constant(const Parameter& constant) {
  const std::vector<const ConstantRule*> rules = rules_of(constant.name);
  if (rules.empty()) return unknown_name(constant.name);
  const auto unit = si_unit(constant.unit);
  if (!unit) return wrong_input(constant.name, unit.error().message, unit.error().hint);
  const auto rule = std::ranges::find(rules, unit->dimension, &ConstantRule::dimension);
  if (rule == rules.end())
    return wrong_input(constant.name,
                       fmt::format("unit '{}' gives {} where {} is wanted", constant.unit, to_string(unit->dimension),
                                   to_string(rules.front()->dimension)),
                       fmt::format("it is {}", rules.front()->meaning));
  if (std::isfinite(constant.value) && is_allowed(constant.value * unit->factor, (*rule)->range)) return {};
  const std::string in_unit = unit_text(*unit, constant.unit);
  return wrong_input(constant.name, fmt::format("{}{} is out of range", constant.value, in_unit),
                     fmt::format("{}: {}", (*rule)->meaning, range_text((*rule)->range, unit->factor, in_unit)));
}

Result<void> check_constants(const ParameterFile& file) {
  for (const ParameterFile::Number& number : file.numbers) {
    if (const auto allowed = check_constant(number.parameter); !allowed) {
      Error error = allowed.error();
      error.file = file.path;
      error.line = number.line;
      return tl::unexpected(std::move(error));
    }
  }
  return {};
}

// Every * takes as few characters as it can; where the rest does not fit, the last one takes another.
bool name_fits(std::string_view name, std::string_view pattern) {
  std::size_t at = 0, in_pattern = 0, last_star = std::string_view::npos, after_star = 0;
  while (at < name.size()) {
    if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
      last_star = in_pattern++;
      after_star = at;
    } else if (in_pattern < pattern.size() && pattern[in_pattern] == name[at]) {
      ++in_pattern;
      ++at;
    } else if (last_star != std::string_view::npos) {
      in_pattern = last_star + 1;
      at = ++after_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', in_pattern) == std::string_view::npos;
}

namespace {

// gemm.tile, gemm.<kind>.tile_m and .tile_n. The rates of GEMMs are times of one tile.
bool is_tile(std::string_view name) {
  return name == "gemm.tile" || name_fits(name, "gemm.*.tile_m") || name_fits(name, "gemm.*.tile_n");
}

}  // namespace

Result<void> apply_change(const ConstantChange& change, const std::vector<Parameter*>& constants) {
  bool found = false;
  for (Parameter* constant : constants) {
    if (!name_fits(constant->name, change.name)) continue;
    found = true;
    const double before = constant->value;
    if (const double after = change.is_factor() ? before * change.value : change.value;
        is_tile(constant->name) && after != before)
      return wrong_input(
          change.name,
          fmt::format("{} cannot change alone: k_time and wave_overhead are times of a tile", constant->name),
          "change profile.gemm.*.k_time, or give a profile that states the tile with its times");
    constant->value = change.is_factor() ? before * change.value : change.value;
    constant->kind = Evidence::assumed;
    constant->source =
        fmt::format("given for this prediction; was {} {}: {}", before, constant->unit, constant->source);
    constant->relative_uncertainty.reset();
  }
  if (found) return {};
  std::vector<std::string> names;
  for (const Parameter* constant : constants) names.push_back(constant->name);
  return wrong_input(change.name, "unknown constant",
                     did_you_mean(change.name, names, "plumbline show profile and show topology list them"));
}

}  // namespace plumbline::model
