// The table of fields: each key once, with its reader and writer.
#include "calibrate/measurement/detail/measurement_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/base/text.h"
#include "model/base/version.h"

namespace plumbline::calibrate::detail {
namespace {

const std::vector<Kind> measured = {Kind::measurement};

// Returns an accessor of a member of a record, or of a member of its members.
template <class... Members>
auto at(Members... members) {
  return [members...](auto& record) -> auto& { return (record.*....*members); };
}

// Makes a field: parse(value, to) sets the member and returns what is wrong, show(member) is what is written.
template <class Member, class Parse, class Show>
Field field_of(std::string key, std::vector<Kind> kinds, Member member, Parse parse, Show show) {
  const auto set = [=](Record& r, const Value& v) -> Problem { return parse(v, member(r)); };
  const auto get = [=](const Record& r) -> std::optional<Value> { return show(member(r)); };
  return {std::move(key), std::move(kinds), set, get};
}

// Makes a text field; an empty text is not written. `json`: it is a JSON object.
template <class Member>
Field text(std::string key, std::vector<Kind> kinds, Member member, bool json = false) {
  const auto parse = [json](const Value& v, std::string& to) -> Problem {
    if (json && !is_json_object(v.text)) return "expected a JSON object";
    to = v.text;
    return "";
  };
  const auto show = [json](const std::optional<std::string>& value) {
    return value && !value->empty() ? std::optional(Value{*value, !json}) : std::nullopt;
  };
  return field_of(std::move(key), std::move(kinds), member, parse, show);
}

template <class Member>
Field integer(std::string key, std::vector<Kind> kinds, Member member, std::int64_t least) {
  const auto parse = [least](const Value& v, std::optional<std::int64_t>& to) {
    std::int64_t number = 0;
    if (Problem problem = to_integer(v, number); !problem.empty()) return problem;
    if (number < least) return fmt::format("{} is below {}", number, least);
    to = number;
    return Problem();
  };
  const auto show = [](const std::optional<std::int64_t>& value) {
    return value ? std::optional(Value{fmt::format("{}", *value)}) : std::nullopt;
  };
  return field_of(std::move(key), std::move(kinds), member, parse, show);
}

template <class Member>
Field number_field(std::string key, Member member, double unit, bool zero) {
  const auto parse = [unit, zero](const Value& v, auto& to) -> Problem {
    double number = 0;
    if (Problem problem = to_number(v, number); !problem.empty()) return problem;
    if (zero ? number < 0 : number <= 0)
      return fmt::format("{} is {}; what does not apply is left out", v.text, zero ? "negative" : "not above 0");
    const double value = number * unit;
    if (number != 0 && !std::isnormal(value)) return fmt::format("{} is beyond what a number can hold", v.text);
    to = value;
    return "";
  };
  const auto show = [unit](const std::optional<double>& value) {
    return value ? std::optional(Value{unit == 1 ? shortest(*value) : fmt::format("{:.15g}", *value / unit)})
                 : std::nullopt;
  };
  return field_of(std::move(key), measured, member, parse, show);
}

// Makes a field of a number above 0. The file's value times `unit` is the record's.
template <class Member>
Field positive(std::string key, Member member, double unit = 1) {
  return number_field(std::move(key), member, unit, false);
}

template <class Member>
Field not_negative(std::string key, Member member, double unit = 1) {
  return number_field(std::move(key), member, unit, true);
}

// Makes a field of a list of numbers above 0; an empty one is not written.
template <class Member>
Field positives(std::string key, Member member) {
  const auto parse = [](const Value& v, std::vector<double>& to) -> Problem {
    std::vector<double> numbers;
    for (const std::string_view part : model::split_at(v.text, ';')) {
      double number = 0;
      if (Problem problem = to_number({std::string(part)}, number); !problem.empty()) return problem;
      if (number <= 0) return fmt::format("{} is not above 0", part);
      numbers.push_back(number);
    }
    to = std::move(numbers);
    return "";
  };
  const auto show = [](const std::vector<double>& numbers) {
    std::string text;
    for (const double number : numbers) text += (text.empty() ? "" : ";") + shortest(number);
    return text.empty() ? std::nullopt : std::optional(Value{text});
  };
  return field_of(std::move(key), measured, member, parse, show);
}

// Makes a field of a rate: it is written from work and time, and the value read is kept for comparison.
template <class Stated, class Rate>
Field derived(std::string key, Stated stated, Rate rate, double unit) {
  Field field = positive(std::move(key), stated, unit);
  field.get = [rate, unit](const Record& r) -> std::optional<Value> {
    const std::optional<double> value = (r.measurement.*rate)();
    return value ? std::optional(Value{fmt::format("{:.6g}", *value / unit)}) : std::nullopt;
  };
  return field;
}

const std::vector<Kind> every = {Kind::measurement, Kind::failure, Kind::environment};
const std::vector<Kind> subject = {Kind::measurement, Kind::failure};

constexpr std::array<std::pair<std::string_view, Kind>, 3> kind_words = {
    {{"measurement", Kind::measurement}, {"failure", Kind::failure}, {"environment", Kind::environment}}};

// Returns an accessor of a member of the measurement.
template <class... Members>
auto of(Members... members) {
  return at(&Record::measurement, members...);
}

// An accessor of a member of the check, which setting it makes.
template <class Value>
struct CheckMember {
  Value Check::*member;

