#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "model/base/data_type.h"
#include "model/profile/constant_rules.h"
#include "model/profile/device_profile.h"

namespace plumbline::model {
namespace {

enum class Figure { sms, peak, memory, links };

// How a constant goes with the datasheet, and the relative standard deviation of that: of the shipped profiles whose
// constants are measured, the root mean square over all pairs (docs/profiles.md).
struct ScaleRule {
  std::string_view pattern;  // of names; the first that fits counts
  Figure figure;
  double uncertainty;
};
constexpr double of_memory = 0.25, of_links = 0.15, of_attention = 0.35, of_bf16 = 0.15, of_other_format = 0.4;
constexpr ScaleRule scale_rules[] = {
    {"gemm.*.k_time", Figure::peak, of_bf16},
    {"gemm.*small_m_rate", Figure::peak, 1},
    {"gemm.*small_m_row_time", Figure::memory, of_memory},
    {"gemm.*bandwidth", Figure::memory, of_memory},
    {"attention.*kv_bandwidth", Figure::memory, of_memory},
    {"attention.reference_sms", Figure::sms, 0},
    {"attention.*_rate", Figure::peak, of_attention},
    {"attention.*_time", Figure::sms, of_attention},
    {"cached_attention.*.bandwidth", Figure::memory, of_memory},
    {"cached_attention.*.rate", Figure::peak, of_attention},
    {"memory.*.bandwidth", Figure::memory, of_memory},
    {"memory.*.saturation_sms", Figure::sms, 0},
    {"collective.copy_bandwidth", Figure::memory, of_memory},
    {"collective.custom.*.rate", Figure::links, of_links},
    {"network.nvlink_rate", Figure::links, of_links},
    {"network.nic_rate", Figure::links, of_links},
    {"exchange.*nic_rate*", Figure::links, of_links},
    {"exchange.*link_rate", Figure::links, of_links},
    {"exchange.*local_rate", Figure::links, of_links},
};

const ScaleRule* rule_of(std::string_view name) {
  return std::ranges::find_if(scale_rules, [name](const ScaleRule& one) { return name_fits(name, one.pattern); });
}
bool is_time(std::string_view name) { return name.ends_with("_time"); }

struct Ratio {
  std::string of;
  double value = 1;
  double least_uncertainty = 0;
};

// Returns the ratio of the peaks of the format in a name such as gemm.fp8_weight_gradient.k_time; where one of the two
// datasheets has none, and for names without a format, that of BF16.
Ratio peak_ratio(const std::string& name, const Device& from, const Device& to) {
  const std::size_t first = name.find('.') + 1;
  const std::string word = name.substr(first, std::min(name.find('.', first), name.find("_weight_")) - first);
  const auto format = parse_precision(word);
  if (format && peak(from, *format) > 0 && peak(to, *format) > 0)
    return {fmt::format("peaks of {}", word), peak(to, *format) / peak(from, *format),
            *format == Precision::bf16 ? 0 : of_other_format};
  return {"peaks of bf16", to.bf16_peak.value() / from.bf16_peak.value()};
}

Ratio ratio_of(const ScaleRule& rule, const std::string& name, const Device& from, const Device& to) {
  const double sms = static_cast<double>(to.sms) / static_cast<double>(from.sms);
  if (rule.figure == Figure::sms) return {"SMs", sms};
  if (rule.figure == Figure::memory) return {"memory bandwidths", to.memory_bandwidth / from.memory_bandwidth};
  if (rule.figure == Figure::links) return {"links"};  // costs scale these by the cluster's line rates
  Ratio ratio = peak_ratio(name, from, to);
  if (!is_time(name)) return ratio;
  return {ratio.of + " per SM", ratio.value / sms, ratio.least_uncertainty};  // k_time is that of one SM
}

}  // namespace

Profile scaled_profile(const Profile& profile, const Device& from, const Device& to) {
  std::vector<Parameter> constants;
  std::map<std::string, std::vector<std::string>> shared;  // the error of a ratio is that of all its constants
  for (const Parameter& measured : profile.parameters()) {
    if (measured.name.starts_with(measured_prefix)) continue;
    Parameter& constant = constants.emplace_back(measured);
    const ScaleRule* const rule = rule_of(constant.name);
    if (rule == std::end(scale_rules)) continue;
    const Ratio ratio = ratio_of(*rule, constant.name, from, to);
    const double by = is_time(constant.name) ? 1 / ratio.value : ratio.value;
    constant.source = fmt::format("transferred from {} ({} {}, {}) by {}, times {:.4g}: {}", from.name, constant.value,
                                  constant.unit, to_string(constant.kind), ratio.of, by, constant.source);
    constant.value *= by;
    constant.kind = Evidence::assumed;
    constant.low = constant.high = std::nullopt;
    const double transfer = std::max(rule->uncertainty, ratio.least_uncertainty);
    if (transfer == 0) continue;
    constant.relative_uncertainty = std::hypot(constant.relative_uncertainty.value_or(0), transfer);
    shared[fmt::format("{} {}", ratio.of, transfer)].push_back(constant.name);
  }
  std::vector<ConstantFit> fits =
      kept(profile.fits(), [](const auto& name) { return rule_of(name) == std::end(scale_rules); });
  for (auto& [ratio, names] : shared)
    if (names.size() > 1) fits.push_back({{std::move(names)}, {}});
  return {"scaled:" + profile.name(),
          fmt::format("{} by the ratios of the datasheets of {} and {}", profile.name(), to.name, from.name),
          std::move(constants),
          {to.name},
          profile.stack(),
          std::move(fits)};
}

}  // namespace plumbline::model
