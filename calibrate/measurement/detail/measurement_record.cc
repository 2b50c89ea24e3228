#include "calibrate/measurement/detail/measurement_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "model/base/text.h"
namespace plumbline::calibrate::detail {
namespace {

constexpr std::string_view shape_prefix = "shape.";

const FieldTable& table() {
  static const FieldTable fields;
  return fields;
}

// Times may be in any unit that the key names: "time_ms.p50" becomes "time_us.p50".
model::Result<void> normalize_time(const std::string& key, std::string& normal, double& factor) {
  normal = key;
  factor = 1;
  if (!key.starts_with("time")) return {};
  const std::size_t dot = std::min(key.find('.'), key.size());
  const std::string unit = key.substr(0, dot) == "time" ? "" : key.substr(5, dot - 5);
  if (unit.empty()) return model::wrong_input(key, "a time without a unit", "write time_us");
  constexpr std::array<std::pair<std::string_view, double>, 4> units = {
      {{"us", 1}, {"ns", 1e-3}, {"ms", 1e3}, {"s", 1e6}}};
  const auto found = std::ranges::find(units, unit, &std::pair<std::string_view, double>::first);
  if (found == units.end())
    return model::wrong_input(key, fmt::format("unknown unit '{}'", unit), "times are in ns, us, ms or s");
  normal = "time_us" + key.substr(dot);
  factor = found->second;
  return {};
}

tl::unexpected<model::Error> unknown_key(const std::string& key) {
  std::vector<std::string> names;
  for (const std::vector<Field>* fields : {&table().head, &table().values})
    for (const Field& field : *fields) names.push_back(field.key);
  constexpr std::array<std::string_view, 16> extents = {"m",        "n",        "k",     "groups",   "length", "heads",
                                                        "kv_heads", "qk_dim",   "v_dim", "top_k",    "bytes",  "ranks",
                                                        "columns",  "elements", "rows",  "sequences"};
  const bool extent = std::ranges::find(extents, key) != extents.end();
  return model::wrong_input(
      key, "unknown key",
      extent ? fmt::format("did you mean '{}{}'?", shape_prefix, key) : model::did_you_mean(key, names));
}

model::Result<void> set_shape(Record& record, const std::string& key, const Value& value) {
  std::int64_t extent = 0;
  if (Problem problem = to_integer(value, extent); !problem.empty()) return model::wrong_input(key, problem);
  if (extent <= 0) return model::wrong_input(key, fmt::format("{} is not above 0", extent));
  record.measurement.shape.emplace_back(key.substr(shape_prefix.size()), extent);
  return {};
}

model::Result<void> set_field(Record& record, const std::string& key, Value value, double factor) {
  if (key.starts_with(shape_prefix) && key.size() > shape_prefix.size() && record.kind != Kind::environment)
    return set_shape(record, key, value);
  const Field* field = table().find(key);
  if (field == nullptr) return unknown_key(key);
  if (std::ranges::find(field->kinds, record.kind) == field->kinds.end())
    return model::wrong_input(key, "this kind of record has no such key");
  double number = 0;
  if (factor != 1 && to_number(value, number).empty()) value.text = shortest(number * factor);
  if (Problem problem = field->set(record, value); !problem.empty()) return model::wrong_input(key, problem);
  return {};
}

// Checks that the keys of the record's kind are present; times in `given` are in microseconds.
model::Result<void> require(const Record& record, const std::vector<std::string>& given) {
  std::vector<std::string> required = {"source", "device"};
  if (record.kind != Kind::environment) required.emplace_back("op");
  if (record.kind == Kind::measurement) required.emplace_back("time_us.p50");
  if (record.kind == Kind::failure) required.emplace_back("reason");
  if (record.measurement.check)
    for (const char* key : {"check.relative_error", "check.tolerance", "check.ok"}) required.emplace_back(key);
  for (const std::string& key : required)
    if (std::ranges::find(given, key) == given.end()) return model::wrong_input(key, "required key is missing");
  return {};
}

}  // namespace

Problem to_number(const Value& value, double& number) {
  const auto parsed = value.quoted ? std::nullopt : model::parse_number<double>(value.text);
  if (!parsed) return fmt::format("'{}' is not a number", value.text);
  if (!std::isfinite(*parsed)) return fmt::format("'{}' is not a finite number", value.text);
  number = *parsed;
  return "";
}

Problem to_integer(const Value& value, std::int64_t& number) {
  const auto parsed = value.quoted ? std::nullopt : model::parse_number<std::int64_t>(value.text);
  if (!parsed) return fmt::format("'{}' is not a whole number", value.text);
  number = *parsed;
  return "";
}

std::string shortest(double number) {
  std::array<char, 32> text{};
  const auto [end, code] = std::to_chars(text.data(), text.data() + text.size(), number);
  return {text.data(), end};
}

model::Result<Record> to_record(const Fields& fields) {
  Record record;
  const auto kind = std::ranges::find(fields, "kind", &Fields::value_type::first);
  if (kind != fields.end()) TRY(set_field(record, kind->first, kind->second, 1));
  std::vector<std::string> seen;
  for (const auto& [key, value] : fields) {
    std::string normal;
    double factor = 1;
    TRY(normalize_time(key, normal, factor));
    if (std::ranges::find(seen, normal) != seen.end()) return model::wrong_input(key, "given twice");
    seen.push_back(normal);
    if (auto set = set_field(record, normal, value, factor); !set) {
      model::Error error = set.error();
      error.key = key;
      return tl::unexpected(error);
    }
  }
  TRY(require(record, seen));
  return record;
}

std::size_t place_of(std::string_view key) {
  const auto in_head = std::ranges::find(table().head, key, &Field::key);
  if (in_head != table().head.end()) return static_cast<std::size_t>(in_head - table().head.begin());
  const std::size_t shape = table().head.size();
  if (key.starts_with(shape_prefix)) return shape;
  return shape + 1 +
         static_cast<std::size_t>(std::ranges::find(table().values, key, &Field::key) - table().values.begin());
}

Fields to_fields(const Record& record) {
  Fields fields;
  const auto add = [&](const std::vector<Field>& list) {
    for (const Field& field : list) {
      if (std::ranges::find(field.kinds, record.kind) == field.kinds.end()) continue;
      if (auto value = field.get(record)) fields.emplace_back(field.key, std::move(*value));
    }
  };
  add(table().head);
  for (const auto& [name, extent] : record.measurement.shape)
    fields.emplace_back(std::string(shape_prefix) + name, Value{fmt::format("{}", extent)});
  add(table().values);
  return fields;
}

}  // namespace plumbline::calibrate::detail
