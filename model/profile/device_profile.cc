#include "model/profile/device_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "model/base/data_type.h"
#include "model/base/units.h"
#include "model/profile/constant_rules.h"

namespace plumbline::model {
namespace {

constexpr std::string_view gemm_prefix = "gemm.", k_time = ".k_time";
constexpr std::size_t most_named = 3;
// Multiplications per pair of the widest heads, where the share of the time per pair is least: (dk + dv) forward,
// (3 dk + 2 dv) backward, at 256 each.
constexpr double widest_forward = 512, widest_backward = 1280;

Result<void> check_constants(const Profile& profile) {
  const std::vector<Parameter>& constants = profile.parameters();
  for (const Parameter& constant : constants) TRY(check_constant(constant));
  const auto twice = std::ranges::adjacent_find(constants, {}, &Parameter::name);
  if (twice == constants.end()) return {};
  return wrong_input(twice->name, fmt::format("profile '{}' has it twice", profile.name()), "remove one");
}

// Limits the constants of one profile to what a device can do.
class Capping {
 public:
  Capping(const Profile& profile, const Device& device)
      : profile_(profile), device_(device), constants_(profile.parameters()) {}

  void run() {
    if (!profile_.devices().empty())
      std::erase_if(constants_, [](const Parameter& constant) { return constant.name.starts_with(measured_prefix); });
    for (Parameter& constant : constants_) cap(constant);
  }

  bool leaves_out() const { return constants_.size() < profile_.parameters().size(); }
  const std::vector<std::string>& capped() const { return capped_; }
  std::vector<Parameter> take() { return std::move(constants_); }

 private:
  // Returns the SI value of the first of the names that the profile has; all of them have one or the fallback.
  double value(std::initializer_list<std::string> names, double fallback) const {
    for (const std::string& name : names)
      if (const auto index = profile_.find(name)) {
        const Parameter& constant = profile_.parameters()[*index];
        return constant.value * si_unit(constant.unit)->factor;
      }
    return fallback;
  }

  void cap(Parameter& constant) {
    const std::string_view name = constant.name;
    if (name.starts_with(gemm_prefix) && name.ends_with(k_time)) {
      cap_gemm(constant);
    } else if (name.starts_with("attention.") &&
               (name.ends_with(".forward_rate") || name.ends_with(".backward_rate"))) {
      cap_attention(constant);
    } else if (name == "gemm.output_bandwidth" || name.ends_with("memory_bandwidth") ||
               name.ends_with("kv_bandwidth") || (name.starts_with("memory.") && name.ends_with(".bandwidth"))) {
      if (!name.starts_with("host.")) at_most(constant, device_.memory_bandwidth.value(), "memory bandwidth");
    }
  }

  void cap_gemm(Parameter& constant) {
    const std::string_view name = constant.name;
    const std::string kind(name.substr(gemm_prefix.size(), name.size() - gemm_prefix.size() - k_time.size()));
    const std::string format = kind.substr(0, kind.find("_weight_gradient"));
    const Result<Precision> precision = parse_precision(format);
    const double peak = precision ? model::peak(device_, *precision) : 0;
    if (peak == 0) return;
    const auto side = [&](const char* which) {
      return value({fmt::format("gemm.{}.{}", kind, which), fmt::format("gemm.{}.{}", format, which), "gemm.tile"}, 1);
    };
    const double least = 2 * side("tile_m") * side("tile_n") * static_cast<double>(device_.sms) / peak;
    const double factor = si_unit(constant.unit)->factor;
    if (constant.value * factor < least) replace(constant, least / factor, fmt::format("{} peak", format));
  }

  // Where a profile states a time per pair, the rate is that of the GEMMs, which alone may exceed the peak: the two
  // together may not.
  void cap_attention(Parameter& constant) {
    const bool forward = constant.name.ends_with("forward_rate");
    const std::string kernel = constant.name.substr(0, constant.name.rfind('.'));
    const double share = value({"attention.reference_sms"}, 1) / static_cast<double>(device_.sms);
    const double pair = value({fmt::format("{}.{}.pair_time", kernel, forward ? "forward" : "backward")}, 0);
    const double least =
        1 / (device_.bf16_peak.value() * share) - pair / (2 * (forward ? widest_forward : widest_backward));
    if (least > 0) at_most(constant, 1 / least, "BF16 peak");
  }

  void at_most(Parameter& constant, double limit, std::string_view what) {
    const double factor = si_unit(constant.unit)->factor;
    if (limit > 0 && constant.value * factor > limit) replace(constant, limit / factor, what);
  }

  void replace(Parameter& constant, double value, std::string_view what) {
    constant.source = fmt::format("{} of {}; {} {} of profile {} is beyond it: {}", what, device_.name, constant.value,
                                  constant.unit, profile_.name(), constant.source);
    constant.value = value;
    constant.kind = Evidence::assumed;
    constant.relative_uncertainty.reset();
    constant.low = constant.high = std::nullopt;
    capped_.push_back(constant.name);
  }

  const Profile& profile_;
  const Device& device_;
  std::vector<Parameter> constants_;
  std::vector<std::string> capped_;
};

std::string first_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most_named); ++i) text += (i > 0 ? ", " : "") + names[i];
  return names.size() > most_named ? fmt::format("{} and {} more", text, names.size() - most_named) : text;
}

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

Result<DeviceProfile> profile_on(const Profile& profile, const Device& device) {
  TRY(check_constants(profile));
  const std::vector<std::string>& devices = profile.devices();
  if (std::ranges::find(devices, device.name) != devices.end()) return DeviceProfile{profile, true, {}};
  Capping capping(profile, device);
  capping.run();
  DeviceProfile result;
  if (!devices.empty())
    result.warnings.push_back(
        fmt::format("profile {} holds for {}, not for {}", profile.name(), fmt::join(devices, ", "), device.name));
  if (const std::size_t count = capping.capped().size(); count > 0)
    result.warnings.push_back(
        fmt::format("{} cannot reach {} constant{} of profile {}: its datasheet's rates replace {}", device.name, count,
                    count == 1 ? "" : "s", profile.name(), first_of(capping.capped())));
  if (capping.leaves_out())
    result.warnings.push_back(
        fmt::format("operators that profile {} has as measured were not measured on {}: "
                    "they take the formulas",
                    profile.name(), device.name));
  result.profile =
      Profile(profile.name(), profile.description(), capping.take(), devices, profile.stack(), profile.fits());
  return result;
}

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
