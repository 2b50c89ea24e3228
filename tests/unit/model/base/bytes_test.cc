#include "model/base/bytes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model/base/error.h"
#include "model/result/result.h"

namespace plumbline::model {
namespace {

struct Mixed {
  double number = 0;
  std::optional<double> maybe;
  std::string text;
  std::vector<std::pair<std::int64_t, std::string>> rows;
  std::map<std::string, std::vector<double>> table;
  std::array<std::optional<std::int64_t>, 3> slots;
  Evidence kind = Evidence::assumed;
  Result<double> done;
  bool operator==(const Mixed&) const = default;
};

struct Wide {
  int a0 = 0, a1 = 0, a2 = 0, a3 = 0, a4 = 0, a5 = 0, a6 = 0, a7 = 0, a8 = 0, a9 = 0, b0 = 0, b1 = 0, b2 = 0, b3 = 0,
      b4 = 0, b5 = 0, b6 = 0, b7 = 0, b8 = 0, b9 = 0, c0 = 0, c1 = 0, c2 = 0, c3 = 0, c4 = 0, c5 = 0, c6 = 0, c7 = 0,
      c8 = 0, c9 = 0, d0 = 0, d1 = 0, d2 = 0, d3 = 0, d4 = 0, d5 = 0, d6 = 0, d7 = 0, d8 = 0, d9 = 0, e0 = 0, e1 = 0,
      e2 = 0, e3 = 0, e4 = 0, e5 = 0, e6 = 0;
};

// 47 members, which are none of a round number of tens.
TEST(Bytes, OfAWideStructAreThoseOfEachMember) {
  Wide wide;
  wide.a0 = 1;
  wide.e6 = 2;
  EXPECT_EQ(to_bytes(wide).size(), 47 * sizeof(int));
  const auto back = from_bytes<Wide>(to_bytes(wide));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->a0, 1);
  EXPECT_EQ(back->d9, 0);
  EXPECT_EQ(back->e6, 2);
}

TEST(Bytes, GiveBackWhatWasWritten) {
  const double below_zero = -0.0, odd = std::numeric_limits<double>::denorm_min();
  const Mixed full{odd,
                   below_zero,
                   std::string("a\0b", 3),
                   {{1, "x"}, {2, ""}},
                   {{"k", {1, 2}}},
                   {1, std::nullopt, 3},
                   Evidence::fitted,
                   1.5};
  const auto back = from_bytes<Mixed>(to_bytes(full));
  ASSERT_TRUE(back);
  EXPECT_EQ(to_bytes(*back), to_bytes(full));
  EXPECT_EQ(back->number, odd);
  EXPECT_TRUE(std::signbit(*back->maybe));
  EXPECT_EQ(back->text.size(), 3u);
  EXPECT_EQ(back->rows, full.rows);
  EXPECT_EQ(back->table, full.table);
  EXPECT_EQ(back->slots, full.slots);
  EXPECT_EQ(*back->done, 1.5);
}

TEST(Bytes, KeepErrors) {
  const Result<double> failed = wrong_input_at("plan.toml", 7, "batch.size", "is odd", "make it even");
  const auto back = from_bytes<Result<double>>(to_bytes(failed));
  ASSERT_TRUE(back);
  ASSERT_FALSE(*back);
  EXPECT_EQ(to_string(back->error()), to_string(failed.error()));
  EXPECT_EQ(back->error().kind, ErrorKind::input);
}

TEST(Bytes, HoldEveryMemberOfAResult) {
  StepTimes step;
  step.time_s = 15.4;
  step.clock[2] = 0.9;
  step.breakdown = {{"GEMM", 9.0}, {"attention", 6.4}};
  const auto back = from_bytes<StepTimes>(to_bytes(step));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->time_s, 15.4);
  EXPECT_EQ(back->clock[2], 0.9);
  EXPECT_EQ(back->breakdown[1].name, "attention");
}

TEST(Bytes, OfAnotherLengthAreRefused) {
  const std::string bytes = to_bytes(std::vector<std::string>{"abc", "def"});
  EXPECT_FALSE(from_bytes<std::vector<std::string>>(bytes.substr(0, bytes.size() - 1)));
  EXPECT_FALSE(from_bytes<std::vector<std::string>>(bytes + "x"));
  EXPECT_FALSE(from_bytes<std::vector<std::string>>(std::string(8, '\xff')));
  EXPECT_FALSE(from_bytes<double>(""));
}

// The values of the reference implementation (http://www.isthe.com/chongo/tech/comp/fnv/).
TEST(Bytes, HashIsThatOfFnv) {
  EXPECT_EQ(hash_of(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(hash_of("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(hash_of("bar", hash_of("foo")), hash_of("foobar"));
  EXPECT_EQ(hash_of("foobar"), 0x85944171f73967e8ULL);
}

}  // namespace
}  // namespace plumbline::model
