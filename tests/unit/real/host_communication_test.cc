#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "model/base/random.h"
#include "model/cost/operator_class.h"
#include "real/host/comm/communicator.h"
#include "real/host/comm/packing.h"
#include "real/host/comm/transport.h"
#include "real/host/pool.h"
#include "real/host/rounding.h"
#include "tests/support/interpreter/interpreter.h"
#include "tests/support/real/host_ranks.h"
#include "tests/support/real/transport_contract.h"

namespace plumbline::real::host {
namespace {

using model::DataType;
using model::OperatorKind;
using model::Stream;
using tests::run_ranks;
using tests::vector_tensor;

class InProcess : public testing::TestWithParam<std::int32_t> {};

TEST_P(InProcess, KeepsTheContract) {
  std::vector<std::string> wrong(static_cast<std::size_t>(GetParam()), "not run");
  tests::run_ranks(GetParam(), [&](Transport& transport) {
    wrong[static_cast<std::size_t>(transport.rank())] = tests::check_transport(transport);
  });
  for (const std::string& what : wrong) EXPECT_EQ(what, "");
}

INSTANTIATE_TEST_SUITE_P(Ranks, InProcess, testing::Values(1, 2, 3, 8));

// Returns the text of the exception that a call throws, "" if it does not.
template <class Body>
std::string failure_of(Body body) {
  try {
    body();
    return "";
  } catch (const RankFailure& failure) {
    return failure.what();
  }
}

TEST(InProcessAbort, WakesWhoWaitsAndNamesTheRank) {
  std::vector<std::string> heard(4);
  tests::run_ranks(4, [&](Transport& transport) {
    if (transport.rank() == 2) return transport.abort("out of memory");
    heard[static_cast<std::size_t>(transport.rank())] = failure_of([&] { transport.receive(2, {}); });
  });
  EXPECT_EQ(heard,
            (std::vector<std::string>{"rank 2: out of memory", "rank 2: out of memory", "", "rank 2: out of memory"}));
}

TEST(InProcessAbort, EndsLaterCallsToo) {
  const auto transports = in_process_transports(2);
  transports[0]->send(1, {}, {});
  transports[1]->abort("lost its disk");
  EXPECT_EQ(failure_of([&] { transports[0]->send(1, {}, {}); }), "rank 1: lost its disk");
  EXPECT_EQ(failure_of([&] { transports[0]->receive(1, {}); }), "rank 1: lost its disk");
  // Packets that arrived before do not count either: the job is over.
  EXPECT_EQ(failure_of([&] { transports[1]->receive(0, {}); }), "rank 1: lost its disk");
}

TEST(InProcessAbort, GivesAllRanksTheFirstFailure) {
  const auto transports = in_process_transports(3);
  transports[1]->abort("first");
  transports[0]->abort("because of rank 1");
  for (const auto& transport : transports) EXPECT_EQ(failure_of([&] { transport->receive(0, {}); }), "rank 1: first");
}

// Messages between stages, and the virtual clocks that they transfer from rank to rank.

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

constexpr std::int32_t ranks = 4;

std::vector<float> random_vector(std::size_t size, DataType type, std::int32_t rank) {
  model::Random random(static_cast<std::uint64_t>(rank) + 1);
  std::vector<float> values(size);
  for (float& value : values) value = static_cast<float>(std::exp(4 * random.normal()) * random.normal());
  round_to(type, values);
  return values;
}

BufferPointer filled(HostDevice& device, DataType type, const std::vector<float>& values) {
  BufferPointer buffer = device.allocate(vector_tensor(static_cast<std::int64_t>(values.size()), type));
  device.write(*buffer, values);
  return buffer;
}

// The operator lives as long as the tests, as streams run it later.
Kernel kernel_of(OperatorKind kind, Buffer& in, Buffer& out) {
  static const std::array<model::Operator, 3> operators = {
      {{.kind = OperatorKind::all_reduce, .name = "collective"},
       {.kind = OperatorKind::reduce_scatter, .name = "collective"},
       {.kind = OperatorKind::all_gather, .name = "collective"}}};
  Kernel kernel;
  kernel.op = &*std::ranges::find(operators, kind, &model::Operator::kind);
  kernel.reads = {&in};
  kernel.writes = {&out};
  kernel.label = 7;
  return kernel;
}

struct Sum {
  DataType type = DataType::fp32;
  std::size_t size = 0;
};
class HostSums : public testing::TestWithParam<Sum> {};

// Every rank has the same bits: those of adding rank after rank in FP32 and rounding once.
TEST_P(HostSums, HaveTheSameBitsEverywhere) {
  const auto [type, size] = GetParam();
  std::vector<float> expected(size, 0.0F);
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    const std::vector<float> part = random_vector(size, type, rank);
    for (std::size_t i = 0; i < size; ++i) expected[i] += part[i];
  }
  round_to(type, expected);
  std::array<std::vector<float>, ranks> sums, in_place;
  run_ranks(ranks, {}, [&](HostDevice& device, Communicator& communicator) {
    const std::int32_t rank = communicator.rank();
    const BufferPointer part = filled(device, type, random_vector(size, type, rank));
    const BufferPointer sum = device.allocate(vector_tensor(static_cast<std::int64_t>(size), type));
    communicator.launch(model::Stream::collective, all_ranks(ranks, rank),
                        kernel_of(OperatorKind::all_reduce, *part, *sum));
    communicator.launch(model::Stream::collective, all_ranks(ranks, rank),
                        kernel_of(OperatorKind::all_reduce, *part, *part));
    ASSERT_TRUE(device.synchronize());
    sums[static_cast<std::size_t>(rank)] = device.read(*sum);
    in_place[static_cast<std::size_t>(rank)] = device.read(*part);
  });
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    ASSERT_EQ(sums[rank].size(), size);
    EXPECT_EQ(std::memcmp(sums[rank].data(), expected.data(), size * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(in_place[rank].data(), expected.data(), size * sizeof(float)), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, HostSums,
                         testing::Values(Sum{DataType::fp32, 4096}, Sum{DataType::fp32, 1001}, Sum{DataType::fp32, 3},
                                         Sum{DataType::bf16, 1001}, Sum{DataType::fp16, 1001}));

// Shards have unequal sizes and different formats; a rank's own shard is already in its place.
TEST(HostCollectives, GathersAnyPieces) {
  run_ranks(ranks, {}, [](HostDevice& device, Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    const BufferPointer piece = filled(device, DataType::fp32, std::vector<float>(rank, 1.0F + 0x1p-20F));
    const BufferPointer all = device.allocate(vector_tensor(1, DataType::bf16));
    communicator.launch(model::Stream::collective, all_ranks(ranks, communicator.rank()),
                        kernel_of(OperatorKind::all_gather, *piece, *all));

    const BufferPointer flat = device.allocate(vector_tensor(8));
    const BufferPointer shard = device.view(*flat, 2 * communicator.rank(), vector_tensor(2));
    device.write(*shard, std::vector<float>(2, static_cast<float>(rank)));
    communicator.launch(model::Stream::collective, all_ranks(ranks, communicator.rank()),
                        kernel_of(OperatorKind::all_gather, *shard, *flat));
    ASSERT_TRUE(device.synchronize());
    EXPECT_EQ(device.read(*all), std::vector<float>(6, 1.0F));
    EXPECT_EQ(device.read(*flat), (std::vector<float>{0, 0, 1, 1, 2, 2, 3, 3}));
  });
}

TEST(HostCollectives, ReportSizesThatDoNotFit) {
  run_ranks(ranks, {}, [](HostDevice& device, Communicator& communicator) {
    const BufferPointer in = device.allocate(vector_tensor(7)), out = device.allocate(vector_tensor(2));
    communicator.launch(model::Stream::collective, all_ranks(ranks, communicator.rank()),
                        kernel_of(OperatorKind::reduce_scatter, *in, *out));
    const model::Result<void> done = device.synchronize();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().message, "a sum of 7 elements does not scatter over 4 ranks");
  });
}

// Whatever a rank waits for, its error names the rank that failed.
TEST(HostCommunicator, AbortEndsTheOthersByName) {
  run_ranks(ranks, {}, [](HostDevice& device, Communicator& communicator) {
    if (communicator.rank() == 2) return communicator.abort("out of memory");
    if (communicator.rank() == 0) {
      EXPECT_EQ(communicator.sum({1}).error().message, "rank 2: out of memory");
      return;
    }
    const BufferPointer x = device.allocate(vector_tensor(8));
    communicator.launch(model::Stream::collective, all_ranks(ranks, communicator.rank()),
                        kernel_of(OperatorKind::all_reduce, *x, *x));
    EXPECT_EQ(device.synchronize().error().message, "rank 2: out of memory");
  });
}

// The message is not sent because its sender's kernel failed, and both ranks have streams that wait.
TEST(HostCommunicator, AFailedKernelEndsTheWaitingOfAllStreams) {
  run_ranks(2, {}, [](HostDevice& device, Communicator& communicator) {
    const BufferPointer buffer = filled(device, DataType::fp32, {1, 2, 3});
    const Message receive{false, 1 - communicator.rank(), 0, buffer.get()};
    communicator.send_receive(model::Stream::communication, {&receive, 1}, false, 1);
    if (communicator.rank() == 1) {
      StreamWork failing;
      failing.start = [](StreamClock&) { throw RankFailure("out of luck"); };
      failing.finish = [](StreamClock&) {};
      device.enqueue(model::Stream::compute, std::move(failing));
    }
    const auto done = device.synchronize();
    ASSERT_FALSE(done);
    EXPECT_NE(done.error().message.find("out of luck"), std::string::npos) << done.error().message;
  });
}

}  // namespace
}  // namespace plumbline::real::host

