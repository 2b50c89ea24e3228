// Fits records that the cost functions made with known constants: the fit returns the constants, and the profile gives
// the times.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "calibrate/fit/profile_fit.h"
#include "model/base/units.h"
#include "model/cost/kernel_cost.h"
#include "model/cost/measured_operators.h"
#include "model/cost/work.h"
#include "model/layers/blocks.h"
#include "tests/support/costs.h"

namespace plumbline::calibrate {
namespace {

using model::Graph;
using model::Operator;

const std::map<std::string, double> gpu_truth = {{"gemm.ramp", 3},
                                                 {"gemm.fp8.wave_overhead", 0.4},
                                                 {"gemm.fp8.k_time", 3.4},
                                                 {"gemm.fp8_weight_gradient.wave_overhead", 0.7},
                                                 {"gemm.fp8_weight_gradient.k_time", 3.9},
                                                 {"memory.default.bandwidth", 2.6},
                                                 {"attention.forward_rate", 480},
                                                 {"attention.backward_rate", 350},
                                                 {"kernel.launch_gap", 1.5},
                                                 {"router.forward", 45},
                                                 {"router.backward", 25}};

model::Profile known_gpu() {
  const model::Profile base = tests::profile("generic-datasheet");
  std::vector<model::Parameter> parameters = base.parameters();
  for (const auto& [name, value] : gpu_truth) parameters[base.find(name).value()].value = value;
  return {"known", "", parameters};
}

class GpuFits : public testing::Test {
 protected:
  GpuFits() {
    for (const model::Precision precision : {model::Precision::fp8})
      for (const std::int64_t tokens : {1024, 2048, 4096, 8192}) {
        model::LayerContext context = tests::deepseek_rank(precision);
        context.tokens = context.sequence_length = tokens;
        layers_.push_back(make_block(model::BlockKind::moe_layer, context));
      }
    for (const Graph& layer : layers_)
      for (const Operator& op : layer.operators) add(layer, op);
  }

  // Gaps are part of the measured time: the next operator starts after them.
  void add(const Graph& layer, const Operator& op) {
    const model::OperatorClass type = operator_class(layer, op);
    if (type > model::OperatorClass::exchange) return;
    const bool all_to_all = type == model::OperatorClass::exchange;
    const double alone = all_to_all ? 2e-3 : cost_.time(layer, op, {.sms = 132}).seconds;
    record(layer, op, "in_step", all_to_all ? 20 : 0, alone);
    record(layer, op, "in_step_beside", 20, alone * (all_to_all ? 1.2 : slowdown_));
  }
  void record(const Graph& layer, const Operator& op, const std::string& variant, std::int64_t ctas, double seconds) {
    Measurement m;
    m.source = "a test";
    m.device = "NVIDIA H100 80GB HBM3";
    m.date = "2026-11-22T12:00:00Z";
    m.op = to_string(op.kind);
    m.phase = to_string(op.phase);
    m.case_line = operator_key(layer, op);
    m.variant = variant;
    m.sms = 132;
    m.communication_sms = ctas;
    m.target_sms = 0;
    m.time.p50 = seconds;
    m.bytes = bytes_moved(layer, op, 1).value();
    m.flops = flops(layer, op, 1, true).value();
    if (is_gemm(operator_class(layer, op))) {
      const model::GemmShape shape = gemm_shape(layer, op, 1);
      for (const auto& [name, extent] :
           {std::pair{"m", shape.m}, {"n", shape.n}, {"k", shape.k}, {"groups", shape.groups}})
        m.shape.emplace_back(name, static_cast<std::int64_t>(extent));
    }
    files_[0].values.push_back(m);
  }

  double value_of(const ProfileFit& fit, const std::string& name) const {
    for (const model::Parameter& parameter : fit.parameters)
      if (parameter.name == name) return parameter.value * model::si_unit(parameter.unit)->factor;
    ADD_FAILURE() << name;
    return 0;
  }
  double put_in(const std::string& name) const {
    const model::Parameter& parameter = profile_.parameters()[profile_.find(name).value()];
    return parameter.value * model::si_unit(parameter.unit)->factor;
  }