  Value& operator()(Record& r) const {
    if (!r.measurement.check) r.measurement.check.emplace();
    return (*r.measurement.check).*member;
  }
  std::optional<Value> operator()(const Record& r) const {
    const std::optional<Check>& check = r.measurement.check;
    return check ? std::optional((*check).*member) : std::nullopt;
  }
};

std::vector<Field> check_fields() {
  const auto parse_flag = [](const Value& v, bool& to) -> Problem {
    if (v.quoted || (v.text != "true" && v.text != "false")) return fmt::format("'{}' is not true or false", v.text);
    to = v.text == "true";
    return "";
  };
  const auto show_flag = [](std::optional<bool> flag) {
    return flag ? std::optional(Value{*flag ? "true" : "false"}) : std::nullopt;
  };
  return {not_negative("check.relative_error", CheckMember<double>{&Check::relative_error}),
          not_negative("check.tolerance", CheckMember<double>{&Check::tolerance}),
          field_of("check.ok", measured, CheckMember<bool>{&Check::ok}, parse_flag, show_flag),
          text("check.note", measured, CheckMember<std::string>{&Check::note})};
}

std::vector<Field> head_fields() {
  const auto set_schema = [](Record&, const Value& v) -> Problem {
    return v.text == fmt::format("{}", model::schema) ? "" : fmt::format("schema {} is not known", v.text);
  };
  const auto get_schema = [](const Record&) { return std::optional(Value{fmt::format("{}", model::schema)}); };
  const auto parse_kind = [](const Value& v, Kind& to) -> Problem {
    const auto found = std::ranges::find(kind_words, v.text, &std::pair<std::string_view, Kind>::first);
    if (found == kind_words.end()) return fmt::format("'{}' is no kind of record", v.text);
    to = found->second;
    return "";
  };
  const auto show_kind = [](Kind kind) {
    const auto found = std::ranges::find(kind_words, kind, &std::pair<std::string_view, Kind>::second);
    return std::optional(Value{std::string(found->first), true});
  };
  const auto parse_evidence = [](const Value& v, model::Evidence& to) -> Problem {
    const auto evidence = model::parse_evidence(v.text);
    if (evidence) to = *evidence;
    return evidence ? "" : evidence.error().message;
  };
  const auto show_evidence = [](model::Evidence evidence) {
    return evidence == model::Evidence::measured ? std::nullopt
                                                 : std::optional(Value{std::string(model::to_string(evidence)), true});
  };
  return {{"schema", every, set_schema, get_schema},
          field_of("kind", every, at(&Record::kind), parse_kind, show_kind),
          text("source", every, of(&Measurement::source)),
          field_of("evidence", subject, of(&Measurement::evidence), parse_evidence, show_evidence),
          text("device", every, of(&Measurement::device)),
          text("date", every, of(&Measurement::date)),
          text("op", subject, of(&Measurement::op)),
          text("name", subject, of(&Measurement::name)),
          text("phase", subject, of(&Measurement::phase)),
          text("format", subject, of(&Measurement::format)),
          text("case", subject, of(&Measurement::case_line))};
}

std::vector<Field> value_fields() {
  constexpr double micro = 1e-6, giga = 1e9, tera = 1e12;
  const std::vector<Kind> with_device = {Kind::measurement, Kind::environment};
  Field p50 = positive("time_us.p50", of(&Measurement::time, &Times::p50), micro);
  p50.get = [get = p50.get](const Record& r) { return r.measurement.time.p50 > 0 ? get(r) : std::nullopt; };
  return {
      integer("sms", with_device, of(&Measurement::sms), 1),
      integer("communication_ctas", measured, of(&Measurement::communication_sms), 0),
      integer("target_sms", measured, of(&Measurement::target_sms), 0),
      text("copy_to", measured, of(&Measurement::copy_to)),
      positive("copy_gbps", of(&Measurement::copy_rate), giga),
      text("cache", measured, of(&Measurement::cache)),
      text("variant", measured, of(&Measurement::variant)),
      integer("samples", measured, of(&Measurement::samples), 1),
      positive("time_us.p10", of(&Measurement::time, &Times::p10), micro),
      p50,
      positive("time_us.p90", of(&Measurement::time, &Times::p90), micro),
      positive("time_us.min", of(&Measurement::time, &Times::min), micro),
      not_negative("time_us.mad", of(&Measurement::time, &Times::mad), micro),
      positives("samples_s", of(&Measurement::time, &Times::samples)),
      positive("flops", of(&Measurement::flops)),
      positive("bytes", of(&Measurement::bytes)),
      derived("tflops", at(&Record::stated_flop_rate), &Measurement::flop_rate, tera),
      derived("gbps", at(&Record::stated_byte_rate), &Measurement::byte_rate, giga),
  };
}

std::vector<Field> tail_fields() {
  return {
      positive("clock.sm_mhz", of(&Measurement::clock, &Clock::sm_mhz)),
      positive("clock.memory_mhz", of(&Measurement::clock, &Clock::memory_mhz)),
      positive("clock.power_w", of(&Measurement::clock, &Clock::power_w)),
      positive("clock.temperature_c", of(&Measurement::clock, &Clock::temperature_c)),
      text("clock.throttle", measured, of(&Measurement::clock, &Clock::throttle)),
      text("algorithm", measured, of(&Measurement::algorithm), true),
      text("note", measured, of(&Measurement::note)),
      text("reason", {Kind::failure}, at(&Record::reason)),
      text("environment", {Kind::environment}, at(&Record::environment), true),
  };
}

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

FieldTable::FieldTable() : head(head_fields()) {
  for (auto part : {value_fields(), check_fields(), tail_fields()}) std::ranges::move(part, std::back_inserter(values));
}

const Field* FieldTable::find(std::string_view key) const {
  for (const std::vector<Field>* fields : {&head, &values}) {
    const auto found = std::ranges::find(*fields, key, &Field::key);
    if (found != fields->end()) return &*found;
  }
  return nullptr;
}

bool is_list(std::string_view key) { return key == "samples_s"; }

bool is_json_text(std::string_view key) { return key == "algorithm" || key == "environment"; }

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
