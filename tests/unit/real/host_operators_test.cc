// Every operator of the host compared with the interpreter's, on the blocks of tiny models: both read the same tensors.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "real/host/operators/operators.h"
#include "real/host/pool.h"
#include "tests/support/interpreter/interpreter.h"
#include "tests/support/operator_blocks.h"
#include "tests/support/real/host_operator.h"

namespace plumbline::tests {
namespace {

using model::Graph;
using model::OperatorKind;
using model::TensorId;

constexpr double tolerance = 1e-4;      // relative to the largest entry: FP32 compared with double precision
constexpr float zero_rounding = 1e-6f;  // of gradients that are zero

// Returns the layers in their FP32 and FP8 forms; narrower formats are not compared here.
std::vector<Graph> blocks() {
  std::vector<Graph> graphs;
  for (const model::Precision precision : {model::Precision::fp32, model::Precision::fp8})
    for (const Graph& graph : operator_blocks(tiny_models(), precision, tiny_operator_context))
      graphs.push_back(widened(graph));
  return graphs;
}

// Runs one graph on both. The host reads the interpreter's tensors, so that errors do not add up, but accumulates in
// its own memory.
class Comparison {
 public:
  Comparison(const Graph& graph, int cores) : graph_(graph), interpreter_(graph, 1), cores_(cores) {
    model::Random random(5);
    for (TensorId id = 0; id < graph.tensors.size(); ++id) {
      const model::Tensor& tensor = graph.tensor(id);
      if (tensor.role == model::Role::activation || tensor.role == model::Role::host) continue;
      const Matrix value = start_value(tensor, tiny_sequence_length, random);
      interpreter_.set(0, id, value);
      if (tensor.role == model::Role::gradient || tensor.role == model::Role::cache)
        accumulated_[id] = make_buffer(pool_, tensor.type, value.cast<float>());
    }
    for (const model::Phase phase : {model::Phase::F, model::Phase::I, model::Phase::W}) interpreter_.run(phase);
  }

  void run(std::set<OperatorKind>& covered) {
    for (const model::Operator& op : graph_.operators)
      if (real::host::function_of(op.kind)) {
        covered.insert(op.kind);
        run(op);
      }
    for (const auto& [id, buffer] : accumulated_) expect_equal(id, *buffer, "sums and caches");
  }

 private:
  void run(const model::Operator& op) {
    std::vector<std::unique_ptr<real::host::HostBuffer>> buffers;
    real::Kernel kernel{.graph = &graph_, .op = &op};
    for (const TensorId id : op.reads) {
      const FloatMatrix value = interpreter_.value(0, id).cast<float>();
      kernel.reads.push_back(buffers.emplace_back(make_buffer(pool_, graph_.tensor(id).type, value)).get());
    }
    for (const TensorId id : op.writes) {
      const auto sum = accumulated_.find(id);
      if (sum == accumulated_.end()) {
        const FloatMatrix other = zeros(graph_.tensor(id)).cast<float>().array() + 7;  // all of it must be overwritten
        kernel.writes.push_back(buffers.emplace_back(make_buffer(pool_, graph_.tensor(id).type, other)).get());
      } else {
        kernel.writes.push_back(sum->second.get());
      }
    }
    real::host::run({kernel, cores_});
    for (std::size_t i = 0; i < op.writes.size(); ++i)
      if (!accumulated_.contains(op.writes[i]))
        expect_equal(op.writes[i], static_cast<const real::host::HostBuffer&>(*kernel.writes[i]), op.name);
  }

  void expect_equal(TensorId id, const real::host::HostBuffer& actual, const std::string& where) const {
    const FloatMatrix expected = interpreter_.value(0, id).cast<float>();
    const FloatMatrix found = actual.matrix();
    const bool both_zero =
        expected.cwiseAbs().maxCoeff() < zero_rounding && found.cwiseAbs().maxCoeff() < zero_rounding;
    EXPECT_TRUE(both_zero || difference(found, expected) <= tolerance)
        << graph_.name << ", " << where << ": " << graph_.tensor(id).name;
  }

  const Graph& graph_;
  Interpreter interpreter_;
  real::host::Pool pool_;
  real::host::Cores cores_;
  std::map<TensorId, std::unique_ptr<real::host::HostBuffer>> accumulated_;
};

std::set<OperatorKind> compare_all(int cores) {
  std::set<OperatorKind> covered;
  for (const Graph& graph : blocks()) Comparison(graph, cores).run(covered);
  const Graph last = widened(optimizer_block());
  Comparison(last, cores).run(covered);
  return covered;
}

TEST(HostOperators, ComputeWhatTheInterpreterComputes) {
  const std::set<OperatorKind> covered = compare_all(1);
  for (int kind = 0; kind <= static_cast<int>(OperatorKind::copy_to_device); ++kind) {
    const bool known = real::host::function_of(static_cast<OperatorKind>(kind)) != nullptr;
    EXPECT_EQ(known, covered.contains(static_cast<OperatorKind>(kind))) << to_string(static_cast<OperatorKind>(kind));
  }
}

TEST(HostOperators, ComputeTheSameOnTwoCores) { compare_all(2); }

// A table that doubled at every turn would have 2^64 positions.
TEST(HostOperators, RotateForModelsInTurns) {
  const FloatMatrix x = FloatMatrix::Ones(3, 4);
  const auto rotated = [&](double theta) {
    const model::RotaryAttributes rotary{
        .heads = 1, .head_dim = 4, .rope_dim = 4, .sequence_length = 3, .theta = theta};
    return run_on_host({.kind = OperatorKind::rotary, .attributes = rotary, .reads = {x}, .writes = {no_floats(3, 4)}});
  };
  const FloatMatrix first = rotated(100)[0], second = rotated(10000)[0];
  for (int turn = 0; turn < 32; ++turn) {
    EXPECT_EQ(rotated(100)[0], first);
    EXPECT_EQ(rotated(10000)[0], second);
  }
}

}  // namespace
}  // namespace plumbline::tests
