// Everything on the wire is a flow: collectives share links with all-to-alls, and oversubscription, lost NICs and other
// jobs slow what they meet. Expected times are derived from bytes and bandwidths.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/engine/heap_loop.h"
#include "sim/network/simgrid_loop.h"
#include "sim/network/step_links.h"
#include "sim/predict/simulate.h"
#include "tests/support/flow_time.h"
#include "tests/support/network.h"
#include "tests/support/step_inputs.h"
#include "topologies/fabric.h"

namespace plumbline::sim {
namespace {

using tests::planes_of_nodes;
using topologies::Fabric;
using topologies::FabricShape;

constexpr double nic = 50e9, exact = 1e-6;

// Records the end of each flow by its number.
class Ends final : public Handler {
 public:
  explicit Ends(const Loop& loop) : loop_(loop) {}
  void handle(std::uint32_t code, std::uint64_t) override {
    seconds.resize(std::max<std::size_t>(seconds.size(), code + 1));
    seconds[code] = to_seconds(loop_.now());
  }
  std::vector<double> seconds;

 private:
  const Loop& loop_;
};

// Returns the ends of flows of one GPU that start together.
std::vector<double> run(Loop& loop, std::vector<Flow> flows) {
  Ends ends(loop);
  for (std::uint32_t i = 0; i < flows.size(); ++i) {
    flows[i].owner = 1;
    loop.flow(flows[i], {&ends, i});
  }
  loop.run();
  return ends.seconds;
}

void expect_on_both_loops(const std::vector<topologies::Link>& links, const std::vector<Flow>& flows,
                          const std::vector<double>& expected) {
  HeapLoop heap(links);
  const std::vector<double> on_heap = run(heap, flows);
  auto network = SimGridNetwork::make(links).value();
  SimGridLoop shared(network);
  const std::vector<double> on_network = run(shared, flows);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(on_heap[i], expected[i], exact * expected[i]) << i;
    EXPECT_NEAR(on_network[i], expected[i], exact * expected[i]) << i;
  }
}

// A reduction of 1 GB with one connection next to an all-to-all of seven, 1 GB in all: of eight equal shares of 50 GB/s
// the all-to-all has seven and ends after 1 / 43.75 s. The reduction has moved 1/7 GB by then and has the NIC alone for
// the other 6/7 GB: both together are 2 GB / 50 GB/s.
TEST(Wire, AReductionSharesANicWithAnAllToAll) {
  const Footprint reduction = {{0, 1}}, all_to_all = {{0, 7}};
  expect_on_both_loops(tests::links_of({nic}), {{&reduction, 1e9}, {&all_to_all, 1e9 / 7}}, {0.04, 1 / 43.75});
}

// A reduction limited to 10 GB/s leaves 40 GB/s, whatever its share would be. The other flow moves 1 GB in 25 ms.
TEST(Wire, AFlowThatIsLimitedLeavesTheRest) {
  const Footprint own = {{0, 1}};
  expect_on_both_loops(tests::links_of({nic}), {{&own, 1e9, 10e9}, {&own, 1e9}}, {0.1, 0.025});
}

TEST(Wire, FlowsOfDifferentGpusShareLinksOnTheNetworkOnly) {
  const auto links = tests::links_of({nic});
  const Footprint own = {{0, 1}};
  HeapLoop heap(links);
  Ends ends(heap);
  for (std::uint32_t gpu = 0; gpu < 2; ++gpu) {
    Flow flow{&own, 1e9};
    flow.owner = gpu + 1;
    heap.flow(flow, {&ends, gpu});
  }
  heap.run();
  EXPECT_DOUBLE_EQ(ends.seconds[0], 0.02);
  EXPECT_DOUBLE_EQ(ends.seconds[1], 0.02);
}

GroupLinks pairs_of_leaves(const FabricShape& shape) {
  const Fabric fabric = Fabric::make(shape, 1024).value();
  return group_links(fabric, topologies::Placement::make("contiguous", 1024, 8).value(), 2, {2, 256}, nic);
}

// Each of two pipeline ranks has 64 nodes on two leaves of each plane, each node in a ring with one on the other leaf.
// All 32 NICs of a leaf send to the other one, over 8 spines with 4:1, so four rings share a link of 50 GB/s: 1 GB
// takes 4 GB / 50 GB/s.
TEST(Wire, AReductionUnderFourToOne) {
  const GroupLinks links = pairs_of_leaves(planes_of_nodes(4));
  EXPECT_NEAR(links.slowdown, 4, exact);
  const Fabric fabric = Fabric::make(planes_of_nodes(4), 1024).value();
  expect_on_both_loops(fabric.links(), {{&links.ranks->front().network.footprint, 1e9}}, {0.08});
  EXPECT_NEAR(pairs_of_leaves(planes_of_nodes(1)).slowdown, 1, exact);
}

// Others take 30 % between leaves and spines and 10 % of the NICs: the ring has 70 % of 50 GB/s. With 30 % and 4:1 it
// has 70 % of a quarter.
TEST(Wire, OthersLeaveTheRestOfATier) {
  FabricShape shape = planes_of_nodes(1);
  shape.background = {.nic = 0.1, .leaf = 0.3};
  EXPECT_NEAR(pairs_of_leaves(shape).slowdown, 1 / 0.7, exact);
  shape.background.leaf = 0;
  EXPECT_NEAR(pairs_of_leaves(shape).slowdown, 1 / 0.9, exact);
  shape.oversubscription = 4;
  shape.switch_ports = 40;
  shape.background.leaf = 0.3;
  EXPECT_NEAR(pairs_of_leaves(shape).slowdown, 4 / 0.7, exact);
}

double dispatch_seconds(const FabricShape& shape, bool every_way) {
  const Fabric fabric = Fabric::make(shape, 128).value();
  const auto all = transfers_of(fabric, tests::expert_dispatch(tests::gpus_from(64, 64))).value();
  std::vector<Transfer> between_nodes;
  std::ranges::copy_if(all, std::back_inserter(between_nodes), [](const Transfer& t) { return t.leg == 0; });
  if (!every_way) return bottleneck_seconds(fabric, between_nodes);
  auto network = SimGridNetwork::make(fabric.links()).value();
  return tests::simulate_seconds(network, footprint_flows(fabric, between_nodes), {}).value();
}

// Without its plane the GPU of that index sends to its seven other nodes over the seven other NICs of its node, in
// turns. Each NIC then carries eight messages where it carried seven: 8/7 of the time.
TEST(Wire, ALostPlaneOfEight) {
  FabricShape shape = planes_of_nodes();
  const double whole = dispatch_seconds(shape, false);
  for (const char* plane : {"plane0", "plane3", "plane7.*", "node*.nic5"}) {
    shape.factors = {{plane, 0}};
    EXPECT_NEAR(dispatch_seconds(shape, false), 8.0 / 7 * whole, exact * whole) << plane;
    EXPECT_NEAR(dispatch_seconds(shape, true), 8.0 / 7 * whole, exact * whole) << plane;
  }
  shape.factors = {{"plane0", 0.5}};  // every message of GPU 0 crosses a NIC of half the bandwidth
  EXPECT_NEAR(dispatch_seconds(shape, true), 2 * whole, exact * whole);
  // The ring of the GPU without a NIC and that of another GPU share one.
  shape.factors = {{"plane0", 0}};
  EXPECT_NEAR(pairs_of_leaves(shape).slowdown, 2, exact);
}

TEST(Wire, UnknownLinksNameTheNearest) {
  const Fabric fabric = Fabric::make(planes_of_nodes(), 64).value();
  EXPECT_EQ(fabric.find("node3.nic5").value().size(), 2u);
  EXPECT_EQ(fabric.find("plane3").value(), fabric.find("node*.nic3").value());
  const auto error = fabric.find("node3.nik5");
  ASSERT_FALSE(error);
  EXPECT_NE(error.error().hint.find("node3.nic5"), std::string::npos) << error.error().hint;
  FabricShape shape = planes_of_nodes();
  shape.factors = {{"node*.nic*", 0}};
  EXPECT_EQ(Fabric::make(shape, 64).error().kind, model::ErrorKind::infeasible);
}

Inputs deepseek(const std::vector<std::string>& overrides = {}) {
  return tests::wired_inputs(tests::deepseek_plan, "h800", overrides);
}
double on_network(const Inputs& inputs) { return simulate_on_network(inputs, false).value().result.step.time_s; }
double in_closed_form(const Inputs& inputs) {
  return simulate(inputs, Fidelity::closed_form, false).value().result.step.time_s;
}

// Links that are never the limit leave every flow its own rate, and that is its cost function.
TEST(Wire, InfiniteLinksChangeNothing) {
  for (const char* plan : {tests::deepseek_plan.c_str(), tests::llama_plan.c_str()}) {
    Inputs inputs = tests::wired_inputs(plan, "h800");
    inputs.fabric->nic_bandwidth *= 1e3;
    inputs.fabric->gpu_bandwidth *= 1e3;
    Inputs plain = inputs;
    plain.fabric.reset();
    const double expected = simulate(plain, Fidelity::step, false).value().result.step.time_s;
    EXPECT_NEAR(simulate(inputs, Fidelity::step, false).value().result.step.time_s, expected, 1e-9 * expected) << plan;
    EXPECT_NEAR(on_network(inputs), expected, 1e-9 * expected) << plan;
  }
}

TEST(Wire, MoreBackgroundIsNeverFaster) {
  double network = 0, closed = 0;
  for (const char* share : {"0", "0.1", "0.3", "0.6", "0.9"}) {
    const Inputs inputs = deepseek({std::string("cluster.background=") + share, "batch.global_batch_size=4096"});
    EXPECT_GE(on_network(inputs), network * (1 - 1e-9)) << share;
    EXPECT_GE(in_closed_form(inputs), closed * (1 - 1e-9)) << share;
    network = on_network(inputs);
    closed = in_closed_form(inputs);
  }
  EXPECT_GT(network, 2 * on_network(deepseek({"batch.global_batch_size=4096"})));
}

TEST(Wire, ASlowerNicSlowsEveryStepThatCrossesIt) {
  double before = 0;
  for (const char* rate : {"800", "400", "200", "100"}) {
    const double seconds = on_network(deepseek({std::string("cluster.nic_gbps=") + rate}));
    EXPECT_GT(seconds, before) << rate;
    before = seconds;
  }
}

// The 64 GPUs of the small plan lie under one leaf of each plane. Nodes at random cross the spines, and two to one the
// links above the leaves carry more each.
TEST(Wire, AnotherJobLoadsTheLinksThatItCrosses) {
  const topologies::Background small = mean_load(tests::wired_inputs(tests::llama_plan, "h800")).value();
  EXPECT_EQ(small, topologies::Background{});
  const topologies::Background large = mean_load(deepseek({"cluster.placement=random:1"})).value();
  EXPECT_EQ(large.nic, 0);
  EXPECT_EQ(large.spine, 0);  // two layers of switches
  EXPECT_GT(large.leaf, 0);
  EXPECT_LT(large.leaf, 1);
  EXPECT_GT(mean_load(deepseek({"cluster.placement=random:1", "cluster.oversubscription=2"})).value().leaf, large.leaf);
}

TEST(Wire, ALostPlaneSlowsTheStepAtEveryFidelity) {
  const Inputs whole = deepseek({"batch.global_batch_size=4096"});
  Inputs broken = whole;
  broken.fabric->factors = {{"plane0", 0}};
  EXPECT_GT(on_network(broken), on_network(whole));
  EXPECT_GT(in_closed_form(broken), in_closed_form(whole));
}

}  // namespace
}  // namespace plumbline::sim
