#include "topologies/topology.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "model/base/data_type.h"
#include "model/base/text.h"
#include "model/base/text_file.h"
#include "model/economics/prices.h"
#include "model/graph/attributes.h"
#include "model/plan/plan.h"

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

namespace {

bool same_name(std::string_view a, std::string_view b) { return model::lower_case(a) == model::lower_case(b); }

// A missing entry reserves nothing.
void take_reserve(const model::ParameterFile& file, ParameterTaker& taker, model::MemoryReserve& reserve) {
  const auto bytes = [&](std::string_view name, model::Bytes& value) {
    if (file.number(name) != nullptr) value = model::Bytes(taker.take(name, UnitDimension::bytes, true));
  };
  bytes("reserve.context", reserve.context);
  bytes("reserve.matmul_workspace", reserve.matmul_workspace);
  bytes("reserve.communicator", reserve.communicator);
  bytes("reserve.exchange", reserve.all_to_all);
  constexpr std::string_view fragmentation = "reserve.fragmentation";
  if (file.number(fragmentation) != nullptr) reserve.fragmentation = taker.ratio(fragmentation);
}

}  // namespace

model::Result<KnownDevice> load_device(const std::string& folder, const std::string& name,
                                       std::vector<model::Parameter>& parameters,
                                       const std::vector<model::ConstantChange>& changes, const std::string& shipped) {
  const auto file_in = [&name](const std::string& devices) {
    return (std::filesystem::path(devices) / (name + ".toml")).string();
  };
  const bool is_path = name.ends_with(".toml");
  std::error_code ignored;
  std::string path = is_path ? name : file_in(folder);
  if (!is_path && !std::filesystem::exists(path, ignored) && !shipped.empty()) path = file_in(shipped);
  if (!is_path && !std::filesystem::exists(path, ignored)) {
    std::vector<std::string> names = model::names_in_folder(folder, ".toml");
    for (std::string& other : model::names_in_folder(shipped, ".toml"))
      if (std::ranges::find(names, other) == names.end()) names.push_back(std::move(other));
    return model::wrong_input("cluster.device", fmt::format("no device named '{}' in {}", name, folder),
                              model::known_names(name, names));
  }
  auto file =
      model::joined(TRY(model::read_chain(path, shipped, {.what = "device", .list_keys = {"aliases", "lacks"}})));
  for (const model::ConstantChange& change : changes) {
    if (auto done = model::apply_change(change, model::constants_of(file)); !done) {
      model::Error error = done.error();
      error.key = "device." + error.key;
      return tl::unexpected(error);
    }
  }
  ParameterTaker taker(file, "device.", parameters);
  KnownDevice known;
  known.device.name = file.name();
  known.device.sms = taker.count("sms");
  known.device.sm = {static_cast<double>(taker.count("threads_per_sm")),
                     static_cast<double>(taker.count("registers_per_sm")),
                     taker.take("shared_memory_per_sm", UnitDimension::bytes)};
  known.device.bf16_peak = model::FlopsPerSecond(taker.take("bf16_peak", UnitDimension::flops_per_second));
  known.device.fp8_peak = model::FlopsPerSecond(taker.take("fp8_peak", UnitDimension::flops_per_second, true));
  if (file.number("tf32_peak") != nullptr)
    known.device.tf32_peak = model::FlopsPerSecond(taker.take("tf32_peak", UnitDimension::flops_per_second));
  if (file.number("nvfp4_peak") != nullptr)
    known.device.nvfp4_peak = model::FlopsPerSecond(taker.take("nvfp4_peak", UnitDimension::flops_per_second, true));
  known.device.memory_bandwidth =
      model::BytesPerSecond(taker.take("memory_bandwidth", UnitDimension::bytes_per_second));
  known.device.memory = model::Bytes(taker.take("memory", UnitDimension::bytes));
  if (file.number("host_bandwidth") != nullptr)
    known.device.host_bandwidth = model::BytesPerSecond(taker.take("host_bandwidth", UnitDimension::bytes_per_second));
  if (file.number("tdp") != nullptr) known.device.tdp = taker.take("tdp", UnitDimension::watts);
  take_reserve(file, taker, known.device.reserve);
  if (auto error = taker.finish()) return tl::unexpected(*error);
  known.aliases = file.values("aliases");
  known.device.lacks = file.values("lacks");
  for (const auto& text : file.texts) {
    if (text.key != "lacks") continue;
    std::vector<std::string> words = model::attention_kernels();
    if (std::ranges::find(words, text.value) == words.end() && !model::parse_precision(text.value))
      return model::wrong_input_at(
          text.path, text.line, "lacks", fmt::format("'{}' is neither a kernel of attention nor a format", text.value),
          fmt::format("kernels: {}; formats: {}", fmt::join(words, ", "), model::precision_names()));
  }
  return known;
}

