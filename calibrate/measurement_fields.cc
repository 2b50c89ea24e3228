// The table of fields: each key once, with how it is read and written.
#include "calibrate/detail/measurement_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "model/version.h"

namespace plumbline::calibrate::detail {
namespace {

const std::vector<Kind> every = {Kind::measurement, Kind::failure, Kind::environment};
const std::vector<Kind> subject = {Kind::measurement, Kind::failure};
const std::vector<Kind> measured = {Kind::measurement};

constexpr std::array<std::pair<std::string_view, Kind>, 3> kind_words = {
    {{"measurement", Kind::measurement}, {"failure", Kind::failure}, {"environment", Kind::environment}}};

// `member` returns a reference into the record. An empty text is not written.
template <class Member>
Field text(std::string key, std::vector<Kind> kinds, Member member) {
  const auto set = [member](Record& r, const Value& v) {
    member(r) = v.text;
    return Problem();
  };
  const auto get = [member](const Record& r) {
    const std::string& value = member(r);
    return value.empty() ? std::nullopt : std::optional(Value{value, true});
  };
  return {std::move(key), std::move(kinds), set, get};
}

template <class Member>
Field json_text(std::string key, std::vector<Kind> kinds, Member member) {
  Field field = text(std::move(key), std::move(kinds), member);
  field.set = [member](Record& r, const Value& v) -> Problem {
    if (!nlohmann::json::parse(v.text, nullptr, false).is_object()) return "expected a JSON object";
    member(r) = v.text;
    return "";
  };
  field.get = [get = field.get](const Record& r) {
    std::optional<Value> value = get(r);
    if (value) value->quoted = false;
    return value;
  };
  return field;
}

template <class Member>
Field integer(std::string key, std::vector<Kind> kinds, Member member, std::int64_t least) {
  const auto set = [member, least](Record& r, const Value& v) {
    std::int64_t number = 0;
    if (Problem problem = to_integer(v, number); !problem.empty()) return problem;
    if (number < least) return fmt::format("{} is below {}", number, least);
    member(r) = number;
    return Problem();
  };
  const auto get = [member](const Record& r) -> std::optional<Value> {
    const std::optional<std::int64_t>& value = member(r);
    return value ? std::optional(Value{fmt::format("{}", *value)}) : std::nullopt;
  };
  return {std::move(key), std::move(kinds), set, get};
}

// Greater than 0, in the file `unit` times smaller than in the record.
template <class Member>
Field positive(std::string key, Member member, double unit = 1) {
  const auto set = [member, unit](Record& r, const Value& v) {
    double number = 0;
    if (Problem problem = to_number(v, number); !problem.empty()) return problem;
    if (number <= 0) return fmt::format("{} is not above 0; what does not apply is left out", v.text);
    member(r) = number * unit;
    return Problem();
  };
  const auto get = [member, unit](const Record& r) -> std::optional<Value> {
    const std::optional<double> value = member(r);
    if (!value) return std::nullopt;
    return Value{unit == 1 ? shortest(*value) : fmt::format("{:.15g}", *value / unit)};
  };
  return {std::move(key), measured, set, get};
}

// A rate is written as it follows from work and time; what was read is kept to be compared.
template <class Stated, class Rate>
Field derived(std::string key, Stated stated, Rate rate, double unit) {
  Field field = positive(std::move(key), stated, unit);
  field.get = [rate, unit](const Record& r) -> std::optional<Value> {
    const std::optional<double> value = (r.measurement.*rate)();
    return value ? std::optional(Value{fmt::format("{:.6g}", *value / unit)}) : std::nullopt;
  };
  return field;
}

Check& check_of(Record& r) {
  if (!r.measurement.check) r.measurement.check.emplace();
  return *r.measurement.check;
}

std::vector<Field> check_fields() {
  const auto number = [](std::string key, double Check::*member) {
    const auto set = [member](Record& r, const Value& v) {
      double value = 0;
      if (Problem problem = to_number(v, value); !problem.empty()) return problem;
      if (value < 0) return fmt::format("{} is negative", v.text);
      check_of(r).*member = value;
      return Problem();
    };
    const auto get = [member](const Record& r) -> std::optional<Value> {
      const std::optional<Check>& check = r.measurement.check;
      return check ? std::optional(Value{shortest((*check).*member)}) : std::nullopt;
    };
    return Field{std::move(key), measured, set, get};
  };
  const auto set_ok = [](Record& r, const Value& v) -> Problem {
    if (v.quoted || (v.text != "true" && v.text != "false")) return fmt::format("'{}' is not true or false", v.text);
    check_of(r).ok = v.text == "true";
    return "";
  };
  const auto get_ok = [](const Record& r) -> std::optional<Value> {
    const std::optional<Check>& check = r.measurement.check;
    return check ? std::optional(Value{check->ok ? "true" : "false"}) : std::nullopt;
  };
  const auto set_note = [](Record& r, const Value& v) {
    check_of(r).note = v.text;
    return Problem();
  };
  const auto get_note = [](const Record& r) -> std::optional<Value> {
    const std::optional<Check>& check = r.measurement.check;
    return check && !check->note.empty() ? std::optional(Value{check->note, true}) : std::nullopt;
  };
  return {number("check.relative_error", &Check::relative_error),
          number("check.tolerance", &Check::tolerance),
          {"check.ok", measured, set_ok, get_ok},
          {"check.note", measured, set_note, get_note}};
}

std::vector<Field> head_fields() {
  const auto set_schema = [](Record&, const Value& v) -> Problem {
    return v.text == fmt::format("{}", model::schema) ? "" : fmt::format("schema {} is not known", v.text);
  };
  const auto get_schema = [](const Record&) { return std::optional(Value{fmt::format("{}", model::schema)}); };
  const auto set_kind = [](Record& r, const Value& v) -> Problem {
    for (const auto& [word, kind] : kind_words) {
      if (v.text == word) r.kind = kind;
      if (v.text == word) return "";
    }
    return fmt::format("'{}' is no kind of record", v.text);
  };
  const auto get_kind = [](const Record& r) {
    const auto found = std::ranges::find(kind_words, r.kind, &std::pair<std::string_view, Kind>::second);
    return std::optional(Value{std::string(found->first), true});
  };
  const auto set_evidence = [](Record& r, const Value& v) -> Problem {
    const auto evidence = model::parse_evidence(v.text);
    if (!evidence) return evidence.error().message;
    r.measurement.evidence = *evidence;
    return "";
  };
  const auto get_evidence = [](const Record& r) -> std::optional<Value> {
    if (r.measurement.evidence == model::Evidence::measured) return std::nullopt;
    return Value{std::string(model::to_string(r.measurement.evidence)), true};
  };
  return {{"schema", every, set_schema, get_schema},
          {"kind", every, set_kind, get_kind},
          text(
              "source", every, [](Record & r) -> auto& { return r.measurement.source; }),
          {"evidence", subject, set_evidence, get_evidence},
          text(
              "device", every, [](Record & r) -> auto& { return r.measurement.device; }),
          text(
              "date", every, [](Record & r) -> auto& { return r.measurement.date; }),
          text(
              "op", subject, [](Record & r) -> auto& { return r.measurement.op; }),
          text(
              "name", subject, [](Record & r) -> auto& { return r.measurement.name; }),
          text(
              "phase", subject, [](Record & r) -> auto& { return r.measurement.phase; }),
          text(
              "format", subject, [](Record & r) -> auto& { return r.measurement.format; }),
          text(
              "case", subject, [](Record & r) -> auto& { return r.measurement.case_line; })};
}

std::vector<Field> value_fields() {
  constexpr double micro = 1e-6, giga = 1e9, tera = 1e12;
  const std::vector<Kind> with_device = {Kind::measurement, Kind::environment};
  Field p50 = positive(
      "time_us.p50", [](Record & r) -> auto& { return r.measurement.time.p50; }, micro);
  p50.get = [get = p50.get](const Record& r) { return r.measurement.time.p50 > 0 ? get(r) : std::nullopt; };
  return {
      integer(
          "sms", with_device, [](Record & r) -> auto& { return r.measurement.sms; }, 1),
      integer(
          "communication_ctas", measured, [](Record & r) -> auto& { return r.measurement.communication_ctas; }, 0),
      integer(
          "target_sms", measured, [](Record & r) -> auto& { return r.measurement.target_sms; }, 0),
      text(
          "copy_to", measured, [](Record & r) -> auto& { return r.measurement.copy_to; }),
      positive(
          "copy_gbps", [](Record & r) -> auto& { return r.measurement.copy_rate; }, giga),
      text(
          "cache", measured, [](Record & r) -> auto& { return r.measurement.cache; }),
      text(
          "variant", measured, [](Record & r) -> auto& { return r.measurement.variant; }),
      integer(
          "samples", measured, [](Record & r) -> auto& { return r.measurement.samples; }, 1),
      positive(
          "time_us.p10", [](Record & r) -> auto& { return r.measurement.time.p10; }, micro),
      p50,
      positive(
          "time_us.p90", [](Record & r) -> auto& { return r.measurement.time.p90; }, micro),
      positive(
          "time_us.min", [](Record & r) -> auto& { return r.measurement.time.min; }, micro),
      positive(
          "flops", [](Record & r) -> auto& { return r.measurement.flops; }),
      positive(
          "bytes", [](Record & r) -> auto& { return r.measurement.bytes; }),
      derived(
          "tflops", [](Record & r) -> auto& { return r.stated_flop_rate; }, &Measurement::flop_rate, tera),
      derived(
          "gbps", [](Record & r) -> auto& { return r.stated_byte_rate; }, &Measurement::byte_rate, giga),
  };
}

std::vector<Field> tail_fields() {
  return {
      positive(
          "clock.sm_mhz", [](Record & r) -> auto& { return r.measurement.clock.sm_mhz; }),
      positive(
          "clock.memory_mhz", [](Record & r) -> auto& { return r.measurement.clock.memory_mhz; }),
      positive(
          "clock.power_w", [](Record & r) -> auto& { return r.measurement.clock.power_w; }),
      positive(
          "clock.temperature_c", [](Record & r) -> auto& { return r.measurement.clock.temperature_c; }),
      text(
          "clock.throttle", measured, [](Record & r) -> auto& { return r.measurement.clock.throttle; }),
      json_text(
          "algorithm", measured, [](Record & r) -> auto& { return r.measurement.algorithm; }),
      text(
          "note", measured, [](Record & r) -> auto& { return r.measurement.note; }),
      text(
          "reason", {Kind::failure}, [](Record & r) -> auto& { return r.reason; }),
      json_text(
          "environment", {Kind::environment}, [](Record & r) -> auto& { return r.environment; }),
  };
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

bool is_json_text(std::string_view key) { return key == "algorithm" || key == "environment"; }

}  // namespace plumbline::calibrate::detail
