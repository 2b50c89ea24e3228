#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "calibrate/measurement/csv_table.h"
#include "calibrate/measurement/detail/measurement_record.h"
#include "calibrate/measurement/measurement.h"
#include "model/base/distinct.h"
#include "model/base/text.h"
#include "model/base/text_file.h"
#include "topologies/topology.h"

namespace plumbline::calibrate {
namespace {

using detail::Kind;
using detail::Record;
using model::ErrorKind;

tl::unexpected<model::Error> at(model::Error error, const std::string& path, int line) {
  error.file = path;
  error.line = line;
  return tl::unexpected(std::move(error));
}

// Returns the identity of a record: everything that was chosen, nothing that was observed.
std::string identity(const Measurement& m) {
  std::string shape;
  for (const auto& [name, extent] : m.shape) shape += fmt::format("{}={} ", name, extent);
  const auto count = [](const std::optional<std::int64_t>& value) { return value ? fmt::format("{}", *value) : ""; };
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", m.source, m.device, m.op, m.name,
                     m.phase, m.format, m.case_line, shape, count(m.sms), count(m.communication_sms),
                     count(m.target_sms), m.copy_to, m.cache, m.variant);
}

// Completes missing work from the shape of a GEMM, or from a stated rate: publications often print only the rate.
void complete(Record& record) {
  Measurement& m = record.measurement;
  if (!m.flops) m.flops = detail::gemm_flops(m);
  if (!m.flops && record.stated_flop_rate) m.flops = *record.stated_flop_rate * m.time.p50;
  if (!m.bytes && record.stated_byte_rate) m.bytes = *record.stated_byte_rate * m.time.p50;
}

// Returns the runs of letters and digits of a text, in lower case.
std::set<std::string> name_words(std::string_view text) {
  std::set<std::string> words;
  std::string word;
  for (const char c : std::string(text) + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!word.empty()) {
      words.insert(std::exchange(word, ""));
    }
  }
  return words;
}

// Returns the word that names a model of GPU in names of files: "h100" of "h100-sxm".
std::string model_word(const std::string& name) { return name.substr(0, name.find('-')); }

struct KeyPlace {
  const Measurements* file;
  const Measurement* record;
  std::string text() const { return record->line > 0 ? fmt::format("{}:{}", file->path, record->line) : file->path; }
};

// The time of a kernel that is overlapped depends on the other one, that of an operator of a step on the plan.
bool comparable(const Measurement& m) {
  return m.communication_sms.value_or(0) == 0 && !m.variant.starts_with("in_step");
}

model::Result<void> check_pair(const KeyPlace& first, const KeyPlace& second) {
  constexpr double most = 2;
  const double one = first.record->time.p50, other = second.record->time.p50;
  model::Error error{ErrorKind::input, "", second.file->path, second.record->line, "", ""};
  if (one == other && first.record->date == second.record->date) {
    error.message = fmt::format("the same record as {}", first.text());
    error.hint = "give each file once";
    return tl::unexpected(std::move(error));
  }
  if (!comparable(*first.record) || std::max(one, other) <= most * std::min(one, other)) return {};
  constexpr double per_second = 1e6;
  error.key = "time_us.p50";
  error.message = fmt::format("{:.6g} us, but {} has {:.6g} us for the same case", other * per_second, first.text(),
                              one * per_second);
  error.hint = "leave out the run that is wrong";
  return tl::unexpected(std::move(error));
}

class Reader {
 public:
  Reader(const std::string& path, const std::vector<topologies::KnownDevice>& devices) : devices_(devices) {
    result_.path = path;
  }

  model::Result<void> add(const detail::Line& line) {
    auto record = detail::to_record(line.fields);
    if (!record) return at(record.error(), result_.path, line.number);
    Measurement& m = record->measurement;
    switch (record->kind) {
      case Kind::environment:
        result_.environments.push_back({m.source, m.device, m.date, m.sms, record->environment});
        return {};
      case Kind::failure:
        result_.failures.push_back({static_cast<const Subject&>(m), record->reason});
        return {};
      case Kind::measurement:
        break;
    }
    complete(*record);
    m.line = line.number;
    if (auto valid = check(*record, line.number); !valid) return at(valid.error(), result_.path, line.number);
    result_.values.push_back(std::move(m));
    return {};
  }

