// Collectives and all-to-alls of four host ranks have the results of the graph's interpreter.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "model/base/random.h"
#include "model/cost/operator_class.h"
#include "real/host/rounding.h"
#include "tests/support/interpreter/interpreter.h"
#include "tests/support/real/host_ranks.h"

namespace plumbline::tests {
namespace {

using model::DataType;
using model::OperatorKind;
using model::TensorId;

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
