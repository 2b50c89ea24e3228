#include "cli/inputs.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "cli/data.h"
#include "model/base/decimal.h"

namespace plumbline::cli {

namespace {

using model::Error;
using model::ErrorKind;
using model::Result;

constexpr std::string_view profile_prefix = "profile.";
constexpr std::string_view topology_prefix = "topology.";

// Errors about a changed constant stand where it was given.
Error at_override(Error error, std::string_view prefix) {
  error.file = "--set";
  error.key = std::string(prefix) + error.key;
  return error;
}

}  // namespace

Result<model::Profile> find_profile(const std::string& path_or_name, const std::string& plan_file) {
  std::error_code unreadable;
  const std::filesystem::path beside = std::filesystem::path(plan_file).parent_path() / path_or_name;
  const bool is_beside = !std::filesystem::is_regular_file(path_or_name, unreadable) &&
                         std::filesystem::is_regular_file(beside, unreadable);
  const Result<std::string> path = resolve_profile(is_beside ? beside.string() : path_or_name);
  if (!path) return tl::unexpected(path.error());
  const Result<std::string> data = data_folder();
  if (!data) return tl::unexpected(data.error());
  return model::load_profile(*path, *data + "/profiles");
}

Result<model::Plan> find_plan(const std::string& path_or_name, const std::vector<std::string>& overrides) {
  return resolve_plan(path_or_name).and_then([&](const std::string& path) {
    return model::load_plan(path, overrides);
  });
}

Result<topologies::Topology> find_topology(const std::string& path_or_name, const topologies::Variation& variation) {
  const Result<std::string> path = resolve_topology(path_or_name);
  if (!path) return tl::unexpected(path.error());
  const Result<std::string> devices = resolve_device_folder(*path);
  if (!devices) return tl::unexpected(devices.error());
  return topologies::load_topology(*path, *devices, variation);
}

Result<std::vector<topologies::KnownDevice>> known_devices() {
  return data_folder().and_then(
      [](const std::string& data) { return topologies::load_devices(data + "/topologies/devices"); });
}

Result<calibrate::Measurements> read_measurements(const std::string& path,
                                                  const std::vector<topologies::KnownDevice>& devices) {
  auto measurements = calibrate::load_measurements(path, devices);
  if (!measurements) return measurements;
  for (const std::string& note : measurements->notes) fmt::print(stderr, "note: {}: {}\n", path, note);
  return measurements;
}

Result<ConstantChanges> take_constant_changes(std::vector<std::string>& overrides) {
  ConstantChanges changes;
  std::vector<std::string> rest;
  for (std::string& text : overrides) {
    const bool of_profile = text.starts_with(profile_prefix), of_topology = text.starts_with(topology_prefix);
    if (!of_profile && !of_topology) {
      rest.push_back(std::move(text));
      continue;
    }
    const std::size_t equals = text.find('=');
    const std::string key = text.substr(0, equals);
    const auto number = equals == std::string::npos ? std::nullopt : model::parse_decimal(text.substr(equals + 1));
    if (!number)
      return tl::unexpected(Error{ErrorKind::input, fmt::format("expected {}=NUMBER, found '{}'", key, text), "--set",
                                  0, key, "in the constant's own unit; of a name with *, a factor"});
    const std::size_t prefix = (of_profile ? profile_prefix : topology_prefix).size();
    (of_profile ? changes.profile : changes.topology).push_back({key.substr(prefix), number->value()});
  }
  overrides = std::move(rest);
  return changes;
}

Result<model::Profile> InputsReader::profile_of(const model::Plan& plan, const std::string& name,
                                                const std::vector<model::ConstantChange>& changes) {
  const Result<model::Profile> profile =
      profiles_.find({name, plan.file}, [&] { return find_profile(name, plan.file); });
  if (!profile) return profile;
  return profile->with_changes(changes).map_error(
      [](const Error& error) { return at_override(error, profile_prefix); });
}

Result<topologies::Topology> InputsReader::topology_of(const model::Plan& plan,
                                                       const std::vector<model::ConstantChange>& changes) {
  topologies::Variation variation = topologies::variation_of(plan);
  variation.constants = changes;
  std::string key = fmt::format("{} {} {} {} {} {}", plan.cluster.topology, variation.gpus,
                                variation.device.value_or(""), variation.nics_per_node.value_or(-1),
                                variation.nic_gbps.value_or(-1), variation.oversubscription.value_or(-1));
  for (const model::ConstantChange& change : changes) key += fmt::format(" {}={}", change.name, change.value);
  return topologies_.find(key, [&] { return find_topology(plan.cluster.topology, variation); })
      .map_error([&](const Error& error) {
        const bool unknown_constant = error.file.empty() && !changes.empty() && error.key != "cluster.device";
        return unknown_constant ? at_override(error, topology_prefix) : error;
      });
}

Result<sim::Inputs> InputsReader::load(const std::string& plan_name, const std::vector<std::string>& overrides,
                                       const std::optional<std::string>& profile_name) {
  std::vector<std::string> plan_overrides = overrides;
  const Result<ConstantChanges> changes = take_constant_changes(plan_overrides);
  if (!changes) return tl::unexpected(changes.error());
  const Result<model::Plan> plan = find_plan(plan_name, plan_overrides);
  if (!plan) return tl::unexpected(plan.error());
  return of_plan(*plan, profile_name, *changes);
}

Result<sim::Inputs> InputsReader::of_plan(const model::Plan& plan, const std::optional<std::string>& profile_name,
                                          const ConstantChanges& changes) {
  const Result<std::string> config = resolve_model(plan.file, plan.model.config);
  if (!config) return tl::unexpected(config.error());
  Result<model::Architecture> architecture = model::load_architecture_of(plan, *config);
  if (!architecture) return tl::unexpected(architecture.error());
  Result<topologies::Topology> topology = topology_of(plan, changes.topology);
  if (!topology) return tl::unexpected(topology.error());
  const std::string named = profile_name.value_or(plan.cluster.profile.value_or(topology->cluster.default_profile));
  Result<model::Profile> profile = profile_of(plan, named, changes.profile);
  if (!profile) return tl::unexpected(profile.error());
  return sim::Inputs{plan,    std::move(*architecture),   std::move(topology->cluster), std::move(*profile),
                     nullptr, std::move(topology->fabric)};
}

}  // namespace plumbline::cli
