// Dispatch and combine on a GPU: of a group of one rank, and of a rank whose peers are emulated, which receives its own
// rows.
#include "real/cuda/kernels/arithmetic/all_to_all.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "model/base/random.h"
#include "real/cuda/comm/communicator.h"
#include "real/cuda/device/buffer.h"
#include "tests/gpu/gpu.h"

namespace plumbline::tests {
namespace {

using model::DataType;
using model::OperatorKind;

constexpr std::int64_t tokens = 173, hidden = 256, choices = 6;
constexpr std::int32_t ranks = 16, rank = 5, experts = 32;
constexpr double nic_gbps = 0.05;  // Gb/s; so slow that the pacing takes longer than all else

using Values = std::vector<float>;

class GpuAllToAll : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    model::Random random(3);
    for (std::int64_t t = 0; t < tokens; ++t) {
      std::vector<std::int32_t> order(experts);
      std::iota(order.begin(), order.end(), 0);
      for (std::size_t i = 0; i < choices; ++i) {
        const double pick = random.uniform() * (experts - static_cast<double>(i));
        std::swap(order[i], order[i + static_cast<std::size_t>(pick)]);
        indices_.push_back(static_cast<float>(order[i]));
      }
    }
  }

  // Sets the group and whether its other members are emulated.
  void use(bool emulated) {
    if (emulated) {
      communicator_ = real::cuda::make_emulated_communicator(
          device(), {.ranks = ranks, .rank = rank, .ranks_per_node = 4, .nic_gbps = nic_gbps, .communication_sms = 4});
      group_ = real::all_ranks(ranks, rank);
    } else {
      channel_ = real::lone_channel();
      auto made = real::cuda::make_communicator(device(), *channel_, {.communication_sms = 4});
      ASSERT_TRUE(made) << made.error().message;
      communicator_ = std::move(*made);
      group_ = {{0}, 0};
    }
    const auto size = static_cast<std::int32_t>(group_.size());
    homes_ = {experts, experts / size, size, group_.position};
  }

  struct Held {
    model::Tensor tensor;
    real::BufferPointer buffer;
  };
  Held hold(const std::string& name, DataType type, std::int64_t columns, bool routed = false) {
    const model::Dimension rows{tokens, routed ? model::Extent::received : model::Extent::tokens};
    Held held{{.name = name, .shape = {rows, {columns}}, .type = type}, nullptr};
    held.buffer = device().allocate(held.tensor);
    return held;
  }
  Values random_values(std::int64_t count, std::uint64_t seed) {
    model::Random random(seed);
    Values values(static_cast<std::size_t>(count));
    for (float& value : values) value = static_cast<float>(random.normal());
    return values;
  }
  // Writes random numbers and returns them as the format holds them.
  Values fill(Held& held, std::uint64_t seed) {
    const auto& buffer = static_cast<const real::cuda::CudaBuffer&>(*held.buffer);
    device().write(*held.buffer, random_values(buffer.elements(), seed));
    return device().read(*held.buffer);
  }
  void poison(Held& held) {
    const auto& buffer = static_cast<const real::cuda::CudaBuffer&>(*held.buffer);
    device().write(*held.buffer,
                   Values(static_cast<std::size_t>(buffer.elements()), std::numeric_limits<float>::quiet_NaN()));
  }

  void launch(OperatorKind kind, const std::vector<Held*>& reads, const std::vector<Held*>& writes,
              std::uint32_t label = 0) {
    model::Operator op{.kind = kind, .name = std::string(to_string(kind))};
    op.attributes = model::DispatchAttributes{experts, homes_.per_rank, choices, 0};
    real::Kernel kernel{.op = &op};
    for (Held* held : reads) kernel.reads.push_back(held->buffer.get());
    for (Held* held : writes) kernel.writes.push_back(held->buffer.get());
    kernel.label = label;
    communicator_->launch(model::Stream::communication, group_, kernel);
  }

