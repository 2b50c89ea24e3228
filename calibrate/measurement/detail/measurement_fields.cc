// The table of fields: each key once, with its reader and writer.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "calibrate/measurement/detail/field_makers.h"
#include "calibrate/measurement/detail/measurement_record.h"
#include "model/base/version.h"

namespace plumbline::calibrate::detail {
namespace {

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
