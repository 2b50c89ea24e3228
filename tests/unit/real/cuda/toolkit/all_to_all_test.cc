// The receivers of each token: the integers behind the kernels of an all-to-all, compared with sets and lists.
#include "real/cuda/kernels/arithmetic/all_to_all.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/base/random.h"
#include "real/cuda/comm/dispatch_layout.h"
#if __has_include(<nccl.h>)
#include "real/cuda/vendor/nccl.h"
#endif

namespace plumbline::tests {
namespace {

using namespace real::cuda;

constexpr std::int32_t tokens = 61, choices = 6;

struct Setting {
  std::string name;
  std::int32_t experts, per_rank, members, node_members, position;
  friend void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }
};

class CudaAllToAll : public testing::TestWithParam<Setting> {
 protected:
  CudaAllToAll() {
    const Setting& s = GetParam();
    homes_ = {s.experts, s.per_rank, s.members, s.position};
    model::Random random(17);
    std::vector<std::int32_t> experts(static_cast<std::size_t>(s.experts));
    std::iota(experts.begin(), experts.end(), 0);
    for (std::int32_t t = 0; t < tokens; ++t) {
      for (std::size_t i = 0; i < choices; ++i)
        std::swap(experts[i],
                  experts[i + static_cast<std::size_t>(random.uniform() * (s.experts - static_cast<double>(i)))]);
      indices_.insert(indices_.end(), experts.begin(), experts.begin() + choices);
    }
  }

  const std::int32_t* experts_of(std::int32_t token) const { return indices_.data() + token * choices; }

  // By definition: adjacent ranks hold parts of the same experts, and a token goes to the one in its own rank's place.
  std::int32_t member_of(std::int32_t expert) const {
    const Setting& s = GetParam();
    std::vector<std::int32_t> holders;
    for (std::int32_t m = 0; m < s.members; ++m) {
      const std::int32_t ranks_per_copy = s.members * s.per_rank / s.experts;
      if (m / ranks_per_copy == expert / s.per_rank) holders.push_back(m);
    }
    return holders[static_cast<std::size_t>(s.position) % holders.size()];
  }

  std::int32_t expected_bucket(Leg leg, std::int32_t expert) const {
    const std::int32_t member = member_of(expert), node_members = GetParam().node_members;
    if (leg == Leg::to_members) return member;
    if (leg == Leg::to_nodes) return member / node_members;
    return member / node_members == GetParam().position / node_members ? member % node_members : -1;
  }

  std::set<std::int32_t> buckets_of(Leg leg, std::int32_t token) const {
    std::set<std::int32_t> buckets;
    for (std::int32_t i = 0; i < choices; ++i) buckets.insert(expected_bucket(leg, experts_of(token)[i]));
    buckets.erase(-1);
    return buckets;
  }