  Measurements finish(std::vector<std::string> notes) {
    for (const std::string& name : unknown_)
      notes.push_back(fmt::format("no datasheet of '{}' is known: its rates are not checked", name));
    result_.notes = std::move(notes);
    return std::move(result_);
  }

 private:
  model::Result<void> check(const Record& record, int line) {
    TRY(detail::check_values(record));
    const Measurement& m = record.measurement;
    const auto [first, fresh] = first_line_.try_emplace(identity(m), line);
    if (!fresh)
      return model::wrong_input("", fmt::format("the same case as on line {}", first->second),
                                "a case is measured once per device, shape, format, SM counts and cache state");
    const model::Device* device = topologies::find_device(devices_, m.device);
    if (device == nullptr) {
      unknown_.insert(m.device);
      return {};
    }
    TRY(check_name(result_.path, m.device, devices_));
    return detail::check_peaks(m, *device);
  }

  const std::vector<topologies::KnownDevice>& devices_;
  Measurements result_;
  std::map<std::string, int> first_line_;
  std::set<std::string> unknown_;
};

using detail::Fields;
using detail::Line;

std::string cell(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  if (text.find_first_of(",\"#") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

// Returns the keys of all records in the order of JSON Lines; extents of shapes in order of appearance.
std::vector<std::string> columns_of(const std::vector<Fields>& records) {
  std::vector<std::string> columns;
  for (const Fields& fields : records)
    for (const auto& field : fields) model::add_distinct(columns, field.first);
  std::ranges::stable_sort(columns, {}, [](const std::string& key) { return detail::place_of(key); });
  return columns;
}

using detail::Value;
using Json = nlohmann::ordered_json;

// Empty texts and nulls count as left out.
void add(Fields& fields, const std::string& key, const Json& value) {
  if (value.is_null() || (value.is_string() && value.get_ref<const std::string&>().empty())) return;
  fields.emplace_back(key, value.is_string() ? Value{value.get<std::string>(), true} : Value{value.dump(), false});
}

// Returns [0.1, 0.2] as "0.1;0.2"; nullopt when it is no list of numbers.
std::optional<std::string> joined_numbers(const Json& list) {
  std::string text;
  for (const Json& number : list) {
    if (!number.is_number()) return std::nullopt;
    text += (text.empty() ? "" : ";") + number.dump();
  }
  return list.is_array() ? std::optional(text) : std::nullopt;
}

model::Result<Fields> flatten(const Json& object, const std::string& path, int line) {
  Fields fields;
  for (const auto& [key, value] : object.items()) {
    if (detail::is_list(key)) {
      const auto numbers = joined_numbers(value);
      if (!numbers) return model::wrong_input_at(path, line, key, "an array of numbers is expected here");
      if (!numbers->empty()) fields.emplace_back(key, Value{*numbers, false});
      continue;
    }
    if (!value.is_object() || detail::is_json_text(key)) {
      if (value.is_array()) return model::wrong_input_at(path, line, key, "an array is not expected here");
      add(fields, key, value);
      continue;
    }
    for (const auto& [inner, leaf] : value.items()) {
      const std::string name = fmt::format("{}.{}", key, inner);
      if (leaf.is_structured()) return model::wrong_input_at(path, line, name, "a single value is expected here");
      add(fields, name, leaf);
    }
  }
  return fields;
}

std::string array(std::string numbers) {
  std::ranges::replace(numbers, ';', ',');
  return '[' + numbers + ']';
}

Json nested(const Fields& fields) {
  Json object;
  for (const auto& [key, value] : fields) {
    Json leaf = value.quoted ? Json(value.text) : Json::parse(detail::is_list(key) ? array(value.text) : value.text);
    const std::size_t dot = key.find('.');
    if (dot == std::string::npos)
      object[key] = std::move(leaf);
    else
      object[key.substr(0, dot)][key.substr(dot + 1)] = std::move(leaf);
  }
  return object;
}

std::string hint_for(std::string_view text) {
  for (const std::string_view word : {"NaN", "nan", "Infinity", "inf"})
    if (text.find(word) != std::string_view::npos) return "JSON has no NaN and no infinity: leave the key out";
  return "one JSON object per line";
}

constexpr double tera = 1e12, giga = 1e9, micro = 1e-6;
constexpr double rounding = 0.02;    // for publications that print few digits
constexpr double above_peak = 1.05;  // a GPU may clock higher than its datasheet reckons with

model::Result<void> check_times(const Times& time) {
  const std::array<std::pair<const char*, std::optional<double>>, 4> rising = {
      {{"time_us.min", time.min}, {"time_us.p10", time.p10}, {"time_us.p50", time.p50}, {"time_us.p90", time.p90}}};
  const char* below = nullptr;
  double least = 0;
  for (const auto& [key, value] : rising) {
    if (!value) continue;
    if (below != nullptr && *value < least)
      return model::wrong_input(
          key, fmt::format("{:.6g} us is less than {}, {:.6g} us", *value / micro, below, least / micro),
          "min <= p10 <= p50 <= p90");
    below = key;
    least = *value;
  }
  return {};
}

// Checks that the samples agree with the other figures, which are computed from them.
model::Result<void> check_samples(const Measurement& m) {
  const std::vector<double>& samples = m.time.samples;
  if (samples.empty()) return {};
  if (m.samples && *m.samples != static_cast<std::int64_t>(samples.size()))
    return model::wrong_input("samples_s",
                              fmt::format("{} samples are listed, {} are stated", samples.size(), *m.samples));
  const auto [least, most] = std::ranges::minmax_element(samples);
  if (m.time.p50 < *least * (1 - rounding) || m.time.p50 > *most * (1 + rounding))
    return model::wrong_input("samples_s",
                              fmt::format("time_us.p50, {:.6g} us, lies outside of them", m.time.p50 / micro),
                              "samples_s is in seconds");
  return {};
}

// Checks that a stated rate is the work over the median time, within rounding. Otherwise one of the three is not in the
// unit of its key.
model::Result<void> check_rate(const char* key, std::optional<double> stated, std::optional<double> rate, double unit) {
  if (!stated || !rate || std::abs(*stated / *rate - 1) <= rounding) return {};
  return model::wrong_input(
      key, fmt::format("{:.6g} is stated, but work over time_us.p50 is {:.6g}", *stated / unit, *rate / unit),
      "one of them is not in the unit of its key");
}

model::Result<void> check_word(const char* key, const std::string& word, const std::vector<std::string>& known) {
  if (word.empty() || std::ranges::find(known, word) != known.end()) return {};
  return model::wrong_input(key, fmt::format("'{}' is not known", word),
                            fmt::format("one of {}", fmt::join(known, ", ")));
}

model::Result<void> check_gemm(const Measurement& m) {
  const std::optional<double> expected = detail::gemm_flops(m);
  if (!m.flops || !expected || std::abs(*m.flops / *expected - 1) <= rounding) return {};
  return model::wrong_input("flops",
                            fmt::format("{:.6g} FLOP, but 2 m n k of the shape is {:.6g}", *m.flops, *expected),
                            "of all groups together");
}

}  // namespace

double extent_of(const Subject& subject, std::string_view name) {
  const auto found = std::ranges::find(subject.shape, name, &Shape::value_type::first);
  return found == subject.shape.end() ? 0 : static_cast<double>(found->second);
}

double typical_seconds(const Measurement& m) {
  std::vector<double> samples = m.time.samples;
  if (samples.empty()) return m.time.p50;
  std::ranges::sort(samples);
  constexpr std::size_t twentieth = 20;
  samples.resize(samples.size() - samples.size() / twentieth);
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

double relative_spread(const Measurement& m) {
  // The 10th to 90th percentile of a normal distribution, in standard deviations.
  constexpr double to_deviation = 1.4826, tenth_to_ninetieth = 2.5631;
  if (m.time.mad) return to_deviation * *m.time.mad / m.time.p50;
  if (!m.time.p10 || !m.time.p90) return 0;
  return (*m.time.p90 - *m.time.p10) / tenth_to_ninetieth / m.time.p50;
}

double environment_number(const Measurements& file, const char* key) {
  for (const Environment& environment : file.environments) {
    const auto json = nlohmann::json::parse(environment.properties, nullptr, false);
    if (json.is_object() && json.contains(key) && json[key].is_number()) return json[key].get<double>();
  }
  return 0;
}

std::vector<Record> detail::records_of(const Measurements& measurements) {
  std::vector<Record> records;
  for (const Environment& environment : measurements.environments) {
    Record record{.kind = Kind::environment, .environment = environment.properties};
    record.measurement.source = environment.source;
    record.measurement.device = environment.device;
    record.measurement.date = environment.date;
    record.measurement.sms = environment.sms;
    records.push_back(std::move(record));
  }
  for (const Measurement& value : measurements.values) records.push_back({.measurement = value});
  for (const Failure& failure : measurements.failures) {
    Record record{.kind = Kind::failure, .reason = failure.reason};
    static_cast<Subject&>(record.measurement) = failure;
    records.push_back(std::move(record));
  }
  return records;
}

model::Result<Measurements> parse_measurements(std::string_view text, const std::string& path,
                                               const std::vector<topologies::KnownDevice>& devices) {
  std::vector<std::string> notes;
  const bool json = path.ends_with(".jsonl");
  if (!json && !path.ends_with(".csv"))
    return at({ErrorKind::input, "not a file of measurements", "", 0, "", "its name ends in .jsonl or .csv"}, path, 0);
  const auto lines = TRY(json ? detail::read_json_lines(text, path, notes) : detail::read_csv_lines(text, path));
  if (lines.empty()) return at({ErrorKind::input, "holds no record", "", 0, "", ""}, path, 0);
  Reader reader(path, devices);
  for (const detail::Line& line : lines) TRY(reader.add(line));
  return reader.finish(std::move(notes));
}

model::Result<Measurements> load_measurements(const std::string& path,
                                              const std::vector<topologies::KnownDevice>& devices) {
  return parse_measurements(TRY(model::read_text_file(path)), path, devices);
}

model::Result<void> check_name(const std::string& path, const std::string& device,
                               const std::vector<topologies::KnownDevice>& devices) {
  const model::Device* own = topologies::find_device(devices, device);
  if (own == nullptr) return {};
  const std::set<std::string> words = name_words(std::filesystem::path(path).stem().string());
  std::set<std::string> named;
  for (const topologies::KnownDevice& known : devices)
    if (const std::string word = model_word(known.device.name); word != "host" && words.contains(word))
      named.insert(word);
  if (named.empty() || named.contains(model_word(own->name))) return {};
  return model::wrong_input("device", fmt::format("'{}', but the file's name says {}", device, fmt::join(named, ", ")),
                            "rename the file, or take the record out of it");
}

model::Result<void> check_repeats(const std::vector<Measurements>& files) {
  std::map<std::string, KeyPlace> first;
  for (const Measurements& file : files) {
    for (const Measurement& m : file.values) {
      const KeyPlace place{&file, &m};
      const auto [found, fresh] = first.try_emplace(identity(m), place);
      if (!fresh) TRY(check_pair(found->second, place));
    }
  }
  return {};
}

model::Result<std::vector<Line>> detail::read_csv_lines(std::string_view text, const std::string& path) {
  const auto table = TRY(CsvTable::parse(text, path, {}));
  std::vector<Line> lines;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    Line& line = lines.emplace_back(Line{table.line(row), {}});
    for (const std::string& column : table.columns())
      if (const std::string& text_of_cell = table.text(row, column); !text_of_cell.empty())
        line.fields.emplace_back(column, Value{text_of_cell, false});
  }
  return lines;
}

std::string to_csv(const Measurements& measurements) {
  std::vector<Fields> records;
  for (const detail::Record& record : detail::records_of(measurements)) records.push_back(detail::to_fields(record));
  const std::vector<std::string> columns = columns_of(records);
  std::string out = fmt::format("{}\n", fmt::join(columns, ","));
  for (const Fields& fields : records) {
    std::vector<std::string> row;
    for (const std::string& column : columns) {
      const auto found = std::ranges::find(fields, column, &Fields::value_type::first);
      row.push_back(found == fields.end() ? "" : cell(found->second.text));
    }
    out += fmt::format("{}\n", fmt::join(row, ","));
  }
  return out;
}

bool detail::is_json_object(const std::string& text) {
  return model::check_nesting(text, "") && Json::parse(text, nullptr, false).is_object();
}

model::Result<std::vector<Line>> detail::read_json_lines(std::string_view text, const std::string& path,
                                                         std::vector<std::string>& notes) {
  std::vector<Line> lines;
  int number = 0;
  for (const std::string_view line : model::lines_of(text)) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    TRY(model::check_nesting(line, path, number));
    const Json object = Json::parse(line, nullptr, false);
    if (object.is_discarded() && line.end() == text.end() && !lines.empty()) {
      notes.push_back(fmt::format("line {} is unfinished and left out", number));
      break;
    }
    if (!object.is_object()) return model::wrong_input_at(path, number, "", "not a JSON object", hint_for(line));
    auto fields = TRY(flatten(object, path, number));
    lines.push_back({number, std::move(fields)});
  }
  return lines;
}

