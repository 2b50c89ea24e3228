// Messages between stages, and the virtual clocks that they transfer from rank to rank.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/real/host_ranks.h"

namespace plumbline::real::host {
namespace {

using model::DataType;
using model::Stream;
using tests::run_ranks;
using tests::vector_tensor;

BufferPointer filled(HostDevice& device, const std::vector<float>& values, DataType type = DataType::fp32) {
  BufferPointer buffer = device.allocate(vector_tensor(static_cast<std::int64_t>(values.size()), type));
  device.write(*buffer, values);
  return buffer;
}

struct Setting {
  bool rendezvous = false, threads = true;
};
class HostMessages : public testing::TestWithParam<Setting> {};

// Ranks send around a ring of three: two messages of one tag, and one of 16 bits with another.
TEST_P(HostMessages, ArriveInOrder) {
  run_ranks(3, {.threads = GetParam().threads}, [](HostDevice& device, Communicator& communicator) {
    const std::int32_t rank = communicator.rank(), next = (rank + 1) % 3, before = (rank + 2) % 3;
    const auto number = static_cast<float>(rank), theirs = static_cast<float>(before);
    const BufferPointer first = filled(device, {number, 1}), second = filled(device, {number, 2}),
                        third = filled(device, {number, 0.5}, DataType::bf16);
    const BufferPointer a = filled(device, {9, 9}), b = filled(device, {9, 9}),
                        c = filled(device, {9, 9}, DataType::bf16);
    const std::vector<Message> messages{{true, next, 5, first.get()}, {true, next, 5, second.get()},
                                        {true, next, 6, third.get()}, {false, before, 6, c.get()},
                                        {false, before, 5, a.get()},  {false, before, 5, b.get()}};
    communicator.send_receive(Stream::pipeline, messages, GetParam().rendezvous, 3);
    ASSERT_TRUE(device.synchronize());
    EXPECT_EQ(device.read(*a), (std::vector<float>{theirs, 1}));
    EXPECT_EQ(device.read(*b), (std::vector<float>{theirs, 2}));
    EXPECT_EQ(device.read(*c), (std::vector<float>{theirs, 0.5}));
  });
}

INSTANTIATE_TEST_SUITE_P(Settings, HostMessages,
                         testing::Values(Setting{false, true}, Setting{true, true}, Setting{false, false},
                                         Setting{true, false}));

TEST(HostMessage, OfAnotherSizeIsAnError) {
  run_ranks(2, {}, [](HostDevice& device, Communicator& communicator) {
    const bool sends = communicator.rank() == 0;
    const BufferPointer x = device.allocate(vector_tensor(sends ? 3 : 2));
    const std::vector<Message> messages{{sends, 1 - communicator.rank(), 0, x.get()}};
    communicator.send_receive(Stream::pipeline, messages, false, 0);
    const model::Result<void> done = device.synchronize();
    EXPECT_EQ(done ? "" : done.error().message, sends ? "" : "a packet holds 4 bytes too many");
  });
}

// Returns the times at which both ranks end when rank 1 is `late` seconds behind, on virtual clocks.
std::vector<double> ends(bool late_rank_sends, bool rendezvous) {
  constexpr double late = 1000;
  std::vector<double> result(2);
  run_ranks(2, {.clock = ClockKind::cpu}, [&](HostDevice& device, Communicator& communicator) {
    const bool is_late = communicator.rank() == 1;
    if (is_late)
      device.enqueue(Stream::pipeline, {[](StreamClock& clock) { clock.advance_to(late); }, [](StreamClock&) {}, 0});
    const BufferPointer x = device.allocate(vector_tensor(4));
    const std::vector<Message> messages{{is_late == late_rank_sends, 1 - communicator.rank(), 0, x.get()}};
    communicator.send_receive(Stream::pipeline, messages, rendezvous, 0);
    ASSERT_TRUE(device.synchronize());
    result[static_cast<std::size_t>(communicator.rank())] = device.now() / late;
  });
  return result;
}

TEST(VirtualClock, OfAReceiverIsNotBeforeItsSender) {
  const std::vector<double> late = ends(true, false);
  EXPECT_GE(late[0], 1);
  EXPECT_GE(late[1], 1);
}

TEST(VirtualClock, OfASenderWaitsForItsReceiverInARendezvousOnly) {
  EXPECT_LT(ends(false, false)[0], 1);
  EXPECT_GE(ends(false, true)[0], 1);
}

TEST(VirtualClock, OfACollectiveIsThatOfItsLastRank) {
  run_ranks(3, {.clock = ClockKind::cpu}, [](HostDevice& device, Communicator& communicator) {
    constexpr double late = 1000;
    if (communicator.rank() == 1)
      device.enqueue(Stream::collective, {[](StreamClock& clock) { clock.advance_to(late); }, [](StreamClock&) {}, 0});
    const BufferPointer x = device.allocate(vector_tensor(3));
    const model::Operator op{.kind = model::OperatorKind::all_reduce, .name = "sum"};
    Kernel kernel{.op = &op};
    kernel.reads = kernel.writes = {x.get()};
    communicator.launch(Stream::collective, all_ranks(3, communicator.rank()), kernel);
    ASSERT_TRUE(device.synchronize());
    EXPECT_GE(device.now(), late);
  });
}

}  // namespace
}  // namespace plumbline::real::host
