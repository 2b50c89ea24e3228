#include "model/profile/device_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/base/data_type.h"
#include "model/base/si_unit.h"
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

}  // namespace plumbline::model