namespace plumbline::tests {
namespace {

using model::DataType;
using model::OperatorKind;
using model::TensorId;

// Collectives and all-to-alls of four host ranks have the results of the graph's interpreter.

constexpr std::int32_t ranks = 4;
constexpr std::int64_t rank_tokens = 23, hidden = 5, chosen = 3;

struct Setting {
  std::string name;
  DataType type = DataType::fp32;
  bool threads = true;
  std::int64_t experts = 8, experts_per_rank = 2;  // with fewer than ranks * experts_per_rank, ranks share experts
  friend void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }
};

// A graph with nothing but operators between ranks.
class HostAllToAll : public testing::TestWithParam<Setting> {
 protected:
  HostAllToAll() {
    const DataType type = GetParam().type;
    graph_.name = "all-to-alls";
    const TensorId x = input("x", rank_tokens, hidden, type),
                   indices = input("indices", rank_tokens, chosen, DataType::int32),
                   weights = input("weights", rank_tokens, chosen, DataType::fp32),
                   dout = input("dout", rank_tokens, hidden, type);
    const TensorId received = made("received", hidden, type), local = made("local", chosen, DataType::int32),
                   received_weights = made("received_weights", chosen, DataType::fp32);
    const model::DispatchAttributes attributes{GetParam().experts, GetParam().experts_per_rank, chosen, 0};
    emit(OperatorKind::dispatch, {x, indices, weights}, {received, local, received_weights}, attributes);
    const TensorId y = tensor("y", {{rank_tokens}, {hidden}}, type), dy = made("dy", hidden, type);
    emit(OperatorKind::combine, {received, indices, x, dout}, {y}, attributes);
    emit(OperatorKind::combine_grad, {dout, indices}, {dy}, attributes);
    const TensorId dx = tensor("dx", {{rank_tokens}, {hidden}}, type),
                   dweights = tensor("dweights", {{rank_tokens}, {chosen}}, DataType::fp32);
    emit(OperatorKind::dispatch_grad, {dy, received_weights, indices}, {dx, dweights}, attributes);

    const model::CollectiveAttributes all{ranks, 1};
    const TensorId part = input("part", 8, hidden, type), sum = tensor("sum", {{8}, {hidden}}, type),
                   own = tensor("own", {{2}, {hidden}}, type), whole = tensor("whole", {{8}, {hidden}}, type);
    emit(OperatorKind::all_reduce, {part}, {sum}, all);
    emit(OperatorKind::reduce_scatter, {part}, {own}, all);
    emit(OperatorKind::all_gather, {own}, {whole}, all);
  }