  static constexpr double slowdown_ = 1.4;
  const model::Profile profile_ = known_gpu(), base_ = tests::profile("generic-datasheet");
  const model::KernelCost cost_ = model::KernelCost::make(profile_, tests::h800_device()).value();
  std::vector<Graph> layers_;
  std::vector<Measurements> files_ = std::vector<Measurements>(1);
};

TEST_F(GpuFits, ConstantsComeBack) {
  const FitRecords records = fit_records(files_).value();
  EXPECT_EQ(records.machine, MachineKind::gpu);
  EXPECT_EQ(records.clock, "");
  const ProfileFit fit = fit_profile(records, base_, "a test");
  for (const char* name : {"gemm.fp8.k_time", "gemm.fp8_weight_gradient.k_time"})
    EXPECT_NEAR(value_of(fit, name) / put_in(name), 1, 0.03) << name;
  for (const char* name : {"attention.forward_rate", "attention.backward_rate"})
    EXPECT_NEAR(value_of(fit, name) / put_in(name), 1, 0.03) << name;
  EXPECT_NEAR(value_of(fit, "memory.default.bandwidth") / put_in("memory.default.bandwidth"), 1, 0.1);
  EXPECT_NEAR(value_of(fit, "router.forward") / put_in("router.forward"), 1, 0.01);
  EXPECT_EQ(value_of(fit, "kernel.launch_gap"), 0);
  // 112 of 132 SMs are left, which takes 132/112 as long without any slowdown.
  EXPECT_NEAR(value_of(fit, "gemm.slowdown_beside_transfer"), slowdown_ * 112 / 132, 1e-3);
}

TEST_F(GpuFits, EveryOperatorHasItsTimeAloneAndOverlapped) {
  std::vector<model::Parameter> parameters = base_.parameters();
  for (const model::Parameter& parameter : fit_profile(fit_records(files_).value(), base_, "a test").parameters) {
    std::erase_if(parameters, [&](const model::Parameter& old) { return old.name == parameter.name; });
    parameters.push_back(parameter);
  }
  const model::KernelCost cost =
      model::KernelCost::make(model::Profile("fitted", "", parameters), tests::h800_device()).value();
  const model::Conditions overlapped{.sms = 132, .held = 20, .co_runner = model::CoRunner::transferring};
  for (const Graph& layer : layers_)
    for (const Operator& op : layer.operators) {
      if (operator_class(layer, op) >= model::OperatorClass::exchange) continue;
      const double alone = cost_.time(layer, op, {.sms = 132}).seconds;
      EXPECT_NEAR(cost.time(layer, op, {.sms = 132}).seconds / alone, 1, 1e-4) << op.name;
      EXPECT_NEAR(cost.time(layer, op, overlapped).seconds / alone, slowdown_, 1e-4) << op.name;
    }
}

TEST_F(GpuFits, GemmsLaunchedOnFewerSmsAreThoseOfThatWidth) {
  for (Measurement& m : files_[0].values) m.target_sms = 112;
  const FitRecords records = fit_records(files_).value();
  for (const FitRecord& record : records.gemms) EXPECT_EQ(record.cores, 112);
  for (const FitRecord& record : records.memory) EXPECT_EQ(record.cores, 132);
  for (const FitRecord& record : records.overlapped) EXPECT_EQ(record.cores, 112);
  for (const FitRecord& record : records.together) EXPECT_EQ(record.cores, 20);
}

TEST_F(GpuFits, RecordsOfAHostDoNotBelongToThem) {
  files_[0].values.front().variant = "wall";
  EXPECT_FALSE(fit_records(files_));
}

}  // namespace
}  // namespace plumbline::calibrate
