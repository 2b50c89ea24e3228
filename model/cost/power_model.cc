#include "model/cost/power_model.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <string_view>
#include <vector>

#include "model/cost/operator_class.h"
#include "model/cost/work.h"

namespace plumbline::model {

namespace {

struct EnergyKind {
  DataType operands;
  std::vector<std::string_view> names;  // of constants, the first that a profile has counts
};

// All others take that of BF16. A format without an energy of its own takes that of the next wider one, which is an
// upper estimate; FP32 and TF32 take that of BF16, which is a lower one.
std::vector<EnergyKind> kinds() {
  return {{DataType::fp32, {"fp32", "bf16"}},
          {DataType::tf32, {"fp32", "bf16"}},
          {DataType::fp8_tile, {"fp8", "bf16"}},
          {DataType::fp8_block, {"fp8", "bf16"}},
          {DataType::fp8, {"fp8_tensor", "fp8", "bf16"}},
          {DataType::mxfp8, {"mxfp8", "fp8", "bf16"}},
          {DataType::nvfp4, {"nvfp4", "fp8", "bf16"}},
          {DataType::mxfp4, {"mxfp4", "nvfp4", "fp8", "bf16"}}};
}

// Returns the energy of the first name that the profile has; BF16 is required.
double energy_of(ConstantReader& reader, const std::vector<std::string_view>& names, std::string_view suffix) {
  for (const std::string_view name : names)
    for (const std::string_view ending : {suffix, std::string_view()})
      if (const auto found = reader.find(fmt::format("power.gemm.{}{}.energy_per_flop", name, ending)))
        return found->value;
  return reader.require("power.gemm.bf16.energy_per_flop").value;
}

std::optional<Error> check(const PowerModel::Limit& limit, double idle) {
  if (!limit.given || *limit.given > idle) return std::nullopt;
  return Error{ErrorKind::infeasible,
               fmt::format("must be above the {:g} W of an idle GPU (power.idle), found {:g}", idle, *limit.given),
               "",
               0,
               "cluster.power_limit_w",
               "the device's usual limit is its tdp"};
}

}  // namespace

PowerWindow& PowerWindow::add(const PowerWindow& other, double times) {
  sm_seconds += times * other.sm_seconds;
  other_seconds += times * other.other_seconds;
  joules += times * other.joules;
  return *this;
}

double power_at(const PowerConstants& constants, const PowerWindow& window, double clock) {
  const double seconds = window.sm_seconds / clock + window.other_seconds;
  if (seconds <= 0) return constants.idle;
  return constants.idle + window.joules * std::pow(clock, constants.clock_exponent) / seconds;
}

double clock_under(const PowerConstants& constants, const PowerWindow& window, double limit_w) {
  constexpr int halvings = 50;
  const double limit = constants.limit_share * limit_w;
  if (power_at(constants, window, 1) <= limit) return 1;
  double low = lowest_clock, high = 1;
  for (int i = 0; i < halvings; ++i) {
    const double middle = (low + high) / 2;
    (power_at(constants, window, middle) <= limit ? low : high) = middle;
  }
  return low;
}

Result<std::optional<PowerModel>> PowerModel::make(const Profile& profile, const Limit& limit) {
  if (!profile.find("power.idle")) return std::optional<PowerModel>();
  ConstantReader reader(profile);
  PowerModel model;
  model.constants_ = {reader.require("power.idle").value, reader.value("power.limit_share", 1),
                      reader.value("power.clock_exponent")};
  const auto energy = [&reader](const std::vector<std::string_view>& names) {
    return Energy{energy_of(reader, names, ""), energy_of(reader, names, "_weight_gradient")};
  };
  model.gemm_.fill(energy({"bf16"}));
  for (const EnergyKind& kind : kinds()) model.gemm_[static_cast<std::size_t>(kind.operands)] = energy(kind.names);
  model.attention_ =
      reader.value("power.attention.energy_per_flop", model.gemm_[static_cast<std::size_t>(DataType::bf16)].forward);
  model.byte_ = reader.value("power.energy_per_byte");
  model.gemm_byte_ = reader.value("power.gemm.energy_per_byte", model.byte_);
  if (const auto limit_w = reader.find("power.reference_limit")) model.reference_limit_ = limit_w->value;
  model.exponent_ = limit.exponent;
  if (reader.error()) return tl::unexpected(*reader.error());
  if (auto error = check(limit, model.constants_.idle)) return tl::unexpected(*error);
  if (limit.usual > 0) model.usual_limit_ = limit.usual;
  model.limit_ = limit.given.value_or(model.usual_limit_);
  return std::optional(model);
}

PowerWindow PowerModel::window(const Graph& graph, const Operator& op, const KernelTime& time) const {
  const OperatorClass kind = operator_class(graph, op);
  const bool multiplies = is_gemm(kind) || kind == OperatorClass::attention;
  PowerWindow window;
  window.joules = (multiplies ? gemm_byte_ : byte_) * bytes_moved(graph, op, 1).value() * time.passes;
  if (!multiplies) {
    window.other_seconds = time.seconds;
    return window;
  }
  const Energy& energy = gemm_[static_cast<std::size_t>(graph.tensor(op.reads[0]).type)];
  const double of_gemm = op.phase == Phase::W ? energy.weight_gradient : energy.forward;
  window.sm_seconds = time.seconds - time.gaps;
  window.other_seconds = time.gaps;
  window.joules += flops(graph, op, 1, true).value() * (is_gemm(kind) ? of_gemm : attention_);
  return window;
}

PowerModel::State PowerModel::state(const PowerWindow& window) const {
  PowerConstants constants = constants_;
  PowerWindow work = window;
  double usual = 1;  // clock at the limit to which rates or energies belong
  if (reference_limit_ || exponent_)
    usual = clock_under(constants_, window, reference_limit_ ? *reference_limit_ : usual_limit_);
  if (exponent_) {
    work.joules *= std::pow(usual, constants_.clock_exponent - *exponent_);
    constants.clock_exponent = *exponent_;
  }
  const double clock = clock_under(constants, work, limit_);
  return {reference_limit_ ? clock / usual : clock, work.joules * std::pow(clock, constants.clock_exponent)};
}

double PowerModel::highest_clock() const {
  return reference_limit_ && limit_ > *reference_limit_ ? 1 / lowest_clock : 1;
}

}  // namespace plumbline::model
