// Tests which stream may take returned memory, and when.
#include "real/executor/step/buffer_pool.h"

#include <gtest/gtest.h>

#include "tests/support/real/imaginary_device.h"

namespace plumbline::real {
namespace {

using model::Stream;

model::Tensor tensor(std::int64_t rows, model::DataType type = model::DataType::bf16) {
  return {.name = "x", .shape = {{rows, model::Extent::tokens}, {8}}, .type = type};
}

class BufferPoolTest : public testing::Test {
 protected:
  Buffer* give_and_take(std::optional<Stream> only_user, Stream next, const model::Tensor& wanted) {
    BufferPointer first = pool_.take(tensor(4), Stream::compute);
    given_ = first.get();
    pool_.give_back(tensor(4), std::move(first), only_user);
    kept_.push_back(pool_.take(wanted, next));
    return kept_.back().get();
  }

  tests::ImaginaryDevice device_{tests::ImaginaryTimes{}};
  BufferPool pool_{device_};
  Buffer* given_ = nullptr;
  std::vector<BufferPointer> kept_;
};

TEST_F(BufferPoolTest, AStreamFollowsItself) {
  EXPECT_EQ(give_and_take(Stream::compute, Stream::compute, tensor(4)), given_);
}

TEST_F(BufferPoolTest, WithinASlotAnotherStreamDoesNot) {
  EXPECT_NE(give_and_take(Stream::compute, Stream::communication, tensor(4)), given_);
}

TEST_F(BufferPoolTest, WhatSeveralStreamsUsedIsFreeInTheNextSlotOnly) {
  EXPECT_NE(give_and_take(std::nullopt, Stream::compute, tensor(4)), given_);
  pool_.end_slot();
  EXPECT_EQ(pool_.take(tensor(4), Stream::communication).get(), given_);
}

TEST_F(BufferPoolTest, OtherShapesAndFormatsHaveMemoryOfTheirOwn) {
  EXPECT_NE(give_and_take(Stream::compute, Stream::compute, tensor(5)), given_);
  EXPECT_NE(give_and_take(Stream::compute, Stream::compute, tensor(4, model::DataType::fp32)), given_);
}

// A kernel that takes the memory of a message in transfer would start 0.4 ms too early.
TEST_F(BufferPoolTest, AMessageLeavesBeforeItsMemoryIsTaken) {
  model::Operator all_to_all{.kind = model::OperatorKind::dispatch, .name = "dispatch"};
  Kernel kernel;
  kernel.op = &all_to_all;
  device_.launch(Stream::communication, kernel);
  BufferPointer sent = pool_.take(tensor(4), Stream::communication);
  pool_.give_back(tensor(4), std::move(sent), std::nullopt, device_.record(Stream::communication));
  pool_.end_slot();
  const BufferPointer taken = pool_.take(tensor(4), Stream::compute);
  model::Operator add{.kind = model::OperatorKind::add, .name = "add"};
  kernel.op = &add;
  kernel.label = 7;
  device_.launch(Stream::compute, kernel);
  ASSERT_TRUE(device_.synchronize());
  double all_to_all_end = 0, add_start = 0;
  for (const KernelRecord& record : device_.take_records())
    (record.label == 7 ? add_start : all_to_all_end) = record.label == 7 ? record.start : record.end;
  EXPECT_GT(all_to_all_end, 0);
  EXPECT_GE(add_start, all_to_all_end);
}

}  // namespace
}  // namespace plumbline::real
