// Communication of ranks over NCCL, with threads for ranks and stand-ins for their GPUs and for NCCL: collectives,
// messages, and the end of all ranks when one is lost. Kernels and host code are those of a GPU.
#include "real/cuda/comm/nccl/other_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "real/cuda/vendor/library_search.h"
#include "tests/support/host_gpu/ranks.h"

namespace plumbline::tests {
namespace {

using host_gpu::make_buffer;
using host_gpu::numbers_of;
using host_gpu::on_gpus;
using host_gpu::put;
using host_gpu::Rank;
using model::OperatorKind;
using real::all_ranks;
using real::cuda::CudaBuffer;
using real::cuda::Format;
using real::cuda::Status;
using testing::HasSubstr;

using Values = std::vector<float>;

// Makes communicators of the device report that another rank is lost.
void fail_device(int device) {
  using real::cuda::Library;
  std::string error;
  const auto library = Library::open(real::cuda::known_library("NCCL"), {PLUMBLINE_HOST_NCCL_DIR}, error);
  ASSERT_NE(library, nullptr) << error;
  void (*fail)(int) = nullptr;
  ASSERT_TRUE(library->load(fail, "host_nccl_fail_device"));
  fail(device);
}

// Returns small whole numbers, which every format holds exactly, as it does their sums.
float entry(std::int32_t rank, std::size_t i) { return static_cast<float>((rank * 5 + static_cast<int>(i) * 3) % 11); }
Values entries(std::int32_t rank, std::size_t count) {
  Values values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(entry(rank, i));
  return values;
}

Status collective(const Rank& rank, OperatorKind kind, const real::Group& group, CudaBuffer& in, CudaBuffer& out) {
  const model::Operator op{.kind = kind, .name = "a collective"};
  real::Kernel kernel{.op = &op};
  kernel.reads = {&in};
  kernel.writes = {&out};
  return rank.others.launch(group, kernel, rank.stream);
}

class Collectives : public testing::TestWithParam<Format> {};

void check_collectives(const Rank& rank, const real::Group& group, Format format) {
  constexpr std::size_t part = 6;
  const auto size = static_cast<std::size_t>(group.size());
  const auto whole = make_buffer(format, 3, entries(rank.number(), size * part));
  const auto own = make_buffer(format, 3, entries(rank.number(), part));
  const auto sum = make_buffer(format, static_cast<std::int64_t>(size * part / 3), 3);
  const auto piece = make_buffer(format, 1, 3), gathered = make_buffer(format, 1, 3);  // sizes grow
  rank.expect(collective(rank, OperatorKind::all_reduce, group, *whole, *sum));
  rank.expect(collective(rank, OperatorKind::reduce_scatter, group, *whole, *piece));
  rank.expect(collective(rank, OperatorKind::all_gather, group, *own, *gathered));
  rank.expect(collective(rank, OperatorKind::all_reduce, group, *whole, *whole));  // in place
  rank.synchronize();

  Values sums(size * part), all;
  for (const std::int32_t member : group.ranks) {
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += entry(member, i);
    for (std::size_t i = 0; i < part; ++i) all.push_back(entry(member, i));
  }
  EXPECT_EQ(numbers_of(*sum), sums);
  EXPECT_EQ(numbers_of(*whole), sums);
  const auto first = sums.begin() + group.position * static_cast<std::ptrdiff_t>(part);
  EXPECT_EQ(numbers_of(*piece), Values(first, first + static_cast<std::ptrdiff_t>(part)));
  EXPECT_EQ(numbers_of(*gathered), all);
}

TEST_P(Collectives, AddAndGather) {
  on_gpus(4, [](const Rank& rank) { check_collectives(rank, all_ranks(4, rank.number()), GetParam()); });
}

// Collectives of separate groups, then of all ranks, then of the groups again.
TEST_P(Collectives, OfGroupsAndAll) {
  on_gpus(4, [](const Rank& rank) {
    const real::Group half{{rank.number() % 2, rank.number() % 2 + 2}, rank.number() / 2};
    check_collectives(rank, half, GetParam());
    check_collectives(rank, all_ranks(4, rank.number()), GetParam());
    check_collectives(rank, half, GetParam());
  });
}

INSTANTIATE_TEST_SUITE_P(Formats, Collectives,
                         testing::Values(Format::fp32, Format::bf16, Format::fp16, Format::int32));

TEST(Collective, OfATensorThatNcclDoesNotAddIsNamed) {
  on_gpus(2, [](const Rank& rank) {
    const auto x = make_buffer(Format::fp8_tile, 2, 128);
    EXPECT_EQ(collective(rank, OperatorKind::all_reduce, all_ranks(2, rank.number()), *x, *x).failure,
              "a collective of a tensor that NCCL cannot add");
  });
}

class Messages : public testing::TestWithParam<bool> {};

// Ranks send around a ring of three in both directions, two messages of different sizes on each channel. A sent buffer
// may be written at once, and another round starts while the first is in progress.
TEST_P(Messages, ArriveOnAllChannelsInOrder) {
  on_gpus(3, [](const Rank& rank) {
    const std::int32_t number = rank.number(), next = (number + 1) % 3, before = (number + 2) % 3;
    for (std::int32_t turn = 0; turn < 3; ++turn) {
      std::vector<std::unique_ptr<CudaBuffer>> sent, received;
      std::vector<real::Message> messages;
      std::vector<Values> wanted;
      for (std::int32_t queue = 0; queue < real::message_channels; ++queue)
        for (std::int32_t i = 0; i < 2; ++i) {
          const std::size_t size = 4 + static_cast<std::size_t>(8 * queue + 4 * i);
          const std::int32_t to = queue % 2 == 0 ? next : before, from = queue % 2 == 0 ? before : next;
          const Format format = queue < 2 ? Format::bf16 : Format::fp32;
          sent.push_back(make_buffer(format, 4, entries(number + turn, size)));
          received.push_back(make_buffer(format, static_cast<std::int64_t>(size / 4), 4));
          wanted.push_back(entries(from + turn, size));
          messages.push_back({true, to, 0, sent.back().get(), queue});
          messages.push_back({false, from, 0, received.back().get(), queue});
        }
      rank.expect(rank.others.send_receive(messages, GetParam(), rank.stream));
      for (const auto& buffer : sent)
        cudaMemsetAsync(buffer->view().data, 0,
                        static_cast<std::size_t>(data_bytes(buffer->format(), buffer->elements())), rank.stream);
      rank.synchronize();
      for (std::size_t i = 0; i < received.size(); ++i)
        ASSERT_EQ(numbers_of(*received[i]), wanted[i]) << "message " << i;
    }
  });
}

// A sender continues without its receiver, but with a rendezvous it waits for it.
TEST_P(Messages, WaitForTheReceiverInARendezvous) {
  on_gpus(2, [](const Rank& rank) {
    const bool sends = rank.number() == 0;
    const auto x = make_buffer(Format::fp32, 4, sends ? Values{1, 2, 3, 4} : Values(4));
    const std::vector<real::Message> messages{{sends, 1 - rank.number(), 0, x.get(), 1}};
    const auto post = [&] { rank.expect(rank.others.send_receive(messages, GetParam(), rank.stream)); };
    if (sends) {
      post();
      if (!GetParam()) rank.synchronize();
      rank.meet();
      if (GetParam()) {
        EXPECT_EQ(cudaStreamQuery(rank.stream), cudaErrorNotReady);
      }
      rank.meet();
    } else {
      rank.meet();
      rank.meet();
      post();
    }
    rank.synchronize();
    EXPECT_EQ(numbers_of(*x), (Values{1, 2, 3, 4}));
  });
}

INSTANTIATE_TEST_SUITE_P(Rendezvous, Messages, testing::Bool());

// NCCL would write past the end, or wait forever.
TEST(MessageDeathTest, OfAnotherSizeEndsTheTest) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto body = [](const Rank& rank) {
    const bool sends = rank.number() == 0;
    const auto x = make_buffer(Format::fp32, sends ? 2 : 1, 4);
    const std::vector<real::Message> messages{{sends, 1 - rank.number(), 0, x.get(), 0}};
    rank.expect(rank.others.send_receive(messages, false, rank.stream));
    rank.synchronize();
  };
  EXPECT_DEATH(on_gpus(2, body), "rank 0 sent 32 bytes \\(a message\\), where 16");
}

// Returns the errors of the remaining ranks when rank 1 is lost: they have enqueued a call that waits for it, and call
// again.
std::vector<std::string> told(bool met_before, const std::function<void(const Rank&)>& lose) {
  constexpr std::int32_t ranks = 3, lost = 1;
  std::vector<std::string> reasons;
  std::mutex mutex;
  on_gpus(ranks, [&](const Rank& rank) {
    const real::Group group = all_ranks(ranks, rank.number());
    const auto x = make_buffer(Format::fp32, 4, Values{1, 2, 3, 4});
    const auto call = [&] { return collective(rank, OperatorKind::all_reduce, group, *x, *x); };
    if (met_before) {
      rank.expect(call());
      rank.synchronize();
    }
    rank.meet();
    if (rank.number() == lost) return lose(rank);
    // The first call may already fail. Where it does not, the stream must not wait forever.
    const Status first = call();
    rank.synchronize();
    const Status second = call();
    if (!first.ok()) {
      EXPECT_EQ(first.failure, second.failure);
    }
    const std::scoped_lock lock(mutex);
    reasons.push_back(second.failure);
  });
  return reasons;
}

TEST(LostRank, EndsTheOthersWithItsReason) {
  for (const bool met_before : {false, true}) {
    const auto reasons = told(met_before, [](const Rank& rank) { rank.channel.abort("out of memory"); });
    EXPECT_THAT(reasons, testing::ElementsAre("rank 1: out of memory", "rank 1: out of memory"));
  }
}

TEST(LostRank, IsFoundByItsCommunicators) {
  const auto reasons = told(true, [](const Rank& rank) {
    fail_device(rank.number());
    const auto x = make_buffer(Format::fp32, 4, Values(4));
    const Status own = collective(rank, OperatorKind::all_reduce, all_ranks(3, 1), *x, *x);
    EXPECT_THAT(own.failure, HasSubstr("remote process exited"));
    while (!rank.channel.failure()) std::this_thread::yield();
  });
  EXPECT_EQ(reasons.size(), 2U);
  EXPECT_THAT(reasons, testing::Each(testing::AllOf(HasSubstr("rank 1: "), HasSubstr("remote process exited"))));
}

// Two ranks that send each other tokens.
class SmallAllToAll {
 public:
  explicit SmallAllToAll(const Rank& rank) : rank_(rank) { op_.attributes = model::DispatchAttributes{4, 2, 2, 0}; }
  Status dispatch() { return launch(OperatorKind::dispatch, {&*x_, &*indices_, &*weights_}, {&*y_, &*local_, &*out_}); }
  Status combine_grad() { return launch(OperatorKind::combine_grad, {&*x_, &*indices_}, {&*y_}); }

