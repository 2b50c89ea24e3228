#include "calibrate/measurement/measurement_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "calibrate/measurement/detail/measurement_record.h"
#include "model/base/text_file.h"
#include "topologies/device.h"

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

}  // namespace

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

}  // namespace plumbline::calibrate
