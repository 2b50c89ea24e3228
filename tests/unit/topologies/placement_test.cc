#include "topologies/placement.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/support/inputs.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::topologies {
namespace {

using model::ErrorKind;

std::vector<std::int64_t> gpus(const Placement& placement) {
  std::vector<std::int64_t> list;
  for (std::int64_t rank = 0; rank < placement.ranks(); ++rank) {
    list.push_back(placement.gpu(rank));
    EXPECT_EQ(placement.rank(placement.gpu(rank)), rank);
  }
  return list;
}

using List = std::vector<std::int64_t>;

TEST(Placement, ContiguousAndStriped) {
  EXPECT_EQ(gpus(Placement::make("contiguous", 5, 2).value()), (List{0, 1, 2, 3, 4}));
  EXPECT_EQ(gpus(Placement::make("striped", 5, 2).value()), (List{0, 2, 4, 1, 3}));
}

TEST(Placement, RandomKeepsNodesWhole) {
  const List order = gpus(Placement::make("random:7", 64, 8).value());
  EXPECT_EQ(std::set<std::int64_t>(order.begin(), order.end()).size(), 64u);
  for (std::size_t rank = 0; rank < 64; ++rank) {
    EXPECT_EQ(order[rank] % 8, static_cast<std::int64_t>(rank % 8));
    EXPECT_EQ(order[rank] / 8, order[rank - rank % 8] / 8);
  }
  EXPECT_EQ(order, gpus(Placement::make("random:7", 64, 8).value()));
  EXPECT_NE(order, gpus(Placement::make("random:8", 64, 8).value()));
}

TEST(Placement, FromAFileNextToThePlan) {
  const tests::TemporaryDirectory folder;
  folder.write("ranks.txt", "# GPU of each rank\n3\n\n1\r\n 0 \n2");
  model::Plan plan;
  plan.file = (folder.path() / "plan.toml").string();
  plan.cluster.gpus = 4;
  plan.cluster.placement = "file:ranks.txt";
  const auto placement = placement_of(plan, 2);
  ASSERT_TRUE(placement) << to_string(placement.error());
  EXPECT_EQ(gpus(*placement), (List{3, 1, 0, 2}));
  plan.cluster.placement.reset();
  EXPECT_EQ(gpus(placement_of(plan, 2).value()), (List{0, 1, 2, 3}));
}

TEST(Placement, WrongFiles) {
  const tests::TemporaryDirectory folder;
  const auto expect = [&](const char* text, int line, const char* says) {
    const std::string path = folder.write("ranks.txt", text).string();
    const auto placement = Placement::make("file:" + path, 3, 2);
    ASSERT_FALSE(placement);
    tests::expect_error(placement.error(), ErrorKind::input, path, line, "", says);
  };
  expect("0\n1\n1\n", 3, "first on line 2");
  expect("0\n1\n3\n", 3, "the cluster has 0 to 2");
  expect("0\n-1\n2\n", 2, "there is no GPU -1");
  expect("0\n2\n", 0, "rank 2 has no GPU");
  expect("0\none\n2\n", 2, "'one' is not the number of a GPU");
}

TEST(Placement, WrongRules) {
  const auto expect = [](const char* rule, const char* says) {
    const auto placement = Placement::make(rule, 4, 2);
    ASSERT_FALSE(placement);
    tests::expect_error(placement.error(), ErrorKind::input, "", 0, "cluster.placement", says);
  };
  expect("contigous", "did you mean 'contiguous'?");
  expect("random", "has no seed");
  expect("random:x", "has no seed");
  expect("file:", "random:SEED or file:PATH");
}

}  // namespace
}  // namespace plumbline::topologies
