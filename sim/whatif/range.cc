#include "sim/whatif/range.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "model/base/decimal.h"
#include "model/base/text.h"
#include "model/base/text_file.h"

namespace plumbline::sim {
namespace {

using model::parse_decimal;
using model::Result;
using model::trimmed;

constexpr std::string_view examples = "for example 0..64:4, 1..64:*2, 1,2,4 or [[3, 4], [4, 3]]";

model::Failure failure(std::string message, std::string hint = std::string(examples)) {
  return model::wrong_input_at("--over", 0, "", std::move(message), std::move(hint));
}

struct Range {
  model::Decimal first, last, step;
  bool factor = false;  // the step multiplies
};

// Returns whether the values rise. A step that leads away from the end is an error.
Result<bool> direction(const Range& range, std::string_view text) {
  const model::Decimal zero, one{1};
  const bool rises = range.factor || less(zero, range.step);
  if (range.factor && !(less(zero, range.first) && less(one, range.step)))
    return failure(fmt::format("'{}': a factor above 1 and a start above 0 are needed", text));
  if (!range.factor && !less(zero, range.step) && !less(range.step, zero))
    return failure(fmt::format("'{}': a step of 0 leads nowhere", text));
  const bool away = rises ? less(range.last, range.first) : less(range.first, range.last);
  if (away)
    return failure(fmt::format("'{}': the step leads away from the end", text),
                   rises ? "to count down, give a negative step: 64..0:-8" : "give a positive step");
  return rises;
}

Result<void> expand(const Range& range, std::string_view text, std::vector<SweepValue>& values) {
  const auto rises = TRY(direction(range, text));
  std::optional<model::Decimal> value = range.first;
  while (value && !(rises ? less(range.last, *value) : less(*value, range.last))) {
    if (values.size() == most_points)
      return failure(fmt::format("'{}': more than {} values", text, most_points), "take a larger step");
    values.push_back({value->text(), value->value()});
    value = range.factor ? product(*value, range.step) : sum(*value, range.step);
  }
  if (!value) return failure(fmt::format("'{}': too many digits", text), "round the ends or the step");
  return {};
}

// Reads A..B[:STEP]. Returns nothing when the text is a word.
Result<std::optional<Range>> parse_range(std::string_view text) {
  const std::size_t dots = text.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(dots + 2);
  const std::size_t colon = std::min(rest.find(':'), rest.size());
  const auto first = parse_decimal(text.substr(0, dots));
  const auto last = parse_decimal(rest.substr(0, colon));
  if (!first && !last) return std::nullopt;
  if (!first || !last) return failure(fmt::format("'{}' is not a range: both ends must be numbers", text));
  Range range{*first, *last, {1}, false};
  if (colon == rest.size()) {
    if (!first->integer || !last->integer)
      return failure(fmt::format("'{}': a range of numbers with a fraction needs a step", text),
                     "for example 0..0.2:0.05");
    return range;
  }
  std::string_view step = rest.substr(colon + 1);
  range.factor = step.starts_with('*');
  if (range.factor) step.remove_prefix(1);
  const auto number = parse_decimal(step);
  if (!number) return failure(fmt::format("'{}': the step '{}' is not a number", text, step));
  range.step = *number;
  // All values of a range have the same type.
  range.first.integer = range.first.integer && range.last.integer && range.step.integer;
  return range;
}

SweepValue value_of(const toml::node& node) {
  SweepValue value;
  if (const auto number = node.value<double>(); node.is_number()) value.number = number;
  std::ostringstream text;
  node.visit([&text](const auto& concrete) {
    using Node = std::remove_cvref_t<decltype(concrete)>;
    if constexpr (std::is_same_v<Node, toml::array>)
      text << toml::toml_formatter(concrete, toml::format_flags::none);
    else
      text << toml::toml_formatter(concrete);
  });
  value.text = std::move(text).str();
  return value;
}

// Returns the items of a TOML list, or nothing when the text is not one.
std::optional<std::vector<SweepValue>> parse_list(const std::string& text) {
  if (!model::check_nesting(text, "")) return std::nullopt;
  try {
    const toml::table table = toml::parse("list = " + text);
    const toml::array* list = table["list"].as_array();
    if (list == nullptr || table.size() != 1) return std::nullopt;
    std::vector<SweepValue> values;
    for (const toml::node& node : *list) values.push_back(value_of(node));
    return values;
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
}

Result<void> parse_item(std::string_view item, std::vector<SweepValue>& values) {
  if (item.empty()) return failure("a value is missing");
  if (item.find_first_of("\"'[]{}") != std::string_view::npos)
    return failure(fmt::format("'{}' is neither a word nor a number", item), "put all values into one TOML list");
  const auto range = TRY(parse_range(item));
  if (range) return expand(*range, item, values);
  if (values.size() == most_points) return failure(fmt::format("more than {} values", most_points), "");
  const auto number = parse_decimal(item);
  values.push_back({std::string(item), number ? std::optional(number->value()) : std::nullopt});
  return {};
}

Result<std::vector<SweepValue>> parse_values(std::string_view text) {
  if (text.starts_with('[')) {
    auto list = parse_list(std::string(text));
    if (!list) return failure(fmt::format("'{}' is not a TOML list", text));
    if (list->empty()) return failure("the list is empty");
    return std::move(*list);
  }
  // Quoted strings may contain commas.
  if (text.find_first_of("\"'") != std::string_view::npos) {
    auto list = parse_list(fmt::format("[{}]", text));
    if (list && !list->empty()) return std::move(*list);
  }
  std::vector<SweepValue> values;
  for (const std::string_view item : model::split_at(text, ',')) TRY(parse_item(trimmed(item), values));
  return values;
}

std::string_view leaf(std::string_view key) { return key.substr(key.rfind('.') + 1); }

}  // namespace

bool SweepAxis::numeric() const {
  return std::ranges::all_of(values, [](const SweepValue& value) { return value.number.has_value(); });
}

bool is_span(std::string_view text) {
  const std::size_t equals = text.find('=');
  return equals != std::string_view::npos && text.find("..") != std::string_view::npos &&
         text.find_first_of(",:[\"'", equals) == std::string_view::npos;
}

Result<SweepAxis> parse_ends(std::string_view text) {
  if (!is_span(text)) return parse_axis(text);
  const std::size_t equals = text.find('='), dots = text.find("..", equals);
  const auto end_at = [&](std::string_view end) -> Result<SweepValue> {
    const auto number = parse_decimal(trimmed(end));
    if (!number) return failure(fmt::format("'{}' is not a range: both ends must be numbers", text.substr(equals + 1)));
    return SweepValue{std::string(trimmed(end)), number->value()};
  };
  const auto first = end_at(text.substr(equals + 1, dots - equals - 1)), last = end_at(text.substr(dots + 2));
  for (const auto* end : {&first, &last})
    if (!*end) return tl::unexpected(end->error());
  if (!(*first->number < *last->number))
    return failure(fmt::format("'{}': the first end must be the smaller one", text.substr(equals + 1)), "");
  return SweepAxis{std::string(trimmed(text.substr(0, equals))), {*first, *last}};
}

Result<SweepAxis> parse_axis(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::string_view key = trimmed(text.substr(0, equals));
  if (equals == std::string_view::npos || key.empty())
    return failure(fmt::format("expected KEY=RANGE, found '{}'", text),
                   "for example --over overlap.communication_sms=0..64:4");
  auto values = parse_values(trimmed(text.substr(equals + 1)));
  const auto at_key = [&key](model::Error error) {
    error.key = std::string(key);
    return error;
  };
  if (!values) return tl::unexpected(at_key(values.error()));
  // A repeated value would make two equal rows.
  std::vector<std::string_view> seen;
  for (const SweepValue& value : *values) seen.push_back(value.text);
  std::ranges::sort(seen);
  if (const auto twice = std::ranges::adjacent_find(seen); twice != seen.end())
    return tl::unexpected(at_key(failure(fmt::format("'{}' is given twice", *twice), "").value()));
  return SweepAxis{std::string(key), std::move(*values)};
}

model::Result<SweepGrid> SweepGrid::make(std::vector<SweepAxis> axes) {
  const auto failure = [](std::string message, std::string key, std::string hint) {
    return model::wrong_input_at("--over", 0, std::move(key), std::move(message), std::move(hint));
  };
  std::size_t points = 1;
  for (auto axis = axes.begin(); axis != axes.end(); ++axis) {
    if (std::find_if(axes.begin(), axis, [&](const SweepAxis& other) { return other.key == axis->key; }) != axis)
      return failure("the key is swept twice", axis->key, "give all its values in one --over");
    points *= axis->values.size();
    if (points > most_points)
      return failure(fmt::format("the sweep has more than {} points", most_points), axis->key,
                     "take larger steps or sweep fewer keys at once");
  }
  return SweepGrid(std::move(axes));
}

std::size_t SweepGrid::size() const {
  std::size_t points = 1;
  for (const SweepAxis& axis : axes_) points *= axis.values.size();
  return points;
}

std::size_t SweepGrid::stride(std::size_t axis) const {
  std::size_t points = 1;
  for (std::size_t faster = axis + 1; faster < axes_.size(); ++faster) points *= axes_[faster].values.size();
  return points;
}

const SweepValue& SweepGrid::value(std::size_t point, std::size_t axis) const {
  return axes_[axis].values[point / stride(axis) % axes_[axis].values.size()];
}

std::vector<std::string> SweepGrid::changes(std::size_t point) const {
  std::vector<std::string> texts;
  for (std::size_t axis = 0; axis < axes_.size(); ++axis)
    texts.push_back(fmt::format("{}={}", axes_[axis].key, value(point, axis).text));
  return texts;
}

std::optional<std::size_t> SweepGrid::numeric_axis() const {
  for (std::size_t axis = axes_.size(); axis-- > 0;)
    if (axes_[axis].numeric() && axes_[axis].values.size() > 1) return axis;
  return std::nullopt;
}

std::vector<std::vector<std::size_t>> SweepGrid::lines() const {
  const auto axis = numeric_axis();
  std::vector<std::vector<std::size_t>> lines;
  const std::size_t step = axis ? stride(*axis) : 1;
  const std::size_t length = axis ? axes_[*axis].values.size() : size();
  for (std::size_t start = 0; start < size(); ++start) {
    if (start / step % length != 0) continue;  // not the first of its line
    std::vector<std::size_t>& line = lines.emplace_back();
    for (std::size_t i = 0; i < length; ++i) line.push_back(start + i * step);
    if (!axis) continue;
    std::ranges::stable_sort(line, {}, [&](std::size_t point) { return *value(point, *axis).number; });
  }
  return lines;
}

std::string SweepGrid::short_name(std::size_t axis) const {
  const std::string& key = axes_[axis].key;
  const auto same_end = [&key](const SweepAxis& other) { return leaf(other.key) == leaf(key); };
  return std::ranges::count_if(axes_, same_end) > 1 ? key : std::string(leaf(key));
}

std::string SweepGrid::line_name(std::size_t point) const {
  const auto numeric = numeric_axis();
  if (!numeric) return "";
  std::string name;
  for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
    if (axis == *numeric) continue;
    name += fmt::format("{}{} {}", name.empty() ? "" : ", ", short_name(axis), value(point, axis).text);
  }
  return name;
}

}  // namespace plumbline::sim
