// A layer divided over two tensor-parallel ranks gives the output, input gradient and parameter gradients of the
// undivided layer, however the parameters are divided.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "model/base/random.h"
#include "model/cost/work.h"
#include "tests/support/interpreter/interpreter.h"
#include "tests/support/tiny_models.h"

namespace plumbline::tests {
namespace {

using model::BlockKind;
using model::Role;
using model::TensorId;

struct Division {
  std::string name;
  std::string model;
  BlockKind block;
  bool sequence = false;
  std::int64_t expert = 1, expert_tensor = 1;
  friend void PrintTo(const Division& division, std::ostream* out) { *out << division.name; }
};

constexpr Index ranks = 2;

TinyModel tiny_model(const std::string& name) {
  for (TinyModel& model : tiny_models())
    if (model.name == name) return model;
  throw std::logic_error("no tiny model " + name);
}

model::LayerContext whole_context(const Division& division) {
  return tiny_context(tiny_model(division.model), {.sequences = 2});
}

model::LayerContext divided_context(const Division& division) {
  model::LayerContext context = whole_context(division);
  context.tensor = ranks;
  context.sequence = division.sequence;
  context.expert_parallel = division.expert;
  context.expert_tensor = division.expert_tensor;
  return context;
}

// Returns the widths of a parameter's parts: equal, except for GEMMs that compute several tensors at once.
std::vector<Index> things(const Division& division, const std::string& parameter, Index rows) {
  const model::Architecture a = tiny_model(division.model).architecture;
  const auto is = [&](std::string_view name) { return parameter == name || parameter == std::string(name) + "_bias"; };
  if (is("qkv")) return {a.heads * a.head_dim, a.key_value_heads * a.head_dim, a.key_value_heads * a.head_dim};
  if (parameter.find("gate_up") != std::string::npos) return {rows / 2, rows / 2};
  return {rows};
}

// Returns the rank's share of every part of a matrix, whose parts of the given widths lie below each other.
Matrix rows_of(const Matrix& whole, const std::vector<Index>& widths, Index copies, Index rank) {
  const Index height = std::accumulate(widths.begin(), widths.end(), Index{0});
  Matrix part(whole.rows() / ranks, whole.cols());
  Index at = 0;
  for (Index copy = 0; copy < copies; ++copy) {
    Index first = copy * height;
    for (const Index width : widths) {
      const Index share = width / ranks;
      part.middleRows(at, share) = whole.middleRows(first + rank * share, share);
      at += share;
      first += width;
    }
  }
  return part;
}

// Returns what `rank` holds of a parameter or its gradient. Experts are distributed first, then divided.
Matrix part_of(const Division& division, const model::Tensor& tensor, const Matrix& whole, Index rank) {
  const std::string name = tensor.role == Role::gradient ? tensor.name.substr(2) : tensor.name;
  const Matrix held = zeros(tensor);
  Matrix own = whole;
  Index experts = 1;
  if (tensor.expert) {
    experts = tensor.shape[0].size;
    if (division.expert > 1) {
      const Index rows = whole.rows() / division.expert;
      own = whole.middleRows(rank * rows, rows);
    }
  }
  if (own.rows() == held.rows() && own.cols() == held.cols()) return own;
  if (own.cols() == held.cols()) return rows_of(own, things(division, name, own.rows() / experts), experts, rank);
  return own.middleCols(rank * held.cols(), held.cols());
}

Matrix random_matrix(Index rows, Index columns, model::Random& random) {
  Matrix value(rows, columns);
  for (double& entry : value.reshaped<Eigen::RowMajor>()) entry = 0.5 * random.normal();
  return value;
}

class DividedLayers : public testing::TestWithParam<Division> {
 protected:
  DividedLayers()
      : whole_graph_(make_block(GetParam().block, whole_context(GetParam()))),
        graph_(make_block(GetParam().block, divided_context(GetParam()))),
        whole_(whole_graph_, 1),
        divided_(graph_, ranks) {
    model::Random random(3);
    std::map<std::string, Matrix> values;
    for (TensorId id = 0; id < whole_graph_.tensors.size(); ++id) {
      const model::Tensor& tensor = whole_graph_.tensor(id);
      if (tensor.role != Role::parameter && tensor.role != Role::constant) continue;
      const Matrix shape = zeros(tensor);
      values[tensor.name] = random_matrix(shape.rows(), shape.cols(), random);
      whole_.set(0, id, values[tensor.name]);
    }
    for (TensorId id = 0; id < graph_.tensors.size(); ++id) {
      const model::Tensor& tensor = graph_.tensor(id);
      if (tensor.role != Role::parameter && tensor.role != Role::constant) continue;
      for (Index rank = 0; rank < ranks; ++rank)
        divided_.set(static_cast<std::size_t>(rank), id, part_of(GetParam(), tensor, values.at(tensor.name), rank));
    }
    give(whole_graph_.input, graph_.input, random);
    give(whole_graph_.output_gradient, graph_.output_gradient, random);
    for (const model::Phase phase : {model::Phase::F, model::Phase::I, model::Phase::W}) {
      whole_.run(phase);
      divided_.run(phase);
    }
  }

