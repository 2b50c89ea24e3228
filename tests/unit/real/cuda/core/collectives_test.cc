// Results of collectives, checked without a GPU.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "real/cuda/measure/detail/expected.h"

namespace plumbline::real::cuda {
namespace {

// Rank r gives 100 r, 100 r + 1, ...
double input(int rank, std::int64_t index) { return 100.0 * rank + static_cast<double>(index); }

std::vector<double> got(const std::string& op, int rank) {
  const CollectivePlace place = {op, rank, 3, 6};
  std::vector<double> values;
  for (std::int64_t i = 0; i < elements_got(place); ++i) values.push_back(expected_element(place, i, input));
  return values;
}

TEST(CudaCollectives, LeaveBehindWhatTheyAreDefinedToDo) {
  using Values = std::vector<double>;
  EXPECT_EQ(got("all_reduce", 1), Values({300, 303, 306, 309, 312, 315}));
  EXPECT_EQ(got("reduce_scatter", 2), Values({312, 315}));
  EXPECT_EQ(got("all_gather", 0), Values({0, 1, 100, 101, 200, 201}));
  EXPECT_EQ(got("all_to_all", 1), Values({2, 3, 102, 103, 202, 203}));
  EXPECT_EQ(elements_given({"all_gather", 0, 3, 6}), 2);
  EXPECT_EQ(elements_given({"reduce_scatter", 0, 3, 6}), 6);
}

}  // namespace
}  // namespace plumbline::real::cuda
