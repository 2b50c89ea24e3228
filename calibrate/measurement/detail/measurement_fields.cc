// The table of fields: each key once, with its reader and writer.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/measurement/detail/measurement_record.h"
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

// Makes a text field; an empty text is not written.
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
    if (!is_json_object(v.text)) return "expected a JSON object";
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

template <class Member>
Field number_field(std::string key, Member member, double unit, bool zero) {
  const auto set = [member, unit, zero](Record& r, const Value& v) -> Problem {
    double number = 0;
    if (Problem problem = to_number(v, number); !problem.empty()) return problem;
    if (zero ? number < 0 : number <= 0)
      return fmt::format("{} is {}; what does not apply is left out", v.text, zero ? "negative" : "not above 0");
    const double value = number * unit;
    if (number != 0 && !std::isnormal(value)) return fmt::format("{} is beyond what a number can hold", v.text);
    member(r) = value;
    return Problem();
  };
  const auto get = [member, unit](const Record& r) -> std::optional<Value> {
    const std::optional<double> value = member(r);
    if (!value) return std::nullopt;
    return Value{unit == 1 ? shortest(*value) : fmt::format("{:.15g}", *value / unit)};
  };
  return {std::move(key), measured, set, get};
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
  const auto set = [member](Record& r, const Value& v) -> Problem {
    std::vector<double> numbers;
    for (const std::string_view part : model::split_at(v.text, ';')) {
      double number = 0;
      if (Problem problem = to_number({std::string(part)}, number); !problem.empty()) return problem;
      if (number <= 0) return fmt::format("{} is not above 0", part);
      numbers.push_back(number);
    }
    member(r) = std::move(numbers);
    return "";
  };
  const auto get = [member](const Record& r) -> std::optional<Value> {
    std::string text;
    for (const double number : member(r)) text += (text.empty() ? "" : ";") + shortest(number);
    return text.empty() ? std::nullopt : std::optional(Value{text});
  };
  return {std::move(key), measured, set, get};
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
  return {{"schema", every, set_schema, get_schema},         {"kind", every, set_kind, get_kind},
          text("source", every, of(&Measurement::source)),   {"evidence", subject, set_evidence, get_evidence},
          text("device", every, of(&Measurement::device)),   text("date", every, of(&Measurement::date)),
          text("op", subject, of(&Measurement::op)),         text("name", subject, of(&Measurement::name)),
          text("phase", subject, of(&Measurement::phase)),   text("format", subject, of(&Measurement::format)),
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
      json_text("algorithm", measured, of(&Measurement::algorithm)),
      text("note", measured, of(&Measurement::note)),
      text("reason", {Kind::failure}, at(&Record::reason)),
      json_text("environment", {Kind::environment}, at(&Record::environment)),
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

bool is_list(std::string_view key) { return key == "samples_s"; }

bool is_json_text(std::string_view key) { return key == "algorithm" || key == "environment"; }

}  // namespace plumbline::calibrate::detail