  // The rows that leave, by member, then by token.
  struct Send {
    std::int32_t member;
    std::size_t token;
  };
  std::vector<Send> sends() const {
    std::vector<Send> list;
    for (std::int32_t member = 0; member < homes_.members; ++member)
      for (std::size_t t = 0; t < tokens; ++t)
        if (members_of(t).contains(member)) list.push_back({member, t});
    return list;
  }
  std::set<std::int32_t> members_of(std::size_t token) const {
    std::set<std::int32_t> members;
    for (std::size_t i = 0; i < choices; ++i)
      members.insert(static_cast<std::int32_t>(indices_[token * choices + i]) / homes_.per_rank);
    return members;
  }

  void check(DataType payload, bool emulated);

  Values indices_;
  real::Group group_;
  real::cuda::ExpertHomes homes_;
  std::unique_ptr<real::ControlChannel> channel_;
  std::unique_ptr<real::Communicator> communicator_;
};

void expect_sums(const Values& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  // Errors are one rounding to BF16, and FP32 additions of a few numbers below 5.
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], std::abs(want[i]) * 0x1p-8 + 1e-5) << "element " << i;
}

void GpuAllToAll::check(DataType payload, bool emulated) {
  use(emulated);
  Held x = hold("x", payload, hidden), indices = hold("indices", DataType::int32, choices),
       weights = hold("weights", DataType::fp32, choices);
  Held received = hold("received", payload, hidden, true), local = hold("local", DataType::int32, choices, true),
       received_weights = hold("received_weights", DataType::fp32, choices, true);
  const Values stored = fill(x, 1), stored_weights = fill(weights, 2);
  device().write(*indices.buffer, indices_);
  // The operator runs twice: the first call determines the shapes, and the poison before the second shows what it does
  // not write.
  launch(OperatorKind::dispatch, {&x, &indices, &weights}, {&received, &local, &received_weights});
  ASSERT_TRUE(device().synchronize());
  for (Held* held : {&received, &received_weights}) poison(*held);
  launch(OperatorKind::dispatch, {&x, &indices, &weights}, {&received, &local, &received_weights});
  const auto done = device().synchronize();
  ASSERT_TRUE(done) << done.error().message;

  const std::vector<Send> list = sends();
  const Values rows = device().read(*received.buffer), numbers = device().read(*local.buffer),
               row_weights = device().read(*received_weights.buffer);
  ASSERT_EQ(rows.size(), list.size() * hidden);
  std::vector<std::int64_t> per_expert(static_cast<std::size_t>(homes_.per_rank));
  for (std::size_t s = 0; s < list.size(); ++s) {
    for (std::size_t c = 0; c < hidden; ++c) ASSERT_EQ(rows[s * hidden + c], stored[list[s].token * hidden + c]);
    for (std::size_t i = 0; i < choices; ++i) {
      const auto expert = static_cast<std::int32_t>(indices_[list[s].token * choices + i]);
      const std::int32_t number = expert / homes_.per_rank == list[s].member ? expert % homes_.per_rank : -1;
      ASSERT_EQ(numbers[s * choices + i], static_cast<float>(number));
      ASSERT_EQ(row_weights[s * choices + i], stored_weights[list[s].token * choices + i]);
      if (number >= 0) ++per_expert[static_cast<std::size_t>(number)];
    }
  }
  launch(OperatorKind::dispatch, {&x, &indices, &weights}, {&received, &local, &received_weights});
  EXPECT_EQ(static_cast<const real::cuda::CudaBuffer&>(*local.buffer).known, per_expert);

  // The rows that come back differ from each other.
  Held y = hold("y", DataType::bf16, hidden, true), addend = hold("addend", DataType::bf16, hidden),
       out = hold("out", DataType::bf16, hidden);
  ASSERT_TRUE(static_cast<real::cuda::CudaBuffer&>(*y.buffer).resize(static_cast<std::int64_t>(list.size())).ok());
  const Values made = fill(y, 4), added = fill(addend, 5);
  poison(out);
  launch(OperatorKind::combine, {&y, &indices, &addend}, {&out});
  std::vector<double> sums(added.begin(), added.end());
  for (std::size_t s = 0; s < list.size(); ++s)
    for (std::size_t c = 0; c < hidden; ++c) sums[list[s].token * hidden + c] += made[s * hidden + c];
  expect_sums(device().read(*out.buffer), sums);

  Held dout = hold("dout", payload, hidden), dy = hold("dy", payload, hidden, true);
  const Values gradient = fill(dout, 6);
  launch(OperatorKind::combine_grad, {&dout, &indices}, {&dy});
  const Values sent = device().read(*dy.buffer);
  ASSERT_EQ(sent.size(), list.size() * hidden);
  for (std::size_t s = 0; s < list.size(); ++s)
    for (std::size_t c = 0; c < hidden; ++c) ASSERT_EQ(sent[s * hidden + c], gradient[list[s].token * hidden + c]);

  Held dx = hold("dx", DataType::bf16, hidden), dweights = hold("dweights", DataType::fp32, choices);
  poison(dx);
  poison(dweights);
  launch(OperatorKind::dispatch_grad, {&y, &received_weights, &indices}, {&dx, &dweights});
  std::vector<double> dx_sums(tokens * hidden), dweight_sums(tokens * choices);
  for (std::size_t s = 0; s < list.size(); ++s) {
    for (std::size_t c = 0; c < hidden; ++c) dx_sums[list[s].token * hidden + c] += made[s * hidden + c];
    for (std::size_t i = 0; i < choices; ++i) dweight_sums[list[s].token * choices + i] += row_weights[s * choices + i];
  }
  expect_sums(device().read(*dx.buffer), dx_sums);
  expect_sums(device().read(*dweights.buffer), dweight_sums);
  const auto ended = device().synchronize();
  EXPECT_TRUE(ended) << ended.error().message;
}

