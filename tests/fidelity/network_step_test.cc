// Whole steps on the two event loops: equal where no link is shared, slower where links are shared, loaded or broken.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/predict/simulate.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

using tests::deepseek_plan;
using tests::wired_inputs;

double on_heap(const Inputs& inputs) { return simulate(inputs, Fidelity::step, false).value().result.step.time_s; }
double on_network(const Inputs& inputs, const std::vector<NamedLinkChange>& changes = {}) {
  return simulate_on_network(inputs, false, changes).value().result.step.time_s;
}
const std::vector<std::string> apart = {"overlap.gradient_reduce=false", "overlap.parameter_gather=false"};
double deepseek(const std::vector<std::string>& overrides) {
  return on_network(wired_inputs(deepseek_plan, "h800", overrides));
}

// DualPipe's transfers run between its slots and its all-to-alls inside them, and reductions and gathers after all
// slots: no two share a link.
TEST(NetworkStep, BothLoopsAgreeWhereNothingIsShared) {
  const Inputs inputs = wired_inputs(deepseek_plan, "h800", apart);
  const double expected = on_heap(inputs);
  EXPECT_NEAR(on_network(inputs), expected, 1e-9 * expected);
  EXPECT_NEAR(on_network(inputs), expected, 1e-9 * expected);  // again in this process: no drift
}

// Only the links of the rank's own GPU and the most loaded one matter; those of the other ranks carry no more.
TEST(NetworkStep, OneGpuStandsForItsGroup) {
  Inputs inputs = wired_inputs(deepseek_plan, "h800", {"batch.global_batch_size=4096"});
  const double one = on_network(inputs);
  inputs.every_link = true;
  EXPECT_NEAR(on_network(inputs), one, 1e-9 * one);
}

// Without the wiring the cost functions alone give the times: a non-blocking network is faster than any kernel on it,
// where nothing else is on it.
TEST(NetworkStep, ANetworkThatNeverBlocksChangesNothing) {
  const Inputs wired = wired_inputs(deepseek_plan, "h800", apart);
  Inputs plain = wired;
  plain.fabric.reset();
  EXPECT_NEAR(on_heap(wired), on_heap(plain), 1e-6 * on_heap(plain));
}

// Eager schedules send concurrently with all-to-alls, so both share the NIC.
TEST(NetworkStep, SharingNeverHelps) {
  const Inputs inputs = wired_inputs(deepseek_plan, "h800", {"schedule.kind=1f1b", "batch.global_batch_size=4096"});
  EXPECT_GE(on_network(inputs), on_heap(inputs) * (1 - 1e-9));
}

// Planes and rails differ in the switches that they share, but not for DeepSeek-V3's traffic: 19.926 and 19.946 s are
// published (arXiv 2505.09343 Table 4), 0.1 % apart.
TEST(NetworkStep, PlanesAndRailsAreEqual) {
  const double planes = deepseek({});
  EXPECT_NEAR(deepseek({"cluster.topology=h800-multi-rail"}) / planes, 1, 0.01);
}

TEST(NetworkStep, ASlowNetworkShows) {
  const double whole = deepseek({});
  EXPECT_GT(deepseek({"cluster.nic_gbps=200"}), 1.1 * whole);
  EXPECT_GT(deepseek({"cluster.placement=random:1", "cluster.oversubscription=4"}), 1.1 * whole);
  // An expert group of eight nodes stays under one leaf when ranks are contiguous: the spines carry point-to-point
  // transfers only.
  EXPECT_NEAR(deepseek({"cluster.oversubscription=4"}) / whole, 1, 0.05);
}

TEST(NetworkStep, DegradedLinksSlowTheStepAndFailedOnesEndIt) {
  const Inputs inputs = wired_inputs(deepseek_plan, "h800", {"batch.global_batch_size=4096"});
  const double whole = on_network(inputs);
  const std::string nic = "node0.nic0.up";
  const double early = on_network(inputs, {{nic, 0, 0.25}});
  const double late = on_network(inputs, {{nic, whole / 2, 0.25}});
  EXPECT_GT(late, whole);
  EXPECT_GT(early, late);
  const auto failed = simulate_on_network(inputs, false, {{nic, 1, 0}});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, model::ErrorKind::infeasible);
  EXPECT_NE(failed.error().message.find(nic), std::string::npos) << failed.error().message;
  EXPECT_FALSE(simulate_on_network(inputs, false, {{"no such link", 1, 0}}));
}

}  // namespace
}  // namespace plumbline::sim