model::Result<std::vector<KnownDevice>> load_devices(const std::string& folder) {
  std::vector<KnownDevice> devices;
  for (const std::string& name : model::names_in_folder(folder, ".toml")) {
    std::vector<model::Parameter> parameters;
    devices.push_back(TRY(load_device(folder, name, parameters)));
  }
  return devices;
}

const model::Device* find_device(const std::vector<KnownDevice>& devices, std::string_view name) {
  for (const KnownDevice& known : devices) {
    const bool alias = std::ranges::any_of(known.aliases, [&](const std::string& a) { return same_name(a, name); });
    if (alias || same_name(known.device.name, name)) return &known.device;
  }
  return nullptr;
}

namespace {

// In SI, far from any hardware: what lies beyond makes times infinite.
struct Range {
  double low = 0, high = 1e15;
};

Range range_of(UnitDimension dimension, double longest_s) {
  switch (dimension) {
    case UnitDimension::count:
      return {0, 1e9};
    case UnitDimension::seconds:
      return {0, longest_s};
    case UnitDimension::bytes_per_second:
      return {1e3, 1e18};
    case UnitDimension::flops_per_second:
      return {1e6, 1e21};
    case UnitDimension::bytes:
      return {0, 1e18};
    default:
      return {};
  }
}

}  // namespace

double ParameterTaker::take(std::string_view name, UnitDimension dimension, bool may_be_zero) {
  return take(name, dimension, may_be_zero, dimension == UnitDimension::count);
}

double ParameterTaker::ratio(std::string_view name, double least, double most) {
  const double value = take(name, UnitDimension::count, false, false);
  if (value >= least && value <= most) return value;
  fail(name, fmt::format("{} is out of range", value), fmt::format("a value from {} to {} is expected", least, most));
  return 1;
}

double ParameterTaker::amount(std::string_view name, UnitDimension dimension, std::optional<double> fallback) {
  return !fallback || has(name) ? take(name, dimension, true, false) : *fallback;
}

double ParameterTaker::take(std::string_view name, UnitDimension dimension, bool may_be_zero, bool whole) {
  const model::ParameterFile::Number* number = file_.number(name);
  taken_.emplace_back(name);
  if (number == nullptr) {
    missing_.emplace_back(name);
    return 1;
  }
  const model::Parameter& parameter = number->parameter;
  const auto unit = model::si_unit(parameter.unit);
  if (!unit) {
    fail(name, unit.error().message, unit.error().hint);
    return 1;
  }
  if (unit->dimension != dimension) {
    fail(name,
         fmt::format("unit '{}' gives {}, expected {}", parameter.unit, to_string(unit->dimension),
                     to_string(dimension)),
         "");
    return 1;
  }
  const double value = parameter.value * unit->factor;
  const Range range = range_of(dimension, longest_s_);
  const bool in_range = (may_be_zero && value == 0) || (value > 0 && value >= range.low && value <= range.high);
  const bool not_a_count = whole && value != std::floor(value);
  if (!in_range || not_a_count) {
    const std::string in_unit = dimension == UnitDimension::count ? "" : " " + parameter.unit;
    fail(name, fmt::format("{}{} is out of range", parameter.value, in_unit),
         in_range ? "a count is a whole number"
                  : fmt::format("a value {} up to {:.6g}{} is expected", may_be_zero ? "from 0" : "above 0",
                                range.high / unit->factor, in_unit));
    return 1;
  }
  parameters_.push_back(parameter);
  parameters_.back().name = prefix_ + std::string(name);
  return value;
}

std::int64_t ParameterTaker::count(std::string_view name, bool may_be_zero) {
  return static_cast<std::int64_t>(take(name, UnitDimension::count, may_be_zero));
}

std::optional<model::Error> ParameterTaker::finish() {
  if (!missing_.empty())
    fail(missing_.front(),
         missing_.size() == 1 ? "required entry is missing"
                              : fmt::format("required entries are missing: {}", fmt::join(missing_, ", ")),
         "write each as { value, unit, kind, source }");
  for (const model::ParameterFile::Number& number : file_.numbers) {
    if (std::ranges::find(taken_, number.parameter.name) != taken_.end()) continue;
    fail(number.parameter.name, "unknown entry", model::did_you_mean(number.parameter.name, taken_));
  }
  return error_;
}

void ParameterTaker::fail(std::string_view name, std::string message, std::string hint) {
  if (error_) return;
  const model::ParameterFile::Number* number = file_.number(name);
  error_ = model::Error{model::ErrorKind::input,
                        std::move(message),
                        number == nullptr ? file_.path : number->path,
                        number == nullptr ? 0 : number->line,
                        std::string(name),
                        std::move(hint)};
}

}  // namespace plumbline::topologies
