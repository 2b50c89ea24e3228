// Collectives compared with published curves: three constants are fitted to every second size of a curve, and the sizes
// between them are predicted. The other constants are NCCL's own.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/costs.h"
#include "tests/support/nccl_fit.h"

namespace plumbline::tests {
namespace {

// Links of the measured machine in GB/s per GPU and direction.
struct Machine {
  const char* curve;
  const char* profile;
  double nvlink, nic;
  bool nvls;
};

void PrintTo(const Machine& machine, std::ostream* out) { *out << machine.curve; }

model::ClusterShape cluster_of(const Machine& machine, const model::CollectiveGroup& group) {
  model::ClusterShape cluster;
  cluster.gpus = group.ranks;
  cluster.gpus_per_node = cluster.nics_per_node = 8;
  cluster.intra_node_bandwidth = model::BytesPerSecond(machine.nvlink * 1e9);
  cluster.nic_bandwidth = model::BytesPerSecond(machine.nic * 1e9);
  return cluster;
}

// Returns the shipped profile, with or without the sums in the switch of the measured software.
model::Profile profile_of(const Machine& machine) {
  const model::Profile base = profile(shipped_profile(machine.profile));
  std::vector<model::Parameter> parameters = base.parameters();
  parameters[base.find("collective.nvls.available").value()].value = machine.nvls;
  return {base.name(), base.description(), parameters};
}

class NcclCurves : public testing::TestWithParam<Machine> {};

TEST_P(NcclCurves, HeldOutSizes) {
  const Machine machine = GetParam();
  const auto curves = read_collective_curves(shipped("calibrate/published/nccl_curves.csv")).value();
  const auto curve = std::ranges::find(curves, machine.curve, &CollectiveCurve::name);
  ASSERT_NE(curve, curves.end());
  const auto fit =
      fit_curve(*curve, profile_of(machine), cluster_of(machine, curve->group), constants_to_fit(*curve, machine.nvls));
  ASSERT_TRUE(fit) << to_string(fit.error());
  fmt::print("{}: held out: median error {:.1f} %, largest {:.1f} %; fitted to: median {:.1f} %\n", machine.curve,
             fit->median_error(true) * 100, fit->largest_error(true) * 100, fit->median_error(false) * 100);
  for (const model::Parameter& p : fit->fitted) fmt::print("  {} = {:.4g} {}\n", p.name, p.value, p.unit);
  for (const auto& row : fit->rows)
    if (row.held_out)
      fmt::print("  {:>12.0f} B  measured {:>10.1f} us  predicted {:>10.1f} us  {:+6.1f} %\n", row.bytes,
                 row.measured * 1e6, row.predicted * 1e6, row.error() * 100);
  EXPECT_LE(fit->median_error(true), 0.15);
}

// NIC rates: eight 400 Gb/s per node (p5); four 100 Gb/s per node for eight GPUs (p4de).
INSTANTIATE_TEST_SUITE_P(
    Published, NcclCurves,
    testing::Values(Machine{"mleng_a100x8", "a100-datasheet", 300, 25, false},
                    Machine{"vtrain_a100_4gpu", "a100-datasheet", 300, 25, false},
                    Machine{"vtrain_a100_8gpu", "a100-datasheet", 300, 25, false},
                    Machine{"vidur_h100dgx_all_reduce_4w_4pernode", "generic-datasheet", 450, 50, false},
                    Machine{"vidur_h100dgx_all_reduce_8w_8pernode", "generic-datasheet", 450, 50, false},
                    Machine{"mleng_h200x8", "generic-datasheet", 450, 50, true},
                    Machine{"mleng_b200x8", "b200-datasheet", 900, 50, true},
                    Machine{"aws_p4de_2x8", "a100-datasheet", 300, 6.25, false},
                    Machine{"aws_p5_2x8", "generic-datasheet", 450, 50, true}),
    [](const auto& instance) { return std::string(instance.param.curve); });

}  // namespace
}  // namespace plumbline::tests