  ExpertHomes homes_;
  std::vector<std::int32_t> indices_;
};

TEST_P(CudaAllToAll, TokenGoesOnceToEachOfItsBuckets) {
  for (const Leg leg : {Leg::to_members, Leg::to_nodes, Leg::inside_node}) {
    const Buckets buckets{homes_, leg, GetParam().node_members};
    for (std::int32_t t = 0; t < tokens; ++t) {
      const std::set<std::int32_t> want = buckets_of(leg, t);
      for (const std::int32_t bucket : want) ASSERT_LT(bucket, bucket_count(buckets));
      for (std::int32_t b = 0; b < bucket_count(buckets); ++b) {
        const Visit got = visit(buckets, experts_of(t), choices, b);
        ASSERT_EQ(got.goes, want.contains(b)) << "token " << t << ", bucket " << b;
        ASSERT_EQ(got.before, std::distance(want.begin(), want.lower_bound(b))) << "token " << t << ", bucket " << b;
      }
    }
  }
}

// Sums up the counts of each member.
TEST_P(CudaAllToAll, CountsOfAllMembersGiveWhatIsSent) {
  const Setting& s = GetParam();
  const std::int32_t nodes = s.members / s.node_members, node = s.position / s.node_members,
                     place = s.position % s.node_members;
  const std::int64_t stride = s.members + nodes + s.experts + 1;
  std::vector<std::int32_t> counts(static_cast<std::size_t>(stride * s.members));
  std::vector<std::int64_t> rows_per_expert(static_cast<std::size_t>(s.per_rank));
  Traffic members(s.members, s.position), between(nodes, node), inside(s.node_members, place);
  for (std::int32_t member = 0; member < s.members; ++member) {
    ExpertHomes homes = homes_;
    homes.position = member;
    const std::int32_t place_of_member = member % s.node_members;
    std::int32_t* own = counts.data() + member * stride;
    // Members differ: each leaves out the tokens before its own position.
    for (std::int32_t t = std::min(member, tokens); t < tokens; ++t) {
      std::set<std::int32_t> to, to_nodes;
      for (std::int32_t i = 0; i < choices; ++i) {
        const std::int32_t expert = experts_of(t)[i], home = home_of(homes, expert);
        to.insert(home);
        to_nodes.insert(home / s.node_members);
        ++own[s.members + nodes + expert];
        if (home == s.position) ++rows_per_expert[static_cast<std::size_t>(expert % s.per_rank)];
      }
      for (const std::int32_t m : to) {
        ++own[m];
        ++members.rows(member, m);
        if (m / s.node_members == node) ++inside.rows(place_of_member, m % s.node_members);
      }
      for (const std::int32_t n : to_nodes) {
        ++own[s.members + n];
        if (place_of_member == place) ++between.rows(member / s.node_members, n);
      }
    }
  }
  const SharedCounts shared{counts.data(), stride, homes_, s.node_members};
  EXPECT_EQ(arriving_per_expert(shared), rows_per_expert);
  const auto expect_equal = [](const Traffic& got, const Traffic& want, const char* name) {
    ASSERT_EQ(got.peers(), want.peers()) << name;
    EXPECT_EQ(got.own(), want.own()) << name;
    for (std::int32_t peer = 0; peer < want.peers(); ++peer) EXPECT_EQ(got.sent_by(peer), want.sent_by(peer)) << name;
  };
  expect_equal(between_members(shared), members, "members");
  expect_equal(between_nodes(shared), between, "nodes");
  expect_equal(inside_node(shared), inside, "inside");
  // As many rows arrive in two legs as in one.
  EXPECT_EQ(inside.received_by(place).back(), members.received_by(s.position).back());
}

TEST(CudaTraffic, RowsLieByPeerAndGoBackAsTheyCame) {
  Traffic traffic(3, 1);
  for (std::int32_t from = 0; from < 3; ++from)
    for (std::int32_t to = 0; to < 3; ++to) traffic.rows(from, to) = 10 * from + to;
  EXPECT_EQ(traffic.sent_by(1), (std::vector<std::int64_t>{0, 10, 21, 33}));
  EXPECT_EQ(traffic.received_by(1), (std::vector<std::int64_t>{0, 1, 12, 33}));
  EXPECT_EQ(traffic.most_sent(), 63);
  EXPECT_EQ(traffic.back().sent_by(1), traffic.received_by(1));
  EXPECT_EQ(traffic.back().received_by(2), traffic.sent_by(2));
  EXPECT_EQ(traffic.back().most_sent(), 36);
}

// In the folded all-to-all the rows that this rank sends are those that it receives, with experts in their receiver's
// numbers.
TEST_P(CudaAllToAll, FoldedCountsAreThoseOfTheRowsReceived) {
  std::vector<std::int64_t> choices_of(static_cast<std::size_t>(homes_.experts));
  for (const std::int32_t expert : indices_) ++choices_of[static_cast<std::size_t>(expert)];

  std::vector<std::int64_t> rows(static_cast<std::size_t>(homes_.per_rank));
  std::int64_t strangers = 0;
  for (std::int32_t member = 0; member < homes_.members; ++member) {
    for (std::int32_t t = 0; t < tokens; ++t) {
      if (!buckets_of(Leg::to_members, t).contains(member)) continue;
      for (std::int32_t i = 0; i < choices; ++i) {
        const std::int32_t local = local_number(homes_, experts_of(t)[i], member);
        ASSERT_EQ(local, member_of(experts_of(t)[i]) == member ? experts_of(t)[i] % homes_.per_rank : -1);
        if (local >= 0)
          ++rows[static_cast<std::size_t>(local)];
        else
          ++strangers;
      }
    }
  }
  EXPECT_EQ(folded_rows_per_expert(homes_, choices_of), rows);
  EXPECT_EQ(std::accumulate(rows.begin(), rows.end(), std::int64_t{0}), tokens * choices);
  EXPECT_EQ(strangers > 0, homes_.members > 1);
}

TEST_P(CudaAllToAll, RowsOfAListGiveTheirBucket) {
  std::vector<std::int32_t> first{0};
  for (std::int32_t b = 0; b < homes_.members; ++b) {
    std::int32_t count = 0;
    for (std::int32_t t = 0; t < tokens; ++t) count += buckets_of(Leg::to_members, t).contains(b) ? 1 : 0;
    first.push_back(first.back() + count);
  }
  for (std::int32_t b = 0; b < homes_.members; ++b)
    for (std::int32_t row = first[static_cast<std::size_t>(b)]; row < first[static_cast<std::size_t>(b) + 1]; ++row)
      ASSERT_EQ(bucket_of_row(first.data(), homes_.members, row), b);
}

INSTANTIATE_TEST_SUITE_P(Groups, CudaAllToAll,
                         testing::Values(Setting{"one_rank", 16, 16, 1, 1, 0}, Setting{"one_node", 16, 4, 4, 4, 2},
                                         Setting{"two_nodes", 32, 4, 8, 4, 5}, Setting{"eight_nodes", 64, 1, 64, 8, 63},
                                         Setting{"no_nodes", 16, 2, 8, 1, 3},
                                         Setting{"shared_experts", 16, 4, 8, 4, 3}),
                         [](const auto& tested) { return tested.param.name; });

TEST(CudaDispatchLayout, ExpertsThatDoNotExistHaveNoHome) {
  const ExpertHomes homes{16, 4, 4, 1};
  for (const std::int32_t expert : {-1, 16, 1 << 30}) {
    EXPECT_FALSE(exists(homes, expert));
    EXPECT_EQ(bucket_of({homes, Leg::to_members, 4}, expert), -1);
    EXPECT_EQ(local_number(homes, expert, 0), -1);
  }
}

TEST(CudaDispatchLayout, NodesHoldEquallyManyMembersOrOneEach) {
  const auto per_node = [](std::vector<std::int32_t> ranks) {
    for (std::int32_t& rank : ranks) rank /= 8;
    return members_per_node(ranks);
  };
  EXPECT_EQ(per_node({0}), 1);
  EXPECT_EQ(per_node({0, 1, 2, 3}), 4);
  EXPECT_EQ(per_node({0, 2, 4, 6, 8, 10, 12, 14}), 4);
  EXPECT_EQ(per_node({0, 8, 16}), 1);
  EXPECT_EQ(per_node({0, 1, 2, 8}), 1);        // uneven
  EXPECT_EQ(per_node({6, 7, 8, 9}), 2);        // across a border
  EXPECT_EQ(per_node({0, 1, 8, 9, 2, 3}), 1);  // no two are adjacent
}

TEST(CudaDispatchLayout, WhatLeavesTheNodeSkipsItsOwn) {
  std::vector<std::int64_t> listed;
  for (std::int64_t i = 0; i < 7; ++i) listed.push_back(around_hole(i, 3, 4));
  EXPECT_EQ(listed, (std::vector<std::int64_t>{0, 1, 2, 7, 8, 9, 10}));
  EXPECT_EQ(around_hole(0, 0, 5), 5);
}

TEST(CudaDispatchLayout, RingIsFilledBeforeARecordIsOverwritten) {
  constexpr std::int64_t capacity = 11;
  std::set<std::int64_t> places;
  for (std::int64_t i = 0; i < capacity; ++i) places.insert(sink_place(9, i, capacity));
  EXPECT_EQ(places.size(), static_cast<std::size_t>(capacity));
  EXPECT_EQ(*places.begin(), 0);
  EXPECT_EQ(*places.rbegin(), capacity - 1);
  EXPECT_EQ(sink_place(9, 0, capacity), 9);
}

TEST(CudaDispatchLayout, RowsThatLeaveAreMixedEvenlyWithThoseThatStay) {
  for (const auto& [staying, leaving] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{7, 3}, {3, 7}, {5, 5}, {0, 4}, {4, 0}, {1, 9}, {90, 45}}) {
    std::int64_t left = 0, turn = 0;
    for (; turn < staying || left < leaving; ++turn) {
      ASSERT_LE(turn, staying) << "a turn in which nothing moves";
      while (leaves_now(turn, staying, left, leaving)) ++left;
      // A send is never more than a row ahead of or behind its share.
      if (turn >= staying) continue;
      EXPECT_LE(std::abs(left * staying - (turn + 1) * leaving), std::max(staying, leaving));
    }
    EXPECT_EQ(left, leaving);
    EXPECT_EQ(turn, std::max<std::int64_t>(staying, staying == 0 && leaving > 0 ? 1 : 0));
  }
}

