#include "calibrate/fit/profile_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "calibrate/fit/detail/constant_list.h"
#include "calibrate/fit/detail/gpu_records.h"
#include "model/base/text.h"
#include "model/cost/measured_operators.h"

namespace plumbline::calibrate {
namespace {

using model::toml_string;

// Returns "[a, b]" of texts or numbers.
std::string list(const auto& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }

std::vector<std::string> quoted(const std::vector<std::string>& texts) {
  std::vector<std::string> all;
  for (const std::string& text : texts) all.push_back(toml_string(text));
  return all;
}

std::string entry(std::string_view key, const model::Parameter& p) {
  const std::string uncertainty =
      p.relative_uncertainty ? fmt::format(", uncertainty = {}", *p.relative_uncertainty) : "";
  const std::string rows = p.rows.empty() ? "" : fmt::format(", rows = {}", list(quoted(p.rows)));
  return fmt::format("{} = {{ value = {}, unit = {}, kind = {}, source = {}{}{} }}\n", key, p.value,
                     toml_string(p.unit), toml_string(to_string(p.kind)), toml_string(p.source), uncertainty, rows);
}

std::string fit_text(const model::ConstantFit& fit) {
  std::vector<std::string> entries, rows;
  for (const std::vector<std::string>& entry : fit.constants) {
    const std::vector<std::string> names = quoted(entry);
    entries.push_back(names.size() == 1 ? names.front() : list(names));
  }
  for (const std::vector<double>& row : fit.correlation) rows.push_back(list(row));
  const std::string constants =
      entries.size() == 1 ? entries.front() : fmt::format("\n  {},\n", fmt::join(entries, ",\n  "));
  return fmt::format("\n[[fit]]\nconstants = [{}]\n{}", constants,
                     rows.empty() ? "" : fmt::format("correlation = {}\n", list(rows)));
}

struct Ratios {
  std::vector<double> values;         // measured over predicted
  double seconds = 0, uncertain = 0;  // predicted; and as much as its constants may be off
};

// Returns the value at that share of the sorted ones.
double at_share(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(std::lround(share * static_cast<double>(sorted.size() - 1)))];
}

ComparedFamily summary(const std::string& name, Ratios& ratios) {
  constexpr double tenth = 0.1, unstated = 0.1;
  std::ranges::sort(ratios.values);
  const double stated = ratios.uncertain / ratios.seconds;
  return {.name = name,
          .records = ratios.values.size(),
          .median = at_share(ratios.values, 0.5),
          .low = at_share(ratios.values, tenth),
          .high = at_share(ratios.values, 1 - tenth),
          .allowed = stated > 0 ? std::max(stated, between_gpus) : unstated,
          .stated = stated > 0};
}

}  // namespace

// Adds operators; one that was measured several times gets the median of its times.
void add_measured_operators(const FitRecords& records, ConstantList& constants, ProfileFit& result) {
  using model::MeasuredOperators;
  const bool gpu = records.machine == MachineKind::gpu;
  std::map<std::pair<std::string, MeasuredOperators::Place>, std::vector<const FitRecord*>> operators;
  const auto add = [&operators](const std::vector<FitRecord>& of_class, bool overlapped) {
    for (const FitRecord& record : of_class)
      if (!record.key.empty()) operators[{record.key, {record.cores, overlapped}}].push_back(&record);
  };
  for (const auto* of_class :
       {&records.gemms, &records.attention, &records.memory, &records.divided, &records.routers, &records.together})
    add(*of_class, false);
  if (gpu) {
    add(records.overlapped, true);
    add(records.together_overlapped, true);
  }
  for (auto& [name, found] : operators) {
    const auto middle = found.begin() + static_cast<std::ptrdiff_t>(found.size() / 2);
    std::ranges::nth_element(found, middle, {}, &FitRecord::seconds);
    const double spread = relative_spread(*(*middle)->measurement);
    const auto unit = gpu ? MeasuredOperators::Unit::sms : MeasuredOperators::Unit::cores;
    constants.add(MeasuredOperators::name(name.first, name.second, unit), (*middle)->seconds,
                  spread > 0 ? std::optional(spread) : std::nullopt, model::Evidence::measured, "mean of its samples",
                  "kernel.shortest");
  }
  result.measured_operators = operators.size();
}

ProfileFit fit_profile(const FitRecords& records, const model::Profile& base, const std::string& source) {
  ProfileFit result;
  result.notes = records.notes;
  if (const std::size_t few = records.small_gemms.size(); few > 0)
    result.notes.push_back(
        fmt::format("no constant uses {} record{} of gemm: few rows, whose constants come from tables of inference",
                    few, few == 1 ? "" : "s"));
  ConstantList constants(base, source);
  fit_memory(records, constants, result);
  if (records.machine == MachineKind::gpu)
    fit_tile_gemms(records, constants, result);
  else
    fit_core_gemms(records, constants, result);
  fit_attention(records, constants, result);
  fit_single_times(records, constants, result);
  fit_interference(records, constants, result);
  fit_transfers(records, constants, result);
  add_measured_operators(records, constants, result);
  result.parameters = constants.take();
  return result;
}

std::string profile_text(const ProfileHeading& heading, std::vector<model::Parameter> parameters,
                         const std::vector<model::ConstantFit>& fits) {
  const auto section_of = [](const std::string& of) { return of.substr(0, of.rfind('.')); };
  std::ranges::sort(parameters, {}, [&](const model::Parameter& p) { return std::pair(section_of(p.name), p.name); });
  std::string text;
  for (const std::string& line : heading.about) text += fmt::format("# {}\n", line);
  text += fmt::format("name = {}\ndescription = {}\nextends = {}\n", toml_string(heading.name),
                      toml_string(heading.description), toml_string(heading.extends));
  if (!heading.devices.empty()) text += fmt::format("devices = {}\n", list(quoted(heading.devices)));
  if (!heading.stack.empty()) text += fmt::format("stack = {}\n", toml_string(heading.stack));
  std::string section;
  for (const model::Parameter& parameter : parameters) {
    const std::string own = section_of(parameter.name);
    if (own != section) text += fmt::format("\n[{}]\n", own);
    section = own;
    text += entry(std::string_view(parameter.name).substr(own.size() + 1), parameter);
  }
  for (const model::ConstantFit& fit : fits) text += fit_text(fit);
  return text;
}

model::Result<GpuComparison> compare_gpu(const FitRecords& records, const model::Profile& profile,
                                         const model::Device& device) {
  const GpuRecords gpu(records, device);
  const auto predicted = TRY(gpu.predict(profile));
  std::map<std::string, Ratios> families;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    if (predicted[i].seconds <= 0) continue;
    Ratios& ratios = families[gpu.all()[i].family];
    ratios.values.push_back(gpu.all()[i].seconds / predicted[i].seconds);
    ratios.seconds += predicted[i].seconds;
    ratios.uncertain += predicted[i].uncertain;
  }
  GpuComparison comparison{profile.name(), {}};
  for (auto& [name, ratios] : families) comparison.families.push_back(summary(name, ratios));
  return comparison;
}

}  // namespace plumbline::calibrate
