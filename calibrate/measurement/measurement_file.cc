#include "calibrate/measurement/measurement_file.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "calibrate/measurement/detail/measurement_record.h"
#include "model/base/text_file.h"

namespace plumbline::calibrate {
namespace {

using detail::Kind;
using detail::Line;
using detail::Record;
using model::Error;
using model::ErrorKind;

tl::unexpected<Error> at(Error error, const std::string& path, int line) {
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

class Reader {
 public:
  Reader(const std::string& path, const std::vector<topologies::KnownDevice>& devices) : devices_(devices) {
    result_.path = path;
  }

  model::Result<void> add(const Line& line) {
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
    if (!fresh) {
      return model::wrong_input("", fmt::format("the same case as on line {}", first->second),
                                "a case is measured once per device, shape, format, SM counts and cache state");
    }
    const model::Device* device = topologies::find_device(devices_, m.device);
    if (device == nullptr) {
      unknown_.insert(m.device);
      return {};
    }
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
  if (!json && !path.ends_with(".csv")) {
    return at({ErrorKind::input, "not a file of measurements", "", 0, "", "its name ends in .jsonl or .csv"}, path, 0);
  }
  const auto lines = TRY(json ? detail::read_json_lines(text, path, notes) : detail::read_csv_lines(text, path));
  if (lines.empty()) return at({ErrorKind::input, "holds no record", "", 0, "", ""}, path, 0);
  Reader reader(path, devices);
  for (const Line& line : lines) {
    TRY(reader.add(line));
  }
  return reader.finish(std::move(notes));
}

model::Result<Measurements> load_measurements(const std::string& path,
                                              const std::vector<topologies::KnownDevice>& devices) {
  const auto text = TRY(model::read_text_file(path));
  return parse_measurements(text, path, devices);
}

}  // namespace plumbline::calibrate