  // With sequence parallelism the tokens between blocks are divided, else every rank has all of them.
  Matrix stream_part(const Matrix& whole, Index rank) const {
    if (!GetParam().sequence) return whole;
    const Index rows = whole.rows() / ranks;
    return whole.middleRows(rank * rows, rows);
  }

  void give(TensorId whole_id, TensorId id, model::Random& random) {
    const Matrix shape = zeros(whole_graph_.tensor(whole_id));
    const Matrix value = random_matrix(shape.rows(), shape.cols(), random);
    whole_.set(0, whole_id, value);
    for (Index rank = 0; rank < ranks; ++rank)
      divided_.set(static_cast<std::size_t>(rank), id, stream_part(value, rank));
  }

  void expect_stream(TensorId whole_id, TensorId id) const {
    for (Index rank = 0; rank < ranks; ++rank) {
      const Matrix expected = stream_part(whole_.value(0, whole_id), rank);
      EXPECT_LT((divided_.value(static_cast<std::size_t>(rank), id) - expected).cwiseAbs().maxCoeff(), 1e-12);
    }
  }

  const model::Graph whole_graph_, graph_;
  Interpreter whole_, divided_;
};

TEST_P(DividedLayers, GiveTheSameOutputAndInputGradient) {
  expect_stream(whole_graph_.output, graph_.output);
  expect_stream(whole_graph_.input_gradient, graph_.input_gradient);
}

// Ranks that hold a whole parameter have its whole gradient each, or the part of their tokens where those are divided.
TEST_P(DividedLayers, GiveTheSameParameterGradients) {
  std::map<std::string, Matrix> expected;
  for (TensorId id = 0; id < whole_graph_.tensors.size(); ++id)
    if (whole_graph_.tensor(id).role == Role::gradient) expected[whole_graph_.tensor(id).name] = whole_.value(0, id);
  for (TensorId id = 0; id < graph_.tensors.size(); ++id) {
    const model::Tensor& tensor = graph_.tensor(id);
    if (tensor.role != Role::gradient) continue;
    const bool summed = GetParam().sequence && !tensor.divided && !tensor.expert;
    for (Index rank = 0; rank < ranks; ++rank) {
      Matrix gradient = divided_.value(static_cast<std::size_t>(rank), id);
      if (summed) gradient = divided_.value(0, id) + divided_.value(1, id);
      const Matrix part = part_of(GetParam(), tensor, expected.at(tensor.name), rank);
      EXPECT_LT((gradient - part).cwiseAbs().maxCoeff(), 1e-12) << tensor.name;
    }
  }
}

// Both ranks together do the multiply-adds of the undivided layer, apart from those that every rank does for all tokens
// (the down-projections to latents, and the router without sequence parallelism).
TEST_P(DividedLayers, DivideTheWork) {
  const auto gemms = [](const model::Graph& graph) {
    double sum = 0;
    for (const model::Operator& op : graph.operators) {
      const bool repeated = op.name.starts_with("q_a") || op.name.starts_with("kv_a") || op.name.starts_with("router");
      if (op.kind == model::OperatorKind::matmul && !repeated) sum += flops(graph, op, 1, false).value();
    }
    return sum;
  };
  EXPECT_DOUBLE_EQ(ranks * gemms(graph_), gemms(whole_graph_));
}

INSTANTIATE_TEST_SUITE_P(TinyModels, DividedLayers,
                         testing::Values(Division{"llama", "llama", BlockKind::dense_layer},
                                         Division{"llama_sequence", "llama", BlockKind::dense_layer, true},
                                         Division{"mistral_sequence", "mistral", BlockKind::windowed_dense_layer, true},
                                         Division{"unfused", "mistral_unfused", BlockKind::windowed_dense_layer},
                                         Division{"biases", "gpt_neox", BlockKind::dense_layer},
                                         Division{"biases_sequence", "gpt_neox", BlockKind::dense_layer, true},
                                         Division{"latent_attention", "deepseek_v3", BlockKind::dense_layer},
                                         Division{"latent_attention_sequence", "deepseek_v3", BlockKind::dense_layer,
                                                  true},
                                         Division{"experts", "deepseek_v3", BlockKind::moe_layer, true, 2},
                                         Division{"divided_experts", "deepseek_v3", BlockKind::moe_layer, true, 1, 2}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace plumbline::tests
