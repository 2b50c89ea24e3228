// SimGrid loads the exported platforms; the routes that it finds between GPUs are compared with the builder's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

#include "tests/support/inputs.h"
#include "tests/support/routes.h"
#include "tests/support/temporary_directory.h"
#include "topologies/formats.h"

namespace plumbline::topologies {
namespace {

using tests::shipped;

struct Case {
  const char* topology;
  std::int64_t gpus;
};

class Platform : public testing::TestWithParam<Case> {};

TEST_P(Platform, HasTheBandwidthsAndLatenciesOfTheBuilder) {
  const std::string path = shipped("topologies/" + std::string(GetParam().topology) + ".toml");
  Variation variation;
  variation.gpus = GetParam().gpus;
  const Topology topology = load_topology(path, shipped("topologies/devices"), variation).value();
  const Fabric fabric = Fabric::make(topology.fabric, GetParam().gpus).value();
  const tests::TemporaryDirectory folder;
  const std::string file = folder.write("platform.xml", simgrid_platform(topology, fabric)).string();

  int argc = 1;
  std::string program = "test";
  char* argv[] = {program.data(), nullptr};
  simgrid::s4u::Engine engine(&argc, argv);
  engine.load_platform(file);
  engine.get_netzone_root()->seal();  // only the first engine of a process does so when it runs
  ASSERT_EQ(engine.get_host_count(), static_cast<std::size_t>(GetParam().gpus));
  const std::int64_t step = std::max<std::int64_t>(1, fabric.gpus() / 23);
  for (std::int64_t a = 0; a < fabric.gpus(); a += step) {
    const auto* from = engine.host_by_name("gpu" + std::to_string(a));
    for (std::int64_t b = 0; b < fabric.gpus(); ++b) {
      if (a == b || (b / 16 != a / 16 && b % 7 != 0)) continue;
      std::vector<simgrid::s4u::Link*> links;
      double latency = 0;
      from->route_to(engine.host_by_name("gpu" + std::to_string(b)), links, &latency);
      double bandwidth = links.front()->get_bandwidth();
      for (const auto* link : links) bandwidth = std::min(bandwidth, link->get_bandwidth());
      ASSERT_NEAR(latency, tests::route_latency(fabric, a, b), 1e-12) << a << " " << b;
      ASSERT_NEAR(bandwidth / tests::route_bandwidth(fabric, a, b), 1, 1e-12) << a << " " << b;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shipped, Platform,
                         testing::Values(Case{"h800-rail-fat-tree", 512}, Case{"h800-multi-rail", 512},
                                         Case{"mi300x", 44}, Case{"ethernet-leaf-spine", 100},
                                         Case{"three-layer-fat-tree", 512}, Case{"gb200-nvl72", 150}, Case{"host", 8}),
                         [](const auto& parameter) {
                           std::string name = parameter.param.topology;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace plumbline::topologies
