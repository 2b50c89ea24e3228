#include "calibrate/reliability/reliability.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "model/base/parameter_file.h"
#include "model/base/si_unit.h"
#include "model/base/text_file.h"

namespace plumbline::calibrate {
namespace {

using model::ParameterFile;
using model::UnitDimension;

// Takes the numbers of a file one by one. The first error is kept.
class ReliabilityReader {
 public:
  explicit ReliabilityReader(const ParameterFile& file) : file_(file) {}

  model::Result<Reliability> read() {
    Reliability made{.name = file_.text_or_empty("name"), .description = file_.text_or_empty("description")};
    for (const ParameterFile::Text& text : file_.texts)
      if (text.key == "devices") made.devices.push_back(text.value);
    const double gpu_hours = 24 * take("observed.gpu_days", UnitDimension::count).value_or(0);
    if (gpu_hours <= 0)
      fail("observed.gpu_days", "is missing or 0", "state over how many GPU-days failures were counted");
    const double detect_s = required("default.detect", UnitDimension::seconds);
    const double repair_s = required("default.repair", UnitDimension::seconds);
    for (const std::string& name : failures()) {
      const std::string table = "failure." + name + ".";
      sim::FailureMode& mode = made.failures.emplace_back();
      mode.name = name;
      mode.per_gpu_hour = required(table + "count", UnitDimension::count) / gpu_hours;
      mode.detect_s = take(table + "detect", UnitDimension::seconds).value_or(detect_s);
      mode.slows = take(table + "slows", UnitDimension::count).value_or(1);
      mode.lasts_s = take(table + "lasts", UnitDimension::seconds).value_or(0);
      mode.repair_s = take(table + "repair", UnitDimension::seconds).value_or(repair_s);
      mode.nodes = static_cast<std::int64_t>(take(table + "nodes", UnitDimension::count).value_or(1));
    }
    made.restart_s = required("restart.time", UnitDimension::seconds);
    made.swap_s = required("restart.swap", UnitDimension::seconds);
    made.storage = {.all = required("storage.all", UnitDimension::bytes_per_second),
                    .node = required("storage.node", UnitDimension::bytes_per_second),
                    .ssd = required("storage.ssd", UnitDimension::bytes_per_second),
                    .every = static_cast<std::int64_t>(required("storage.every", UnitDimension::count)),
                    .stall_s = take("checkpoint.stall", UnitDimension::seconds).value_or(0),
                    .neighbor_stall_s = take("checkpoint.neighbor_stall", UnitDimension::seconds).value_or(0),
                    .commit_s = take("checkpoint.commit", UnitDimension::seconds).value_or(0)};
    for (const ParameterFile::Number& number : file_.numbers)
      if (!taken_.contains(number.parameter.name)) refuse(number);
    if (error_) return tl::unexpected(*error_);
    for (const ParameterFile::Number& number : file_.numbers) made.parameters.push_back(number.parameter);
    return made;
  }

 private:
  // Returns the names between "failure." and the last dot.
  std::vector<std::string> failures() const {
    std::vector<std::string> names;
    for (const ParameterFile::Number& number : file_.numbers) {
      const std::string& name = number.parameter.name;
      if (const auto end = name.rfind('.'); name.starts_with("failure.") && end > 8)
        if (const std::string failure = name.substr(8, end - 8); names.empty() || names.back() != failure)
          names.push_back(failure);
    }
    return names;
  }
  // Returns the value in SI units; nothing where the file does not have it.
  std::optional<double> take(const std::string& name, UnitDimension dimension) {
    taken_[name] = true;
    const ParameterFile::Number* number = file_.number(name);
    if (number == nullptr) return std::nullopt;
    const auto unit = model::si_unit(number->parameter.unit);
    if (!unit || unit->dimension != dimension) {
      fail(name, fmt::format("the unit '{}' is not one of {}", number->parameter.unit, to_string(dimension)),
           unit ? "" : unit.error().hint);
      return std::nullopt;
    }
    if (number->parameter.value < 0) fail(name, "is below 0", "state an amount of at least 0");
    return number->parameter.value * unit->factor;
  }
  double required(const std::string& name, UnitDimension dimension) {
    const auto value = take(name, dimension);
    if (!value) fail(name, "is missing", "state it with value, unit, kind and source");
    return value.value_or(0);
  }
  void refuse(const ParameterFile::Number& number) {
    std::vector<std::string> names;
    for (const auto& [name, known] : taken_) names.push_back(name);
    fail(number.parameter.name, "is no entry of reliability", model::did_you_mean(number.parameter.name, names));
  }
  void fail(const std::string& name, std::string message, std::string hint) {
    if (error_) return;
    const ParameterFile::Number* number = file_.number(name);
    error_ =
        model::wrong_input_at(file_.path, number ? number->line : 0, name, std::move(message), std::move(hint)).value();
  }

  const ParameterFile& file_;
  std::map<std::string, bool> taken_;
  std::optional<model::Error> error_;
};

}  // namespace

model::Result<Reliability> load_reliability(const std::string& path) {
  const ParameterFile file = TRY(model::read_parameter_file(path, {"name", "description"}, {"devices"}));
  return ReliabilityReader(file).read();
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
