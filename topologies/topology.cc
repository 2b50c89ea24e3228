#include "topologies/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "model/base/parameter_file.h"
#include "model/base/units.h"
#include "model/economics/prices.h"
#include "model/plan/plan.h"
#include "topologies/device.h"
#include "topologies/fabric.h"
#include "topologies/parameter_taker.h"

namespace plumbline::topologies {
namespace {

using model::Error;
using model::ParameterFile;
using model::UnitDimension;

// Every entry may be missing. Errors are reported by the taker.
model::Prices take_prices(const ParameterFile& file, ParameterTaker& taker) {
  const auto entry = [&](std::string_view name, const auto& take_number) {
    if (!taker.has(name)) return model::Prices::Entry();
    take_number();
    return model::Prices::Entry(file.number(name)->parameter);
  };
  const auto take = [&](std::string_view name, UnitDimension dimension, bool may_be_zero = false) {
    return entry(name, [&] { taker.take(name, dimension, may_be_zero); });
  };
  const auto ratio = [&](std::string_view name, double least, double most) {
    return entry(name, [&] { taker.ratio(name, least, most); });
  };
  model::Prices prices;
  prices.rent = take("price.rent", UnitDimension::usd_per_gpu_hour);
  prices.server = take("price.server", UnitDimension::usd);
  prices.nic = take("price.nic", UnitDimension::usd);
  prices.fabric_switch = take("price.switch", UnitDimension::usd);
  prices.link = take("price.link", UnitDimension::usd);
  prices.depreciation = take("price.depreciation", UnitDimension::years);
  prices.utilization = ratio("price.utilisation", 0, 1);
  prices.pue = ratio("price.pue", 1, 10);
  prices.electricity = take("price.electricity", UnitDimension::usd_per_kwh, true);
  prices.host_power = take("power.host", UnitDimension::watts, true);
  prices.nic_power = take("power.nic", UnitDimension::watts, true);
  prices.switch_power = take("power.switch", UnitDimension::watts, true);
  return prices;
}

const std::vector<std::string> text_keys = {"name",    "description",      "device", "default_profile",
                                            "extends", "node.interconnect"};
constexpr std::string_view device_prefix = "device.";

// Replaces a constant by the plan's value, with its provenance.
void override_parameter(std::vector<model::Parameter>& parameters, std::string_view name, std::string_view key,
                        double value, std::string_view unit) {
  for (model::Parameter& parameter : parameters) {
    if (parameter.name != name) continue;
    parameter.value = value;
    parameter.unit = unit;
    parameter.kind = model::Evidence::assumed;
    parameter.source = fmt::format("the plan's {}", key);
    parameter.relative_uncertainty.reset();
  }
}

std::optional<Error> check_texts(const ParameterFile& file) {
  std::vector<std::string> missing;
  for (const char* key : {"device", "default_profile", "node.interconnect"})
    if (file.text(key) == nullptr) missing.emplace_back(key);
  if (!missing.empty())
    return Error{
        model::ErrorKind::input,
        missing.size() == 1 ? "required key is missing"
                            : fmt::format("required keys are missing: {}", fmt::join(missing, ", ")),
        file.path,
        0,
        missing.front(),
        "device and default_profile stand above the first table, interconnect (\"switch\" or \"mesh\") in [node]"};
  const ParameterFile::Text& interconnect = *file.text("node.interconnect");
  if (interconnect.value == "switch" || interconnect.value == "mesh") return std::nullopt;
  return Error{model::ErrorKind::input, fmt::format("unknown interconnect '{}'", interconnect.value),
               interconnect.path,       interconnect.line,
               interconnect.key,        "use \"switch\" or \"mesh\""};
}

FabricShape take_fabric(const ParameterFile& file, ParameterTaker& taker) {
  FabricShape shape;
  shape.gpus_per_node = taker.count("node.gpus");
  if (file.text_or_empty("node.interconnect") == "mesh") {
    shape.interconnect = Interconnect::mesh;
    shape.gpu_bandwidth = taker.take("node.peer_bandwidth", UnitDimension::bytes_per_second) *
                          static_cast<double>(shape.gpus_per_node - 1);
  } else {
    shape.gpu_bandwidth = taker.take("node.gpu_bandwidth", UnitDimension::bytes_per_second);
  }
  shape.node_latency = taker.take("latency.node", UnitDimension::seconds, true);
  shape.layers = taker.count("fabric.layers", true);
  if (shape.layers == 0) return shape;
  shape.nics = taker.count("node.nics");
  shape.nic_bandwidth = taker.take("node.nic_bandwidth", UnitDimension::bytes_per_second);
  shape.planes = taker.count("fabric.planes");
  shape.rails = taker.count("fabric.rails");
  shape.switch_ports = taker.count("fabric.switch_ports");
  if (shape.layers > 1) shape.oversubscription = taker.ratio("fabric.oversubscription");
  shape.nic_latency = taker.take("latency.nic", UnitDimension::seconds, true);
  shape.switch_latency = taker.take("latency.switch", UnitDimension::seconds, true);
  return shape;
}

// A topology that states no factor has a network as profiles were measured with.
model::NetworkFactors take_network(ParameterTaker& taker) {
  constexpr double most = 100;
  model::NetworkFactors factors;
  const auto take = [&](const char* name, double& factor) {
    if (taker.has(name)) factor = taker.ratio(name, 1 / most, most);
  };
  take("network.collective_rate", factors.collective_rate);
  take("network.collective_latency", factors.collective_latency);
  take("network.exchange_rate", factors.exchange_rate);
  take("network.low_latency_start", factors.low_latency_start);
  return factors;
}

// Where a topology states nothing of its hosts, a node is one, whose memory is not known.
void take_host(ParameterTaker& taker, std::int64_t gpus_per_node, model::Device& device) {
  device.host_gpus = taker.has("host.gpus") ? taker.count("host.gpus") : gpus_per_node;
  if (taker.has("host.memory")) device.host_memory = model::Bytes(taker.take("host.memory", UnitDimension::bytes));
}

// NICs that a plan removes leave rails, and their planes, empty.
void set_nics(FabricShape& fabric, std::int64_t nics) {
  const std::int64_t rails_per_plane = fabric.rails / fabric.planes;
  fabric.nics = nics;
  if (nics < 1 || nics >= fabric.rails) return;
  fabric.rails = nics;
  fabric.planes = std::max<std::int64_t>(1, nics / rails_per_plane);
}

void apply(const Variation& variation, FabricShape& fabric, std::vector<model::Parameter>& parameters) {
  if (variation.nics_per_node) {
    set_nics(fabric, *variation.nics_per_node);
    override_parameter(parameters, "node.nics", "cluster.nics_per_node", static_cast<double>(*variation.nics_per_node),
                       "1");
  }
  if (variation.nic_gbps) {
    fabric.nic_bandwidth = *variation.nic_gbps * 1e9 / 8;
    override_parameter(parameters, "node.nic_bandwidth", "cluster.nic_gbps", *variation.nic_gbps, "Gb/s");
  }
  if (variation.oversubscription) {
    fabric.oversubscription = *variation.oversubscription;
    override_parameter(parameters, "fabric.oversubscription", "cluster.oversubscription", *variation.oversubscription,
                       "1");
  }
  fabric.background = variation.background;
}

// Removes prices that do not apply to the plan: with another device those of rent, server and host power, with another
// NIC rate those of rent and of the fabric's parts. The number of NICs affects the rent alone.
void vary(const Variation& variation, const std::string& device, double nic_gbps, model::Prices& prices) {
  const auto changed = [&prices](const char* key) {
    prices.changed += (prices.changed.empty() ? "" : ", ") + std::string(key);
    prices.rent.reset();
  };
  if (variation.device && *variation.device != device) {
    changed("cluster.device");
    prices.server.reset();
    prices.host_power.reset();
  }
  if (variation.nic_gbps && *variation.nic_gbps != nic_gbps) {
    changed("cluster.nic_gbps");
    for (auto* entry : {&prices.nic, &prices.fabric_switch, &prices.link, &prices.nic_power, &prices.switch_power})
      entry->reset();
  }
  if (variation.nics_per_node) changed("cluster.nics_per_node");
}

// Changes the constants of the topology's own file; the device has its own file.
model::Result<void> change_constants(const Variation& variation, ParameterFile& file) {
  for (const model::ConstantChange& change : variation.constants) {
    if (change.name.starts_with(device_prefix)) continue;
    TRY(model::apply_change(change, model::constants_of(file)));
  }
  return {};
}

// Attributes impossible wiring to the plan's key where the plan gave the value, or else to the line of the file.
Error at_its_place(Error error, const ParameterFile& file, const Variation& variation) {
  const bool about_nics = error.key == "node.nics" || error.key == "fabric.rails";
  if (about_nics && variation.nics_per_node) error.key = "cluster.nics_per_node";
  if (error.key == "node.nic_bandwidth" && variation.nic_gbps) error.key = "cluster.nic_gbps";
  if (error.key == "fabric.oversubscription" && variation.oversubscription) error.key = "cluster.oversubscription";
  const ParameterFile::Number* number = file.number(error.key);
  error.file = number == nullptr ? file.path : number->path;
  if (number != nullptr) error.line = number->line;
  return error;
}

// Returns the path of a device's file next to the one that names it, if it lies there; other names as they are.
std::string next_to(const std::string& file, const std::string& device) {
  std::error_code ignored;
  const auto adjacent = std::filesystem::path(file).parent_path() / device;
  return device.ends_with(".toml") && std::filesystem::exists(adjacent, ignored) ? adjacent.string() : device;
}

model::Result<KnownDevice> device_of(const ParameterFile& file, const std::string& folder, const std::string& shipped,
                                     const Variation& variation, std::vector<model::Parameter>& parameters) {
  std::vector<model::ConstantChange> changes;
  for (const model::ConstantChange& change : variation.constants)
    if (change.name.starts_with(device_prefix))
      changes.push_back({change.name.substr(device_prefix.size()), change.value});
  const ParameterFile::Text& own = *file.text("device");
  auto device = load_device(folder, variation.device.value_or(next_to(own.path, own.value)), parameters, changes,
                            (std::filesystem::path(shipped) / "devices").string());
  if (device) return device;
  Error error = device.error();
  const bool from_topology = error.key == "cluster.device" && !variation.device;
  if (from_topology) {
    error.file = own.path;
    error.line = own.line;
    error.key = "device";
  }
  return tl::unexpected(error);
}

}  // namespace

Variation variation_of(const model::Plan& plan) {
  const model::TierShares shares = plan.cluster.background.value_or(model::TierShares{});
  const auto share = [&shares](const char* tier) {
    const auto found = shares.find(tier);
    return found == shares.end() ? 0 : found->second;
  };
  const std::optional<std::string>& device = plan.cluster.device;
  return {plan.cluster.gpus,
          device ? std::optional(next_to(plan.file, *device)) : std::nullopt,
          plan.cluster.nics_per_node,
          plan.cluster.nic_gbps,
          plan.cluster.oversubscription,
          {share("nic"), share("leaf"), share("spine")},
          {}};
}

model::Result<Topology> load_topology(const std::string& topology_path, const std::string& device_folder,
                                      const Variation& variation, const std::string& shipped) {
  const std::string bases = shipped.empty() ? std::filesystem::path(device_folder).parent_path().string() : shipped;
  auto file = model::joined(TRY(model::read_chain(topology_path, bases, {.what = "topology", .text_keys = text_keys})));
  if (auto error = check_texts(file)) return tl::unexpected(*error);
  TRY(change_constants(variation, file));
  Topology topology;
  model::ClusterShape& shape = topology.cluster;
  topology.description = file.text_or_empty("description");
  if (const std::string base = file.text_or_empty("extends"); topology.description.empty() && !base.empty())
    topology.description = "extends " + base;
  shape.name = file.name();
  shape.default_profile = file.text_or_empty("default_profile");
  ParameterTaker taker(file, "", shape.parameters);
  topology.fabric = take_fabric(file, taker);
  shape.network = take_network(taker);
  model::Device host;
  take_host(taker, topology.fabric.gpus_per_node, host);
  const std::size_t constants = shape.parameters.size();
  shape.prices = take_prices(file, taker);
  shape.parameters.resize(constants);  // prices do not affect times
  if (auto error = taker.finish()) return tl::unexpected(*error);
  vary(variation, file.text_or_empty("device"), topology.fabric.nic_bandwidth * 8 / 1e9, shape.prices);
  auto device = TRY(device_of(file, device_folder, bases, variation, shape.parameters));
  shape.device = device.device;
  shape.device.host_memory = host.host_memory;
  shape.device.host_gpus = host.host_gpus;
  apply(variation, topology.fabric, shape.parameters);
  const FabricShape& fabric = topology.fabric;
  shape.gpus_per_node = fabric.gpus_per_node;
  shape.gpus = variation.gpus > 0 ? variation.gpus : fabric.gpus_per_node;
  shape.intra_node_bandwidth = model::BytesPerSecond(fabric.gpu_bandwidth);
  shape.nics_per_node = fabric.nics;
  shape.nic_bandwidth = model::BytesPerSecond(fabric.nic_bandwidth);
  if (auto error = find_fault(fabric, shape.gpus)) return tl::unexpected(at_its_place(*error, file, variation));
  shape.fabric = count_parts(*Fabric::outline(fabric, shape.gpus));
  return topology;
}

}  // namespace plumbline::topologies