  TensorId tensor(const std::string& name, std::vector<model::Dimension> shape, DataType type) {
    graph_.tensors.push_back({.name = name, .shape = std::move(shape), .type = type});
    return static_cast<TensorId>(graph_.tensors.size() - 1);
  }
  TensorId made(const std::string& name, std::int64_t columns, DataType type) {
    return tensor(name, {{rank_tokens, model::Extent::received}, {columns}}, type);
  }
  TensorId input(const std::string& name, std::int64_t rows, std::int64_t columns, DataType type) {
    inputs_.push_back(tensor(name, {{rows}, {columns}}, type));
    return inputs_.back();
  }
  void emit(OperatorKind kind, std::vector<TensorId> reads, std::vector<TensorId> writes,
            model::Attributes attributes) {
    model::Operator op;
    op.kind = kind;
    op.name = "operator " + std::to_string(graph_.operators.size());
    op.reads = std::move(reads);
    op.writes = std::move(writes);
    op.attributes = attributes;
    graph_.operators.push_back(std::move(op));
  }

  // Returns values that the tensor's format holds; indices are distinct experts with different frequencies.
  std::vector<float> random_values(const model::Tensor& tensor, model::Random& random) const {
    std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
    if (tensor.type != DataType::int32) {
      for (float& value : values) value = static_cast<float>(random.normal());
      real::host::round_to(tensor.type, values);
      return values;
    }
    for (std::size_t first = 0; first < values.size(); first += chosen) {
      std::vector<float> experts(static_cast<std::size_t>(GetParam().experts));
      std::iota(experts.begin(), experts.end(), 0.0F);
      for (std::size_t i = 0; i < chosen; ++i) {
        const double pick = random.uniform() * random.uniform() * static_cast<double>(experts.size());
        const auto at = experts.begin() + static_cast<std::ptrdiff_t>(pick);
        values[first + i] = *at;
        experts.erase(at);
      }
    }
    return values;
  }

