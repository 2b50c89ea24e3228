// plumbline calibrate: measurements of a host or a GPU become a profile.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/fit/fit_records.h"
#include "calibrate/fit/profile_fit.h"
#include "calibrate/measurement/measurement.h"
#include "cli/data.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "reports/text/table.h"
#include "topologies/device.h"

namespace plumbline::cli {
namespace {

using calibrate::FitRecords;
using calibrate::FittedFamily;
using calibrate::ProfileFit;
using model::Result;

const std::string host_base = "host-datasheet", other_base = "generic-datasheet";

struct Arguments {
  std::vector<std::string> measurements;
  std::string out, clock, extends;
};

Result<std::vector<topologies::KnownDevice>> known_devices() {
  const auto data = data_folder();
  if (!data) return tl::unexpected(data.error());
  return topologies::load_devices(*data + "/topologies/devices");
}

Result<std::vector<calibrate::Measurements>> load_all(const std::vector<std::string>& paths) {
  const auto devices = known_devices();
  if (!devices) return tl::unexpected(devices.error());
  std::vector<calibrate::Measurements> files;
  for (const std::string& path : paths) {
    auto file = calibrate::load_measurements(path, *devices);
    if (!file) return tl::unexpected(file.error());
    for (const std::string& note : file->notes) fmt::print(stderr, "note: {}: {}\n", path, note);
    files.push_back(std::move(*file));
  }
  return files;
}

// What tells of a device what no record does: the datasheet profile of its family ("a100-datasheet" of an a100-sxm)
// where one is shipped.
Result<model::Profile> base_of(const FitRecords& records, const std::string& wanted) {
  if (!wanted.empty()) return find_profile(wanted);
  if (records.machine == calibrate::MachineKind::host) return find_profile(host_base);
  const auto devices = known_devices();
  if (!devices) return tl::unexpected(devices.error());
  const model::Device* device = topologies::find_device(*devices, records.device);
  if (device == nullptr)
    return tl::unexpected(model::Error{model::ErrorKind::input,
                                       fmt::format("no datasheet of '{}' is known", records.device), "", 0, "--extends",
                                       "name the profile whose constants hold where no record tells"});
  auto own = find_profile(device->name.substr(0, device->name.find('-')) + "-datasheet");
  return own ? own : find_profile(other_base);
}

// "a CPU, cpu clock"; of a GPU its name alone.
std::string machine_text(const FitRecords& records) {
  return records.clock.empty() ? records.device : fmt::format("{}, {} clock", records.device, records.clock);
}

std::string file_names(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  for (const std::string& path : paths) names.push_back(std::filesystem::path(path).filename().string());
  return fmt::format("{}", fmt::join(names, ", "));
}

// Median and largest of the absolute values, "-" of none.
std::pair<std::string, std::string> errors_text(std::vector<double> errors) {
  if (errors.empty()) return {"-", "-"};
  for (double& error : errors) error = std::abs(error);
  std::ranges::sort(errors);
  const double median = (errors[(errors.size() - 1) / 2] + errors[errors.size() / 2]) / 2;
  return {fmt::format("{:.1f} %", 100 * median), fmt::format("{:.1f} %", 100 * errors.back())};
}

std::string fit_text(const ProfileFit& fit, const FitRecords& records) {
  using reports::Align;
  reports::Table table({{"family"},
                        {"records", Align::right},
                        {"median error", Align::right},
                        {"largest", Align::right},
                        {"left out", Align::right},
                        {"largest", Align::right}});
  for (const FittedFamily& family : fit.families) {
    const auto [median, largest] = errors_text(family.errors);
    const auto [left_out, largest_left_out] = errors_text(family.left_out);
    table.add({family.name, fmt::format("{}", family.records), median, largest, left_out, largest_left_out});
  }
  return fmt::format(
      "{}, {}\n{} constants: {} operators as measured, {} of forms\n\n{}\n"
      "Errors of the forms; left out: of each record when fitted to the others. An\n"
      "operator that was measured takes its own time, whatever the form says.\n",
      machine_text(records), records.date.empty() ? "no date" : records.date, fit.parameters.size(),
      fit.measured_operators, fit.parameters.size() - fit.measured_operators, table.to_string());
}

Result<void> run(const Arguments& arguments) {
  const auto files = load_all(arguments.measurements);
  if (!files) return tl::unexpected(files.error());
  const auto records = calibrate::fit_records(*files, arguments.clock);
  if (!records) return tl::unexpected(records.error());
  const auto base = base_of(*records, arguments.extends);
  if (!base) return tl::unexpected(base.error());
  const std::string source =
      fmt::format("{}, {}{}", machine_text(*records), records->date.empty() ? "" : records->date + ", ",
                  file_names(arguments.measurements));
  const ProfileFit fit = calibrate::fit_profile(*records, *base, source);
  for (const std::string& note : fit.notes) fmt::print(stderr, "note: {}\n", note);
  const bool to_stdout = arguments.out == "-";
  const std::string name =
      to_stdout ? (records->clock.empty() ? "gpu" : "host") : std::filesystem::path(arguments.out).stem().string();
  const std::string description =
      fmt::format("measured on one {}: {}", records->clock.empty() ? "GPU" : "computer", machine_text(*records));
  auto written = write_output(arguments.out, calibrate::profile_text(name, description, base->name(), fit.parameters));
  if (!written) return written;
  fmt::print(to_stdout ? stderr : stdout, "{}", fit_text(fit, *records));
  return {};
}

}  // namespace

CLI::App* add_calibrate(CLI::App& root, int& exit_code) {
  CLI::App* verb = root.add_subcommand("calibrate", "Make a cost profile of measurements of the host or a GPU");
  const auto arguments = std::make_shared<Arguments>();
  verb->add_option("MEASUREMENTS", arguments->measurements,
                   "Files of `plumbline measure --backend host` or `measure --plan`, of one device")
      ->required();
  verb->add_option("-o,--output", arguments->out, "The profile, a .toml; - is stdout")->required();
  verb->add_option("--clock", arguments->clock, "Of records of both clocks those of one: wall | cpu");
  verb->add_option("--extends", arguments->extends,
                   "The profile whose constants hold where no record tells (default: of a host host-datasheet, of a\n"
                   "GPU the datasheet profile of its family)");
  verb->footer(
      "Examples:\n"
      "  plumbline measure --backend host -o here.jsonl\n"
      "  plumbline calibrate here.jsonl -o here.toml\n"
      "  plumbline simulate host-tiny-moe --set cluster.profile=here.toml\n"
      "  plumbline measure --plan h100-chunk -o chunk.jsonl && plumbline calibrate chunk.jsonl -o h100.toml");
  verb->callback([arguments, &exit_code] {
    const auto done = run(*arguments);
    exit_code = done ? 0 : report(done.error());
  });
  return verb;
}

}  // namespace plumbline::cli
