#include "topologies/device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "model/base/data_type.h"
#include "model/base/parameter_file.h"
#include "model/base/text.h"
#include "model/base/text_file.h"
#include "model/graph/attributes.h"
#include "topologies/parameter_taker.h"

namespace plumbline::topologies {
namespace {

using model::UnitDimension;

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

}  // namespace plumbline::topologies