  using Values = std::vector<std::vector<float>>;  // [tensor]

  // Runs all operators on one rank and returns all tensors.
  Values run(real::host::HostDevice& device, real::Communicator& communicator, const Values& inputs) const {
    std::vector<real::BufferPointer> buffers;
    for (const model::Tensor& tensor : graph_.tensors) buffers.push_back(device.allocate(tensor));
    for (const TensorId id : inputs_) device.write(*buffers[id], inputs[id]);
    for (const model::Operator& op : graph_.operators) {
      real::Kernel kernel{.graph = &graph_, .op = &op};
      for (const TensorId id : op.reads) kernel.reads.push_back(buffers[id].get());
      for (const TensorId id : op.writes) kernel.writes.push_back(buffers[id].get());
      const model::Stream stream = is_all_to_all(op.kind) ? model::Stream::communication : model::Stream::collective;
      communicator.launch(stream, real::all_ranks(ranks, communicator.rank()), kernel);
    }
    const model::Result<void> done = device.synchronize();
    if (!done) {
      ADD_FAILURE() << to_string(done.error());
      communicator.abort(done.error().message);  // else the others would wait
    }
    Values values;
    for (const real::BufferPointer& buffer : buffers) values.push_back(device.read(*buffer));
    return values;
  }

  model::Graph graph_;
  std::vector<TensorId> inputs_;
};

// Returns the largest relative error of one rounding.
double rounding_of_type(DataType type) {
  if (type == DataType::bf16) return 0x1p-8;
  return type == DataType::fp16 ? 0x1p-11 : 0x1p-24;
}

void expect_near(const std::vector<float>& got, const Matrix& want, DataType type, const std::string& what) {
  ASSERT_EQ(got.size(), static_cast<std::size_t>(want.size())) << what;
  constexpr double of_sums = 1e-5;  // of a dozen FP32 additions of numbers below 10
  for (Index i = 0; i < want.size(); ++i)
    ASSERT_NEAR(got[static_cast<std::size_t>(i)], want.data()[i],
                rounding_of_type(type) * std::abs(want.data()[i]) + of_sums)
        << what << ", element " << i;
}

TEST_P(HostAllToAll, GivesWhatTheGraphDefines) {
  model::Random random(11);
  std::vector<Values> inputs(ranks, Values(graph_.tensors.size()));
  Interpreter interpreter(graph_, ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (const TensorId id : inputs_) {
      std::vector<float>& values = inputs[rank][id] = random_values(graph_.tensor(id), random);
      Matrix matrix = zeros(graph_.tensor(id));
      std::ranges::copy(values, matrix.data());
      interpreter.set(rank, id, std::move(matrix));
    }
  }
  interpreter.run(model::Phase::F);

  std::vector<Values> outputs(ranks);
  run_ranks(ranks, {.threads = GetParam().threads},
            [&](real::host::HostDevice& device, real::Communicator& communicator) {
              const auto rank = static_cast<std::size_t>(communicator.rank());
              outputs[rank] = run(device, communicator, inputs[rank]);
            });
  for (std::size_t rank = 0; rank < ranks; ++rank)
    for (TensorId id = 0; id < graph_.tensors.size(); ++id)
      expect_near(outputs[rank][id], interpreter.value(rank, id), graph_.tensor(id).type,
                  "rank " + std::to_string(rank) + ", " + graph_.tensor(id).name);
}

INSTANTIATE_TEST_SUITE_P(Settings, HostAllToAll,
                         testing::Values(Setting{"fp32"}, Setting{"bf16", DataType::bf16},
                                         Setting{"fp16", DataType::fp16}, Setting{"inline", DataType::fp32, false},
                                         Setting{"inline_bf16", DataType::bf16, false},
                                         Setting{"one_expert_each", DataType::fp32, true, 4, 1},
                                         Setting{"shared_experts", DataType::fp32, true, 8, 4},
                                         Setting{"shared_experts_bf16", DataType::bf16, false, 6, 3}),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace plumbline::tests

namespace plumbline::real::host {
namespace {

using model::DataType;

// The numbers of each format are exact, with an odd count of each, so that the next ones start at any even address.
TEST(HostPacking, GivesBackTheBits) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> halves{1.5F, -0.0F, 0x1p-24F, 65504.0F, -infinity}, brain{0x1.8p127F, -1.0F, infinity},
      floats{1.0F + 0x1p-23F, -0x1p-149F, 16777216.0F};
  Packer packer(0);
  packer.add(DataType::fp16, halves);
  packer.add(DataType::fp32, floats);
  packer.add(DataType::bf16, brain);
  packer.add(DataType::int32, floats);
  const std::vector<std::byte> bytes = packer.take();
  EXPECT_EQ(bytes.size(), 5U * 2 + 3 * 4 + 3 * 2 + 3 * 4);
  Unpacker unpacker(bytes);
  const auto expect_next = [&](DataType type, const std::vector<float>& expected) {
    std::vector<float> got(expected.size());
    unpacker.copy(type, got);
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0) << to_string(type);
  };
  expect_next(DataType::fp16, halves);
  expect_next(DataType::fp32, floats);
  expect_next(DataType::bf16, brain);
  expect_next(DataType::int32, floats);
  unpacker.finish();
}

TEST(HostPacking, KeepsNotANumber) {
  for (const DataType type : {DataType::bf16, DataType::fp16, DataType::fp32}) {
    Packer packer(0);
    packer.add(type, std::vector<float>{std::nanf("")});
    std::vector<float> got{0};
    Unpacker(packer.take()).copy(type, got);
    EXPECT_TRUE(std::isnan(got[0])) << to_string(type);
  }
}

TEST(HostPacking, ReportsAPacketThatDoesNotFit) {
  Packer packer(0);
  packer.add(DataType::fp32, std::vector<float>(3));
  const std::vector<std::byte> bytes = packer.take();
  std::vector<float> two(2), four(4);
  const auto failure = [](auto body) -> std::string {
    try {
      body();
    } catch (const RankFailure& wrong) {
      return wrong.what();
    }
    return "";
  };
  EXPECT_EQ(failure([&] { Unpacker(bytes).copy(DataType::fp32, four); }),
            "a packet ends 4 bytes before what it should hold");
  EXPECT_EQ(failure([&] {
              Unpacker unpacker(bytes);
              unpacker.copy(DataType::fp32, two);
              unpacker.finish();
            }),
            "a packet holds 4 bytes too many");
}

}  // namespace
}  // namespace plumbline::real::host