std::string to_jsonl(const Measurements& measurements) {
  std::string out;
  for (const detail::Record& record : detail::records_of(measurements))
    out += nested(detail::to_fields(record)).dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
  return out;
}

std::optional<double> detail::gemm_flops(const Measurement& m) {
  const double products = extent_of(m, "m") * extent_of(m, "n") * extent_of(m, "k");  // 0 where one is not stated
  if (m.op != "gemm" || products == 0) return std::nullopt;
  return 2 * products * std::max(1.0, extent_of(m, "groups"));
}

model::Result<void> detail::check_values(const Record& record) {
  const Measurement& m = record.measurement;
  const std::array<model::Result<void>, 7> checks = {
      check_word("phase", m.phase, {"F", "I", "W", "B"}),
      check_word("cache", m.cache, {"hot", "cold"}),
      check_times(m.time),
      check_samples(m),
      check_gemm(m),
      check_rate("tflops", record.stated_flop_rate, m.flop_rate(), tera),
      check_rate("gbps", record.stated_byte_rate, m.byte_rate(), giga),
  };
  for (const auto& check : checks)
    if (!check) return check;
  return {};
}

std::optional<double> peak_flop_rate(const model::Device& device, std::string_view format) {
  const bool fp8 = format.starts_with("fp8");
  const double peak = (fp8 ? device.fp8_peak : device.bf16_peak).value();
  // Wider formats are no faster than BF16; the peak of any other format is unknown.
  const bool known = fp8 || format == "bf16" || format == "fp16" || format == "tf32" || format == "fp32";
  return known && peak > 0 ? std::optional(peak) : std::nullopt;
}

