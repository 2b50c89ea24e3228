// Collectives of the GPU probe without a GPU: what they move and leave behind, and how ranks find each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "real/cuda/probe/collective.h"
#include "real/cuda/probe/world.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::real::cuda {
namespace {

using testing::HasSubstr;

// Rank r gives 100 r, 100 r + 1, ...
double input(int rank, std::int64_t index) { return 100.0 * rank + static_cast<double>(index); }

std::vector<double> got(const std::string& op, int rank) {
  const CollectivePlace place = {op, rank, 3, 6};
  std::vector<double> values;
  for (std::int64_t i = 0; i < elements_got(place); ++i) values.push_back(expected_element(place, i, input));
  return values;
}

TEST(ProbeCollectives, LeaveBehindWhatTheyAreDefinedToDo) {
  using Values = std::vector<double>;
  EXPECT_EQ(got("all_reduce", 1), Values({300, 303, 306, 309, 312, 315}));
  EXPECT_EQ(got("reduce_scatter", 2), Values({312, 315}));
  EXPECT_EQ(got("all_gather", 0), Values({0, 1, 100, 101, 200, 201}));
  EXPECT_EQ(got("all_to_all", 1), Values({2, 3, 102, 103, 202, 203}));
  EXPECT_EQ(elements_given({"all_gather", 0, 3, 6}), 2);
  EXPECT_EQ(elements_given({"reduce_scatter", 0, 3, 6}), 6);
}

TEST(ProbeCollectives, BusBytesAreThoseOfTheBestAlgorithm) {
  EXPECT_DOUBLE_EQ(bus_bytes("all_reduce", 1000, 8), 1750);
  EXPECT_DOUBLE_EQ(bus_bytes("all_gather", 1000, 8), 875);
  EXPECT_DOUBLE_EQ(bus_bytes("reduce_scatter", 1000, 2), 500);
  EXPECT_DOUBLE_EQ(bus_bytes("all_to_all", 1000, 4), 750);
  for (const char* op : {"all_reduce", "all_gather", "all_to_all"}) EXPECT_EQ(bus_bytes(op, 1000, 1), 0);
}

class ProbeWorld : public testing::Test {
 protected:
  void set(const char* rank, const char* size) {
    setenv("RANK", rank, 1);
    setenv("WORLD_SIZE", size, 1);
  }
  void TearDown() override {
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK"}) unsetenv(name);
  }
  std::string error_;
};

TEST_F(ProbeWorld, IsOneRankUnlessToldOtherwise) {
  EXPECT_EQ(world_from_environment(error_).size, 1);
  EXPECT_EQ(error_, "");
  set("5", "8");
  setenv("LOCAL_RANK", "1", 1);
  const World world = world_from_environment(error_);
  EXPECT_EQ(error_, "");
  EXPECT_EQ(std::vector<int>({world.rank, world.size, world.local_rank}), std::vector<int>({5, 8, 1}));
}

TEST_F(ProbeWorld, RefusesWhatDoesNotFit) {
  set("8", "8");
  world_from_environment(error_);
  EXPECT_THAT(error_, HasSubstr("RANK=8 is none of the ranks of WORLD_SIZE=8"));
  set("one", "8");
  world_from_environment(error_);
  EXPECT_THAT(error_, HasSubstr("RANK='one' is no number"));
}

TEST(ProbeRendezvous, EveryRankGetsTheBytesOfTheFirst) {
  const tests::TemporaryDirectory folder;
  const std::string path = folder.path() / "id";
  const std::string id("a\0b\n", 4);
  std::vector<std::string> bytes(3), problems(3);
  std::vector<std::thread> ranks;
  bytes[0] = id;
  for (const int rank : {2, 1, 0}) {
    ranks.emplace_back([&, rank] { problems[rank] = share_bytes({rank, 3, 0, path}, 20, bytes[rank]); });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(bytes, std::vector<std::string>({id, id, id}));
  EXPECT_EQ(problems, std::vector<std::string>(3));
}

TEST(ProbeRendezvous, MistakesAreNamed) {
  const tests::TemporaryDirectory folder;
  std::string bytes = "id";
  EXPECT_EQ(share_bytes({0, 1, 0, ""}, 0, bytes), "");  // alone there is nobody to find
  EXPECT_THAT(share_bytes({0, 2, 0, ""}, 0, bytes), HasSubstr("need --rendezvous"));
  const std::string old = folder.write("old", "of another run");
  EXPECT_THAT(share_bytes({0, 2, 0, old}, 0, bytes), HasSubstr("cannot be made: File exists"));
  EXPECT_THAT(share_bytes({1, 2, 0, folder.path() / "none"}, 0.01, bytes), HasSubstr("rank 0 did not come"));
}

}  // namespace
}  // namespace plumbline::real::cuda
