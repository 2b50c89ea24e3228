// Every operator of the host against the interpreter's, on the blocks of tiny models: both read the same tensors.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/stage_optimizer.h"
#include "real/host/operators/operators.h"
#include "real/host/pool.h"
#include "tests/support/host_operator.h"
#include "tests/support/interpreter/interpreter.h"
#include "tests/support/tiny_models.h"

namespace plumbline::tests {
namespace {

using model::Graph;
using model::OperatorKind;
using model::Role;
using model::Tensor;
using model::TensorId;
using real::host::HostBuffer;

constexpr double tolerance = 1e-4;  // of the largest entry: FP32 beside double precision

// Formats narrower than FP32 are not what is compared here.
Graph widened(Graph graph) {
  for (Tensor& tensor : graph.tensors)
    if (tensor.type != model::DataType::int32) tensor.type = model::DataType::fp32;
  return graph;
}

// All blocks of the tiny models, in the layers' FP32 and FP8 forms; one divided over tensor-parallel ranks, which adds
// biases apart. Random numbers of dropout are nobody's to compare.
std::vector<Graph> blocks() {
  std::vector<Graph> graphs;
  for (TinyModel tiny : tiny_models()) {
    tiny.architecture.dropout = {};
    for (const model::Precision precision : {model::Precision::fp32, model::Precision::fp8})
      for (const model::BlockKind kind : tiny.blocks)
        graphs.push_back(widened(make_block(kind, tiny_context(tiny, {.precision = precision}))));
    if (tiny.name != "gpt2") continue;
    model::LayerContext divided = tiny_context(tiny, {});
    divided.tensor = 2;
    graphs.push_back(widened(make_block(model::BlockKind::dense_layer, divided)));
  }
  return graphs;
}

// Clipped, in FP16 with a loss scale: every operator of an optimizer.
Graph optimizer() {
  constexpr std::int64_t elements = 3000;
  model::Plan plan;
  plan.precision.gemm = model::Precision::fp16;
  plan.optimizer.gradient_clipping = true;
  Graph block;
  block.tensors.push_back({.name = "w", .shape = {{elements}}, .role = Role::parameter});
  return widened(model::make_stage_optimizer(plan, {}, {block}, {{0}}).graph);
}

constexpr std::int64_t smallest_vocabulary = 11;  // of the tiny models

Matrix start_value(const Tensor& tensor, model::Random& random) {
  Matrix value = zeros(tensor);
  const bool whole = tensor.type == model::DataType::int32;
  const bool scale = tensor.role == Role::parameter && tensor.shape.size() == 1;
  Index t = 0;
  for (double& entry : value.reshaped<Eigen::RowMajor>()) {
    const bool unlabelled = tensor.name == "mtp_labels" && ++t % tiny_sequence_length == 0;
    if (whole)
      entry = unlabelled ? -1 : static_cast<double>(random.next() % smallest_vocabulary);
    else
      entry = (scale ? 1 : 0) + 0.4 * random.normal();
  }
  // Second moments and the scale of a loss are positive.
  if (tensor.role == Role::gradient && !tensor.name.starts_with("d_")) value = value.cwiseAbs();
  if (tensor.name == "loss_scale") value.setConstant(1024);
  return value;
}

// One graph, run by both. The host reads what the interpreter has written, so that errors do not pile up, but adds to
// memory of its own.
class Comparison {
 public:
  Comparison(const Graph& graph, int cores) : graph_(graph), interpreter_(graph, 1), cores_(cores) {
    model::Random random(5);
    for (TensorId id = 0; id < graph.tensors.size(); ++id) {
      const Tensor& tensor = graph.tensor(id);
      if (tensor.role == Role::activation || tensor.role == Role::host) continue;
      const Matrix value = start_value(tensor, random);
      interpreter_.set(0, id, value);
      if (tensor.role == Role::gradient) accumulated_[id] = make_buffer(pool_, tensor.type, value.cast<float>());
    }
    for (const model::Phase phase : {model::Phase::F, model::Phase::I, model::Phase::W}) interpreter_.run(phase);
  }

  void run(std::set<OperatorKind>& covered) {
    for (const model::Operator& op : graph_.operators)
      if (real::host::function_of(op.kind)) {
        covered.insert(op.kind);
        run(op);
      }
    for (const auto& [id, buffer] : accumulated_) expect_equal(id, *buffer, "sums");
  }

 private:
  void run(const model::Operator& op) {
    std::vector<std::unique_ptr<HostBuffer>> buffers;
    real::Kernel kernel{.graph = &graph_, .op = &op};
    for (const TensorId id : op.reads) {
      const FloatMatrix value = interpreter_.value(0, id).cast<float>();
      kernel.reads.push_back(buffers.emplace_back(make_buffer(pool_, graph_.tensor(id).type, value)).get());
    }
    for (const TensorId id : op.writes) {
      const auto sum = accumulated_.find(id);
      if (sum == accumulated_.end()) {
        const FloatMatrix other = zeros(graph_.tensor(id)).cast<float>().array() + 7;  // all of it is overwritten
        kernel.writes.push_back(buffers.emplace_back(make_buffer(pool_, graph_.tensor(id).type, other)).get());
      } else {
        kernel.writes.push_back(sum->second.get());
      }
    }
    real::host::run({kernel, cores_});
    for (std::size_t i = 0; i < op.writes.size(); ++i)
      if (!accumulated_.contains(op.writes[i]))
        expect_equal(op.writes[i], static_cast<const HostBuffer&>(*kernel.writes[i]), op.name);
  }

  void expect_equal(TensorId id, const HostBuffer& actual, const std::string& where) const {
    const FloatMatrix expected = interpreter_.value(0, id).cast<float>();
    EXPECT_LE(difference(actual.matrix(), expected), tolerance)
        << graph_.name << ", " << where << ": " << graph_.tensor(id).name;
  }

  const Graph& graph_;
  Interpreter interpreter_;
  real::host::Pool pool_;
  real::host::Cores cores_;
  std::map<TensorId, std::unique_ptr<HostBuffer>> accumulated_;
};

std::set<OperatorKind> compare_all(int cores) {
  std::set<OperatorKind> covered;
  for (const Graph& graph : blocks()) Comparison(graph, cores).run(covered);
  const Graph last = optimizer();
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

}  // namespace
}  // namespace plumbline::tests