// 14,336 rows of 7,392 B at 50 GB/s: 2.1194 ms.
TEST(CudaDispatchLayout, PaceIsTheNetworks) {
  constexpr std::int64_t rows = 14336, bytes = 7392;
  const auto picoseconds = static_cast<std::int64_t>(bytes * 1000 / 50.0);
  EXPECT_NEAR(static_cast<double>(due_nanoseconds(rows, picoseconds)), 2119434, 1);
  EXPECT_EQ(due_nanoseconds(rows, 0), 0);
}

#if __has_include(<nccl.h>)
TEST(CudaAllToAllNccl, ErrorsGiveTheLibrarysReason) {
  EXPECT_TRUE(nccl_outcome(ncclSuccess, "an all-reduce", "no error", nullptr).ok());
  EXPECT_TRUE(nccl_outcome(ncclInProgress, "an all-reduce", "NCCL operation in progress", "").ok());
  EXPECT_EQ(nccl_outcome(ncclRemoteError, "an all-reduce", "remote process exited", "").failure,
            "an all-reduce failed: remote process exited");
  EXPECT_EQ(nccl_outcome(ncclSystemError, "a message", "unhandled system error", "socket closed").failure,
            "a message failed: unhandled system error, socket closed");
  EXPECT_EQ(nccl_outcome(ncclInternalError, "a message", nullptr, nullptr).failure, "a message failed: unknown error");
}
#endif

}  // namespace
}  // namespace plumbline::tests
