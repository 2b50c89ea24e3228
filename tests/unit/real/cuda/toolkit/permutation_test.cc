// Rows sorted by expert, then by token: the kernels' arithmetic, chunk by chunk, compared with a plain count for random
// choices.
#include "real/cuda/kernels/arithmetic/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "model/base/random.h"
#include "real/cuda/operators/detail/row_positions.h"

namespace plumbline::real::cuda {
namespace {

struct Choices {
  std::int64_t tokens = 0, slots = 0;
  int experts = 0;
  std::vector<std::int32_t> of;  // [tokens * slots], -1 for another rank's expert
};

Choices random_choices(std::int64_t tokens, std::int64_t slots, int experts, double here, model::Random& random) {
  Choices choices{tokens, slots, experts, {}};
  std::vector<std::int32_t> all(static_cast<std::size_t>(experts));
  std::iota(all.begin(), all.end(), 0);
  for (std::int64_t token = 0; token < tokens; ++token) {
    for (std::size_t i = all.size() - 1; i > 0; --i)
      std::swap(all[i], all[static_cast<std::size_t>(random.uniform() * static_cast<double>(i + 1))]);
    for (std::int64_t slot = 0; slot < slots; ++slot)
      choices.of.push_back(random.uniform() < here ? all[static_cast<std::size_t>(slot)] : -1);
  }
  return choices;
}

std::vector<std::int64_t> rows_per_expert(const Choices& choices) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(choices.experts));
  for (const std::int32_t expert : choices.of)
    if (expert >= 0) ++rows[static_cast<std::size_t>(expert)];
  return rows;
}

// Returns the positions as the kernels compute them: counts of chunks, sums over the chunks before, ranks within 32
// lanes.
std::vector<std::int64_t> positions_by_chunks(const Choices& choices, std::int64_t alignment) {
  const auto entries = static_cast<std::int64_t>(choices.of.size());
  const std::int64_t length = chunk_entries(entries);
  std::vector<std::int64_t> next = row_offsets(rows_per_expert(choices), alignment);
  std::vector<std::int64_t> positions(choices.of.size(), -1);
  for (std::int64_t chunk = 0; chunk < chunk_count(entries); ++chunk)
    for (std::int64_t first = chunk * length; first < (chunk + 1) * length && first < entries; first += 32) {
      const auto expert_of = [&](int queue) {
        return first + queue < entries ? choices.of[static_cast<std::size_t>(first + queue)] : -1;
      };
      std::vector<std::int64_t> after = next;
      for (int queue = 0; queue < 32; ++queue) {
        const std::int32_t expert = expert_of(queue);
        if (expert < 0) continue;
        std::uint32_t same = 0;
        for (int other = 0; other < 32; ++other)
          if (expert_of(other) == expert) same |= std::uint32_t{1} << other;
        const auto e = static_cast<std::size_t>(expert);
        positions[static_cast<std::size_t>(first + queue)] = next[e] + rank_among(same, queue);
        after[e] = next[e] + bits_set(same);
      }
      next = after;
    }
  return positions;
}

// Returns the positions by one expert after the other, one token after the other.
std::vector<std::int64_t> positions_plainly(const Choices& choices, std::int64_t alignment) {
  std::vector<std::int64_t> positions(choices.of.size(), -1);
  std::int64_t row = 0;
  for (std::int32_t expert = 0; expert < choices.experts; ++expert) {
    row = (row + alignment - 1) / alignment * alignment;
    for (std::size_t i = 0; i < choices.of.size(); ++i)
      if (choices.of[i] == expert) positions[i] = row++;
  }
  return positions;
}

TEST(CudaPermutation, PlacesRowsByExpertThenByToken) {
  model::Random random(3);
  for (const std::int64_t tokens : {1, 5, 333, 9000})
    for (const int experts : {8, 37})
      for (const double here : {0.1, 1.0})
        for (const std::int64_t alignment : {1, row_alignment_fp8}) {
          const Choices choices = random_choices(tokens, 8, experts, here, random);
          EXPECT_EQ(positions_by_chunks(choices, alignment), positions_plainly(choices, alignment))
              << tokens << " tokens, " << experts << " experts";
        }
}

TEST(CudaPermutation, ChunksCoverAllEntriesWithAThreadForEach) {
  for (const std::int64_t entries : {0L, 1L, 31L, 32L, 33L, 32768L, 32769L, 1000000L}) {
    EXPECT_LE(chunk_count(entries), most_chunks);
    EXPECT_GE(chunk_count(entries) * chunk_entries(entries), entries);
    EXPECT_LT((chunk_count(entries) - 1) * chunk_entries(entries), std::max<std::int64_t>(entries, 1));
    EXPECT_EQ(chunk_entries(entries) % 32, 0);
  }
}

TEST(CudaPermutation, ExpertsBeginAtMultiplesOfTheAlignment) {
  EXPECT_EQ(row_offsets({3, 0, 130, 128}, 128), (std::vector<std::int64_t>{0, 128, 128, 384, 512}));
  EXPECT_EQ(row_offsets({3, 0, 130, 128}, 1), (std::vector<std::int64_t>{0, 3, 3, 133, 261}));
  EXPECT_EQ(row_offsets({}, 1), (std::vector<std::int64_t>{0}));
}

TEST(CudaPermutation, AMapReadTheOtherWayRoundListsEachTokensRowsAscending) {
  const RowLists lists = lists_of({2, 0, -1, 2, 1, 2, -1});
  EXPECT_EQ(lists.tokens, 3);
  EXPECT_EQ(lists.slots, 3);
  EXPECT_EQ(lists.rows, (std::vector<std::int32_t>{1, -1, -1, 4, -1, -1, 0, 3, 5}));
  EXPECT_EQ(lists_of({}).tokens, 0);
  EXPECT_EQ(lists_of({-1, -1}).tokens, 0);
}

TEST(CudaPermutation, RowsOfATokenAreAddedInTheirOrder) {
  const std::vector<std::int32_t> rows = {40, -1, 7, 99, -1, 12};
  std::vector<std::int32_t> ordered(4, -1);
  for (std::size_t slot = 0; slot < rows.size(); ++slot)
    if (rows[slot] >= 0)
      ordered[static_cast<std::size_t>(place_among(rows.data(), 6, static_cast<int>(slot)))] = rows[slot];
  EXPECT_EQ(ordered, (std::vector<std::int32_t>{7, 12, 40, 99}));
}

}  // namespace
}  // namespace plumbline::real::cuda