 private:
  Status launch(OperatorKind kind, std::vector<real::Buffer*> reads, std::vector<real::Buffer*> writes) {
    op_.kind = kind;
    real::Kernel kernel{.op = &op_};
    kernel.reads = std::move(reads);
    kernel.writes = std::move(writes);
    return rank_.others.launch(all_ranks(2, rank_.number()), kernel, rank_.stream);
  }

  const Rank& rank_;
  model::Operator op_{.name = "an all-to-all"};
  const std::unique_ptr<CudaBuffer> x_ = make_buffer(Format::bf16, 1, 64),
                                    indices_ = make_buffer(Format::int32, 2, Values{0, 3}),
                                    weights_ = make_buffer(Format::fp32, 2, Values{1, 2}),
                                    y_ = make_buffer(Format::bf16, 1, 64), local_ = make_buffer(Format::int32, 1, 2),
                                    out_ = make_buffer(Format::fp32, 1, 2);
};

// The all-to-all runs over NCCL, or through the memory of the node.
class LostRankOfAnAllToAll : public testing::TestWithParam<std::int32_t> {};

// The host waits for counts.
TEST_P(LostRankOfAnAllToAll, EndsADispatch) {
  on_gpus(2, GetParam(), [](const Rank& rank) {
    rank.meet();
    if (rank.number() == 1) return rank.channel.abort("out of memory");
    SmallAllToAll all_to_all(rank);
    EXPECT_EQ(all_to_all.dispatch().failure, "rank 1: out of memory");
  });
}

// The GPU waits for rows.
TEST_P(LostRankOfAnAllToAll, EndsACombine) {
  on_gpus(2, GetParam(), [](const Rank& rank) {
    SmallAllToAll all_to_all(rank);
    for (int turn = 0; turn < 2; ++turn) {
      rank.expect(all_to_all.dispatch());
      rank.expect(all_to_all.combine_grad());
      rank.synchronize();
    }
    rank.meet();
    if (rank.number() == 1) return rank.channel.abort("out of memory");
    const Status first = all_to_all.combine_grad();
    rank.synchronize();
    EXPECT_THAT(first.failure, testing::AnyOf("", "rank 1: out of memory"));
    EXPECT_EQ(all_to_all.combine_grad().failure, "rank 1: out of memory");
  });
}

INSTANTIATE_TEST_SUITE_P(OnANode, LostRankOfAnAllToAll, testing::Values(1, 2));

}  // namespace
}  // namespace plumbline::tests