TEST_F(GpuAllToAll, OneRankInBf16) { check(DataType::bf16, false); }
TEST_F(GpuAllToAll, OneRankInFp8) { check(DataType::fp8_tile, false); }
TEST_F(GpuAllToAll, EmulatedRankInBf16) { check(DataType::bf16, true); }
TEST_F(GpuAllToAll, EmulatedRankInFp8) { check(DataType::fp8_tile, true); }

// Tokens leave once for each other node, in records of values, indices and weights.
TEST_F(GpuAllToAll, LeavesAtThePaceOfTheNetwork) {
  use(true);
  Held x = hold("x", DataType::bf16, hidden), indices = hold("indices", DataType::int32, choices),
       weights = hold("weights", DataType::fp32, choices);
  Held received = hold("received", DataType::bf16, hidden, true), local = hold("local", DataType::int32, choices, true),
       received_weights = hold("received_weights", DataType::fp32, choices, true);
  fill(x, 1);
  fill(weights, 2);
  device().write(*indices.buffer, indices_);
  for (const std::uint32_t label : {1U, 2U})
    launch(OperatorKind::dispatch, {&x, &indices, &weights}, {&received, &local, &received_weights}, label);
  ASSERT_TRUE(device().synchronize());

  std::int64_t leaving = 0;
  for (std::size_t t = 0; t < tokens; ++t) {
    std::set<std::int32_t> nodes;
    for (const std::int32_t member : members_of(t)) nodes.insert(member / 4);
    nodes.erase(rank / 4);
    leaving += static_cast<std::int64_t>(nodes.size());
  }
  constexpr double record_bytes = hidden * 2 + 2 * 32;  // indices and weights of 24 bytes each, at multiples of 16
  const double seconds = static_cast<double>(leaving - 1) * record_bytes / (nic_gbps * 1e9);
  for (const real::KernelRecord& record : device().take_records()) {
    if (record.label != 2) continue;  // the first call also allocates host memory
    EXPECT_GE(record.end - record.start, seconds * 0.999);
    EXPECT_LE(record.end - record.start, seconds * 1.2 + 200e-6);
  }
}

TEST_F(GpuAllToAll, ExpertThatDoesNotExistIsNamed) {
  use(false);
  Held x = hold("x", DataType::bf16, hidden), indices = hold("indices", DataType::int32, choices),
       weights = hold("weights", DataType::fp32, choices);
  Held received = hold("received", DataType::bf16, hidden, true), local = hold("local", DataType::int32, choices, true),
       received_weights = hold("received_weights", DataType::fp32, choices, true);
  indices_[7] = experts;
  device().write(*indices.buffer, indices_);
  launch(OperatorKind::dispatch, {&x, &indices, &weights}, {&received, &local, &received_weights});
  const auto done = device().synchronize();
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message.find("experts that do not exist"), std::string::npos) << done.error().message;
}

}  // namespace
}  // namespace plumbline::tests
