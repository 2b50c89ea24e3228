#include "topologies/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "model/parameter_file.h"
#include "model/si_unit.h"

namespace plumbline::topologies {
namespace {

using model::Error;
using model::ErrorKind;
using model::Parameter;
using model::ParameterFile;
using model::UnitDimension;

// Takes the numbers of one file, one by one, converts them and collects their provenance. The first
// error wins.
class Taker {
 public:
  Taker(const ParameterFile& file, std::string prefix, std::vector<Parameter>& parameters)
      : file_(file), prefix_(std::move(prefix)), parameters_(parameters) {}

  // In SI, greater than 0, or not negative where the value may be 0.
  double take(std::string_view name, UnitDimension dimension, bool may_be_zero = false) {
    const ParameterFile::Number* number = file_.number(name);
    taken_.emplace_back(name);
    if (number == nullptr) {
      fail(name, 0, "required entry is missing", "write it as { value, unit, kind, source }");
      return 1;
    }
    const Parameter& parameter = number->parameter;
    const auto unit = model::si_unit(parameter.unit);
    if (!unit) {
      fail(name, number->line, unit.error().message, unit.error().hint);
      return 1;
    }
    if (unit->dimension != dimension) {
      fail(name, number->line,
           fmt::format("unit '{}' gives {}, expected {}", parameter.unit, to_string(unit->dimension),
                       to_string(dimension)),
           "");
      return 1;
    }
    const bool too_small = may_be_zero ? parameter.value < 0 : parameter.value <= 0;
    const bool not_a_count = dimension == UnitDimension::count && parameter.value != std::floor(parameter.value);
    if (too_small || not_a_count || parameter.value > 1e15) {
      fail(name, number->line, fmt::format("{} {} is out of range", parameter.value, parameter.unit),
           not_a_count ? "a count is a whole number"
                       : fmt::format("a value {} is expected", may_be_zero ? "from 0" : "above 0"));
      return 1;
    }
    parameters_.push_back(parameter);
    parameters_.back().name = prefix_ + std::string(name);
    return parameter.value * unit->factor;
  }

  std::int64_t count(std::string_view name) { return static_cast<std::int64_t>(take(name, UnitDimension::count)); }

  // The first error, or an error about an entry that nobody took.
  std::optional<Error> finish() {
    for (const ParameterFile::Number& number : file_.numbers) {
      if (std::ranges::find(taken_, number.parameter.name) != taken_.end()) continue;
      const std::string nearest = model::nearest_name(number.parameter.name, taken_);
      fail(number.parameter.name, number.line, "unknown entry",
           nearest.empty() ? "" : fmt::format("did you mean '{}'?", nearest));
    }
    return error_;
  }

 private:
  void fail(std::string_view name, int line, std::string message, std::string hint) {
    if (error_) return;
    error_ = Error{ErrorKind::input, std::move(message), file_.path, line, std::string(name), std::move(hint)};
  }

  const ParameterFile& file_;
  std::string prefix_;
  std::vector<Parameter>& parameters_;
  std::vector<std::string> taken_;
  std::optional<Error> error_;
};

struct Fabric {
  std::int64_t rails = 0;
  std::int64_t switch_ports = 0;
  std::int64_t layers = 0;