model::Result<void> detail::check_peaks(const Measurement& m, const model::Device& device) {
  const std::optional<double> peak = peak_flop_rate(device, m.format);
  if (peak && m.flop_rate() && *m.flop_rate() > above_peak * *peak)
    return model::wrong_input("tflops",
                              fmt::format("{:.4g} TFLOP/s in {} is above the datasheet peak of {}, {:.4g} TFLOP/s",
                                          *m.flop_rate() / tera, m.format, device.name, *peak / tera),
                              "the time or the work is not what its key claims");
  if (m.cache != "cold" || !m.bytes) return {};
  // The last written results may still be in the cache when the time ends: at most half the bytes and the cache's size.
  constexpr double cache_bytes = 50e6;
  const double through_memory = *m.bytes - std::min(cache_bytes, *m.bytes / 2);
  const double bandwidth = device.memory_bandwidth.value();
  if (through_memory / m.time.p50 > above_peak * bandwidth)
    return model::wrong_input(
        "gbps",
        fmt::format("{:.4g} GB/s from a cold cache is above the datasheet bandwidth of {}, {:.4g} GB/s",
                    *m.byte_rate() / giga, device.name, bandwidth / giga),
        "the time or the bytes are not what their key claims");
  return {};
}

}  // namespace plumbline::calibrate
