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