  // Endpoints of a folded Clos network: every switch but the top ones gives half its ports upwards.
  double endpoints_per_rail() const {
    return 2 * std::pow(static_cast<double>(switch_ports) / 2, static_cast<double>(layers));
  }
};

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

model::Result<model::Device> load_device(const std::string& folder, const std::string& name,
                                         std::vector<Parameter>& parameters) {
  const std::string path = (std::filesystem::path(folder) / (name + ".toml")).string();
  if (!std::filesystem::exists(path)) {
    const std::vector<std::string> names = names_in(folder);
    const std::string nearest = model::nearest_name(name, names);
    return tl::unexpected(
        Error{ErrorKind::input, fmt::format("no device named '{}' in {}", name, folder), "", 0, "cluster.device",
              fmt::format("{}known: {}", nearest.empty() ? "" : fmt::format("did you mean '{}'? ", nearest),
                          fmt::join(names, ", "))});
  }
  const auto file = model::read_parameter_file(path, {"name", "description"});
  if (!file) return tl::unexpected(file.error());
  Taker taker(*file, "device.", parameters);
  model::Device device;
  device.name = name;
  device.sms = taker.count("sms");
  device.bf16_peak = model::FlopsPerSecond(taker.take("bf16_peak", UnitDimension::flops_per_second));
  device.fp8_peak = model::FlopsPerSecond(taker.take("fp8_peak", UnitDimension::flops_per_second, true));
  device.memory_bandwidth = model::BytesPerSecond(taker.take("memory_bandwidth", UnitDimension::bytes_per_second));
  device.memory = model::Bytes(taker.take("memory", UnitDimension::bytes));
  if (auto error = taker.finish()) return tl::unexpected(*error);
  return device;
}

// Replaces a constant by what the plan says, its provenance included.
void override_parameter(std::vector<Parameter>& parameters, std::string_view name, std::string_view key, double value,
                        std::string_view unit) {
  for (Parameter& parameter : parameters) {
    if (parameter.name != name) continue;
    parameter.value = value;
    parameter.unit = unit;
    parameter.kind = model::Evidence::assumed;
    parameter.source = fmt::format("the plan's {}", key);
    parameter.relative_uncertainty.reset();
  }
}

void apply(const Variation& variation, model::ClusterShape& shape) {
  shape.gpus = variation.gpus > 0 ? variation.gpus : shape.gpus_per_node;
  if (variation.nics_per_node) {
    shape.nics_per_node = *variation.nics_per_node;
    override_parameter(shape.parameters, "node.nics", "cluster.nics_per_node",
                       static_cast<double>(*variation.nics_per_node), "1");
  }
  if (variation.nic_gbps) {
    shape.nic_bandwidth = model::BytesPerSecond(*variation.nic_gbps * 1e9 / 8);
    override_parameter(shape.parameters, "node.nic_bandwidth", "cluster.nic_gbps", *variation.nic_gbps, "Gb/s");
  }
}

// Each rail is a network of its own; a node's NICs are dealt to the rails in turn.
std::optional<Error> check_wiring(const model::ClusterShape& shape, const Fabric& fabric, const std::string& path) {
  const std::int64_t nics_on_a_rail = (shape.nics_per_node + fabric.rails - 1) / fabric.rails;
  const double nodes = std::floor(fabric.endpoints_per_rail() / static_cast<double>(nics_on_a_rail));
  if (static_cast<double>(shape.nodes()) <= nodes) return std::nullopt;
  return Error{ErrorKind::infeasible,
               fmt::format("{} GPUs are {} nodes, the switches of {} connect {:.0f}", shape.gpus, shape.nodes(),
                           shape.name, nodes),
               path,
               0,
               "cluster.gpus",
               fmt::format("use at most {:.0f} GPUs", nodes * static_cast<double>(shape.gpus_per_node))};
}

}  // namespace

Variation variation_of(const model::Plan& plan) {
  return {plan.cluster.gpus, plan.cluster.device, plan.cluster.nics_per_node, plan.cluster.nic_gbps};
}

model::Result<model::ClusterShape> load_cluster(const std::string& topology_path, const std::string& device_folder,
                                                const Variation& variation) {
  const auto file = model::read_parameter_file(topology_path, {"name", "description", "device", "default_profile"});
  if (!file) return tl::unexpected(file.error());
  for (const std::string_view key : {"device", "default_profile"}) {
    if (file->text(key) != nullptr) continue;
    return tl::unexpected(Error{ErrorKind::input, "required key is missing", topology_path, 0, std::string(key),
                                fmt::format("add {} = \"...\" above the first table", key)});
  }
  model::ClusterShape shape;
  shape.name = file->text_or_empty("name");
  if (shape.name.empty()) shape.name = std::filesystem::path(topology_path).stem().string();
  shape.default_profile = file->text_or_empty("default_profile");
  Taker taker(*file, "", shape.parameters);
  shape.gpus_per_node = taker.count("node.gpus");
  shape.intra_node_bandwidth = model::BytesPerSecond(taker.take("node.gpu_bandwidth", UnitDimension::bytes_per_second));
  shape.nics_per_node = taker.count("node.nics");
  shape.nic_bandwidth = model::BytesPerSecond(taker.take("node.nic_bandwidth", UnitDimension::bytes_per_second));
  const Fabric fabric = {taker.count("fabric.rails"), taker.count("fabric.switch_ports"), taker.count("fabric.layers")};
  if (auto error = taker.finish()) return tl::unexpected(*error);
  auto device = load_device(device_folder, variation.device.value_or(file->text_or_empty("device")), shape.parameters);
  if (!device) {
    Error error = device.error();
    const bool from_topology = error.file.empty() && !variation.device;
    if (from_topology) {
      error.file = topology_path;
      error.line = file->text("device")->line;
      error.key = "device";
    }
    return tl::unexpected(error);
  }
  shape.device = *device;
  apply(variation, shape);
  if (auto error = check_wiring(shape, fabric, topology_path)) return tl::unexpected(*error);
  return shape;
}

}  // namespace plumbline::topologies
