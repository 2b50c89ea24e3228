#include "calibrate/reliability/reliability.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/base/parameter_file.h"
#include "model/base/text_file.h"
#include "topologies/topology.h"

namespace plumbline::calibrate {
namespace {

using model::ParameterFile;
using model::UnitDimension;

constexpr double longest_s = 1e10;  // repairs take days

// Returns the names between "failure." and the last dot.
std::vector<std::string> failures_of(const ParameterFile& file) {
  std::vector<std::string> names;
  for (const ParameterFile::Number& number : file.numbers) {
    const std::string& name = number.parameter.name;
    if (const auto end = name.rfind('.'); name.starts_with("failure.") && end > 8)
      if (const std::string failure = name.substr(8, end - 8); names.empty() || names.back() != failure)
        names.push_back(failure);
  }
  return names;
}

}  // namespace

model::Result<Reliability> load_reliability(const std::string& path) {
  ParameterFile file = TRY(model::read_parameter_file(path, {"name", "description"}, {"devices"}));
  Reliability made{.name = file.text_or_empty("name"), .description = file.text_or_empty("description")};
  made.devices = file.values("devices");
  std::vector<model::Parameter> taken;
  topologies::ParameterTaker taker(file, "", taken, longest_s);
  const auto count = [&taker](const std::string& name, std::optional<double> fallback = std::nullopt) {
    return taker.amount(name, UnitDimension::count, fallback);
  };
  const auto seconds = [&taker](const std::string& name, std::optional<double> fallback = std::nullopt) {
    return taker.amount(name, UnitDimension::seconds, fallback);
  };
  const auto rate = [&taker](const char* name) { return taker.amount(name, UnitDimension::bytes_per_second); };
  const double gpu_hours = 24 * taker.ratio("observed.gpu_days");
  const double detect_s = seconds("default.detect"), repair_s = seconds("default.repair");
  for (const std::string& name : failures_of(file)) {
    const std::string table = "failure." + name + ".";
    sim::FailureMode& mode = made.failures.emplace_back();
    mode.name = name;
    mode.per_gpu_hour = count(table + "count") / gpu_hours;
    mode.detect_s = seconds(table + "detect", detect_s);
    mode.slows = count(table + "slows", 1);
    mode.lasts_s = seconds(table + "lasts", 0);
    mode.repair_s = seconds(table + "repair", repair_s);
    mode.nodes = static_cast<std::int64_t>(count(table + "nodes", 1));
  }
  made.restart_s = seconds("restart.time");
  made.swap_s = seconds("restart.swap");
  made.storage = {.all = rate("storage.all"),
                  .node = rate("storage.node"),
                  .ssd = rate("storage.ssd"),
                  .every = static_cast<std::int64_t>(count("storage.every")),
                  .stall_s = seconds("checkpoint.stall", 0),
                  .neighbor_stall_s = seconds("checkpoint.neighbor_stall", 0),
                  .commit_s = seconds("checkpoint.commit", 0)};
  if (auto error = taker.finish()) return tl::unexpected(std::move(*error));
  made.parameters = take_constants(std::move(file));
  return made;
}

model::Result<Reliability> reliability_of_device(const std::string& folder, const std::string& device) {
  for (const std::string& name : model::names_in_folder(folder, ".toml")) {
    Reliability reliability = TRY(load_reliability(folder + "/" + name + ".toml"));
    if (std::ranges::count(reliability.devices, device) > 0) return reliability;
  }
  return model::infeasible("campaign.reliability", fmt::format("nothing is known about failures of {}", device),
                           "name a file of reliability, or another cluster's");
}

}  // namespace plumbline::calibrate
