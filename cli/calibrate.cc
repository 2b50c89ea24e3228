// plumbline calibrate: makes a profile from measurements of a host or a GPU.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "calibrate/fit/fit_records.h"
#include "calibrate/fit/profile_fit.h"
#include "calibrate/measurement/measurement.h"
#include "cli/inputs.h"
#include "cli/make_profiles.h"
#include "cli/outputs.h"
#include "cli/verb.h"
#include "reports/text/inputs/measurements_text.h"
#include "topologies/device.h"

namespace plumbline::cli {
namespace {

using calibrate::FitRecords;
using calibrate::ProfileFit;
using model::Result;

const std::string host_base = "host-datasheet", other_base = "generic-datasheet";

struct Arguments {
  std::vector<std::string> measurements;
  std::string out, clock, extends;
  std::string profile;  // to make by its recipe, in place of measurements
};

Result<std::vector<calibrate::Measurements>> load_all(const std::vector<std::string>& paths) {
  const auto devices = TRY(known_devices());
  std::vector<calibrate::Measurements> files;
  for (const std::string& path : paths) {
    auto file = TRY(read_measurements(path, devices));
    files.push_back(std::move(file));
  }
  return files;
}

// Returns the profile with the constants that no record determines: the datasheet profile of the device's family
// ("a100-datasheet" for an a100-sxm) where one is shipped.
Result<model::Profile> base_of(const FitRecords& records, const std::string& wanted) {
  if (!wanted.empty()) return find_profile(wanted);
  if (records.machine == calibrate::MachineKind::host) return find_profile(host_base);
  const auto devices = TRY(known_devices());
  const model::Device* device = topologies::find_device(devices, records.device);
  if (device == nullptr)
    return model::wrong_input("--extends", fmt::format("no datasheet of '{}' is known", records.device),
                              "name the profile whose constants hold where no record measures them");
  auto own = find_profile(device->name.substr(0, device->name.find('-')) + "-datasheet");
  return own ? own : find_profile(other_base);
}

std::string file_names(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  for (const std::string& path : paths) names.push_back(std::filesystem::path(path).filename().string());
  return fmt::format("{}", fmt::join(names, ", "));
}

Result<void> run(const Arguments& arguments) {
  if (!arguments.profile.empty()) return make_profiles(arguments.profile, arguments.out);
  if (arguments.measurements.empty())
    return model::wrong_input("MEASUREMENTS", "nothing to calibrate", "name files of measurements, or --profile NAME");
  if (arguments.out.empty())
    return model::wrong_input("--output", "required", "name the profile, a .toml; - is stdout");
  const auto files = TRY(load_all(arguments.measurements));
  const auto records = TRY(calibrate::fit_records(files, arguments.clock));
  const auto base = TRY(base_of(records, arguments.extends));
  const std::string source =
      fmt::format("{}, {}{}", reports::machine_text(records), records.date.empty() ? "" : records.date + ", ",
                  file_names(arguments.measurements));
  const ProfileFit fit = calibrate::fit_profile(records, base, source);
  for (const std::string& note : fit.notes) fmt::print(stderr, "note: {}\n", note);
  const bool to_stdout = arguments.out == "-";
  const std::string name =
      to_stdout ? (records.clock.empty() ? "gpu" : "host") : std::filesystem::path(arguments.out).stem().string();
  const std::string description =
      fmt::format("measured on one {}: {}", records.clock.empty() ? "GPU" : "computer", reports::machine_text(records));
  TRY(write_output(arguments.out, calibrate::profile_text(name, description, base.name(), fit.parameters)));
  fmt::print(to_stdout ? stderr : stdout, "{}", reports::fit_text(fit, records));
  return {};
}

}  // namespace

void add_calibrate(CLI::App& root, int& exit_code) {
  CLI::App* verb = root.add_subcommand("calibrate", "Make a cost profile from measurements of the host or a GPU");
  const auto arguments = std::make_shared<Arguments>();
  verb->add_option("MEASUREMENTS", arguments->measurements,
                   "Files of `plumbline measure --backend host` or `measure --plan`, of one device");
  verb->add_option("-o,--output", arguments->out, "The profile, a .toml; - is stdout");
  verb->add_option("--profile", arguments->profile,
                   "Make a shipped profile, or all, from the data that ships with plumbline (docs/profiles.md)")
      ->excludes("MEASUREMENTS");
  verb->add_option("--clock", arguments->clock, "Use only the records of this clock: wall | cpu");
  verb->add_option(
      "--extends", arguments->extends,
      "The profile of the constants that no record determines (default: host-datasheet for a host, for a GPU the\n"
      "datasheet profile of its family)");
  verb->footer(
      "Examples:\n"
      "  plumbline measure --backend host -o here.jsonl\n"
      "  plumbline calibrate here.jsonl -o here.toml\n"
      "  plumbline simulate host-tiny-moe --set cluster.profile=here.toml\n"
      "  plumbline measure --plan h100-chunk -o chunk.jsonl && plumbline calibrate chunk.jsonl -o h100.toml");
  verb->callback([arguments, &exit_code] { exit_code = exit_of(run(*arguments)); });
}

}  // namespace plumbline::cli
