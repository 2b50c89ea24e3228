// Passes of inference, executed operator by operator: tokens that are decoded one by one, speculated ones and chunks of
// a prompt give what one pass over the whole prompt gives, and that is what the forward pass of training gives, however
// ranks divide the model.
#include <gtest/gtest.h>

#include <map>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "model/base/random.h"
#include "tests/support/interpreter/interpreter.h"
#include "tests/support/tiny_models.h"

namespace plumbline::tests {
namespace {

using model::BlockKind;
using model::InferencePass;
using model::Role;
using model::Tensor;

constexpr Index requests = 2;  // of a rank, or of a tensor group
constexpr Index prompt = tiny_sequence_length;
constexpr double rounding = 1e-10;

struct Outputs {
  Matrix stream;                 // after the layers, [tokens, hidden]
  Matrix logits, drafted;        // of the head and the prediction module
  std::vector<double> next_ids;  // that the head chooses
};

struct Layout {
  std::string name;
  Index ranks = 1, tensor = 1, expert = 1;
  bool sequence = false;  // ranks of a tensor group divide its tokens outside of attention, and dispatch them

  Index groups() const { return ranks / tensor; }
  friend void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }
};

// A tiny model that serves requests; caches stay from pass to pass.
class TinyServer {
 public:
  TinyServer(const TinyModel& model, const Layout& layout) : model_(model), layout_(layout) {
    model_.architecture.dropout = {};
    model_.architecture.vocabulary = 12;  // two ranks divide it, and the columns of experts
    if (model_.architecture.experts.routed_experts > 0) model_.architecture.experts.intermediate_size = 4;
    if (model_.architecture.experts.shared_intermediate_size > 0)
      model_.architecture.experts.shared_intermediate_size = 6;
    model::Random random(1);
    for (std::size_t block = 0; block < model_.blocks.size(); ++block)
      for (const Tensor& tensor : make_block(model_.blocks[block], trained_context()).tensors) {
        if (tensor.role != Role::parameter && tensor.name != "router_bias") continue;
        Matrix value = zeros(tensor);
        const bool scale = tensor.shape.size() == 1 && tensor.role == Role::parameter;
        for (double& entry : value.reshaped<Eigen::RowMajor>()) entry = (scale ? 1 : 0) + 0.4 * random.normal();
        weights_.try_emplace(key(block, tensor.name), value);
      }
  }

  // Runs the new tokens [groups * requests * n] of a pass after those that earlier passes left in the caches.
  Outputs pass(InferencePass::Kind kind, const Matrix& ids, Index cached) {
    const Index tokens = ids.rows() / (layout_.groups() * requests);
    const bool decodes = kind == InferencePass::Kind::decode;
    model::LayerContext context = tiny_context(model_, {.sequences = requests});
    context.tokens = requests * tokens;
    context.sequence_length = 0;
    context.tensor = layout_.tensor;
    context.sequence = layout_.sequence;
    context.expert_parallel = layout_.expert;
    context.expert_tensor = layout_.ranks / layout_.expert;
    context.distinct_ranks_per_token = static_cast<double>(layout_.expert);
    context.dispatcher = decodes ? model::Dispatcher::low_latency : model::Dispatcher::deepep;
    context.inference = {.kind = kind,
                         .requests = requests,
                         .new_tokens = tokens,
                         .cached_tokens = static_cast<double>(cached),
                         .masked_experts = decodes && layout_.expert > 1,
                         .shared_tokens = layout_.expert == 1,
                         .cache_rows = prompt};
    return run(context, ids, layout_, static_cast<double>(cached));
  }

  // Runs the forward pass of training on one rank.
  Outputs train(const Matrix& ids) { return run(trained_context(), ids, {}, 0); }

 private:
  static std::string key(std::size_t block, const std::string& name) {
    return name == "embedding" || name == "output" ? name : std::to_string(block) + "/" + name;
  }

  model::LayerContext trained_context() const {
    return tiny_context(model_, {.sequences = layout_.groups() * requests});
  }

  // Returns a weight as a pass of inference holds it, made of those of training.
  Matrix weight(std::size_t block, const std::string& name) const {
    if (const auto found = weights_.find(key(block, name)); found != weights_.end()) return found->second;
    const model::LatentAttention& l = model_.architecture.latent;
    if (name == "q_kv_a") {
      const Matrix q = weight(block, "q_a"), kv = weight(block, "kv_a");
      Matrix both(q.rows() + kv.rows(), q.cols());
      both << q, kv;
      return both;
    }
    const bool keys = name == "kv_b_key";
    const Matrix up = weight(block, "kv_b");
    const Index each = l.qk_nope_head_dim + l.v_head_dim, height = keys ? l.kv_lora_rank : l.v_head_dim;
    Matrix result(model_.architecture.heads * height, keys ? l.qk_nope_head_dim : l.kv_lora_rank);
    for (Index h = 0; h < model_.architecture.heads; ++h) {
      if (keys)
        result.middleRows(h * height, height) = up.middleRows(h * each, l.qk_nope_head_dim).transpose();
      else
        result.middleRows(h * height, height) = up.middleRows(h * each + l.qk_nope_head_dim, height);
    }
    return result;
  }

  static Matrix part(const Matrix& whole, Index rank, Index ranks) {
    return whole.middleRows(rank * whole.rows() / ranks, whole.rows() / ranks);
  }

  // Returns the widths of the outputs that a GEMM computes at once, for its weight or bias.
  std::vector<Index> outputs(const std::string& name, Index rows) const {
    const model::Architecture& a = model_.architecture;
    for (const bool windowed : {false, true}) {
      const model::HeadShape s = a.head_shape(windowed);
      const Index keys = s.key_value_heads * s.query_key_dim, values = s.key_value_heads * s.value_dim;
      const Index queries = s.heads * s.query_key_dim;
      if (name.starts_with("qkv") && queries + keys + values == rows) return {queries, keys, values};
    }
    if (name.find("gate_up") != std::string::npos) return {rows / 2, rows / 2};
    return {rows};
  }

  // Returns what a rank holds of a weight: its experts, and of what is divided its rows of every output or its columns.
  Matrix part_of(const Tensor& tensor, Matrix whole, Index rank, const Layout& layout) const {
    const Matrix held = zeros(tensor);
    const Index experts = tensor.expert ? tensor.shape[0].size : 1;
    if (tensor.expert) whole = part(whole, rank % layout.expert, layout.expert);
    if (held.rows() == whole.rows() && held.cols() == whole.cols()) return whole;
    const Index parts = layout.tensor, number = rank % parts;
    if (held.rows() == whole.rows()) return whole.middleCols(number * held.cols(), held.cols());
    Matrix result(held.rows(), held.cols());
    Index to = 0, from = 0;
    for (Index expert = 0; expert < experts; ++expert)
      for (const Index rows : outputs(tensor.name, whole.rows() / experts)) {
        result.middleRows(to, rows / parts) = whole.middleRows(from + number * rows / parts, rows / parts);
        to += rows / parts;
        from += rows;
      }
    return result;
  }

  void set_operands(Interpreter& block, std::size_t number, const model::Graph& graph, const Matrix& ids,
                    const Layout& layout, double cached) {
    for (model::TensorId id = 0; id < graph.tensors.size(); ++id) {
      const Tensor& tensor = graph.tensor(id);
      for (Index rank = 0; rank < layout.ranks; ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        if (tensor.role == Role::parameter) {
          block.set(r, id, part_of(tensor, weight(number, tensor.name), rank, layout));
        } else if (tensor.role == Role::cache) {
          if (const auto kept = caches_.find({number, rank, tensor.name}); kept != caches_.end())
            block.set(r, id, kept->second);
        } else if (tensor.name == "token_ids") {
          block.set(r, id, part(ids, rank / layout.tensor, layout.groups()));
        } else if (tensor.name == "cached_lengths") {
          block.set(r, id, Matrix::Constant(requests, 1, cached));
        } else if (tensor.name == "router_bias") {
          block.set(r, id, 0.1 * weights_.at(key(number, tensor.name)));
        } else if (tensor.role == Role::constant) {
          block.set(r, id, zeros(tensor));
        }
      }
    }
  }

  // The interpreter looks up whole tables only.
  static bool is_divided_table(BlockKind kind, const Layout& layout) {
    return layout.tensor > 1 && (kind == BlockKind::embedding || kind == BlockKind::multi_token_prediction);
  }

  Outputs run(const model::LayerContext& context, const Matrix& ids, const Layout& layout, double cached) {
    Outputs result;
    std::vector<Matrix> stream(static_cast<std::size_t>(layout.ranks));
    for (std::size_t number = 0; number < model_.blocks.size(); ++number) {
      const BlockKind kind = model_.blocks[number];
      const bool table = is_divided_table(kind, layout);
      if (table && kind == BlockKind::multi_token_prediction) continue;
      const model::Graph graph = make_block(kind, table ? context.undivided() : context);
      EXPECT_EQ(check(graph), "");
      Interpreter block(graph, stream.size());
      set_operands(block, number, graph, ids, layout, cached);
      for (std::size_t rank = 0; rank < stream.size() && number > 0; ++rank) block.set(rank, graph.input, stream[rank]);
      block.run(model::Phase::F);
      for (std::size_t rank = 0; rank < stream.size(); ++rank) {
        if (kind != BlockKind::head && kind != BlockKind::multi_token_prediction)
          stream[rank] = block.value(rank, graph.output);
        if (table && layout.sequence) stream[rank] = part(stream[rank], static_cast<Index>(rank), layout.tensor);
        for (model::TensorId id = 0; id < graph.tensors.size(); ++id)
          if (is_output(graph.tensor(id)))
            take(result, number, static_cast<Index>(rank), graph.tensor(id), block.value(rank, id), layout);
      }
    }
    for (std::size_t rank = 0; rank < stream.size(); ++rank)
      if (layout.sequence || is_first(static_cast<Index>(rank), layout)) add_rows(result.stream, stream[rank]);
    return result;
  }

  static bool is_first(Index rank, const Layout& layout) { return rank % layout.tensor == 0; }

  static bool is_output(const Tensor& tensor) {
    return tensor.role == Role::cache || tensor.name == "output_out" || tensor.name == "mtp_output_out" ||
           tensor.name == "next_ids";
  }

  // Keeps caches, and the outputs of the first rank of each tensor group; logits are divided by columns.
  void take(Outputs& result, std::size_t block, Index rank, const Tensor& tensor, const Matrix& value,
            const Layout& layout) {
    if (tensor.role == Role::cache) caches_[{block, rank, tensor.name}] = value;
    if (tensor.name == "output_out") {
      if (is_first(rank, layout)) return add_rows(result.logits, value);
      Matrix wider(result.logits.rows(), result.logits.cols() + value.cols());
      wider << result.logits, value;
      result.logits = wider;
    }
    if (!is_first(rank, layout)) return;
    if (tensor.name == "mtp_output_out") add_rows(result.drafted, value);
    if (tensor.name == "next_ids")
      for (const double next : value.reshaped()) result.next_ids.push_back(next);
  }

  static void add_rows(Matrix& whole, const Matrix& rows) {
    const Index from = whole.rows();
    whole.conservativeResize(from + rows.rows(), rows.cols());
    whole.bottomRows(rows.rows()) = rows;
  }

  TinyModel model_;
  Layout layout_;
  std::map<std::string, Matrix> weights_;
  std::map<std::tuple<std::size_t, Index, std::string>, Matrix> caches_;
};

// Returns rows [from, from + count) of every sequence of `length` rows.
Matrix rows_of_each(const Matrix& all, Index length, Index from, Index count) {
  Matrix result(all.rows() / length * count, all.cols());
  for (Index s = 0; s < all.rows() / length; ++s)
    result.middleRows(s * count, count) = all.middleRows(s * length + from, count);
  return result;
}

void expect_same(const Matrix& actual, const Matrix& expected, const std::string& what) {
  ASSERT_EQ(actual.rows(), expected.rows()) << what;
  ASSERT_EQ(actual.cols(), expected.cols()) << what;
  ASSERT_GT(actual.size(), 0) << what;
  EXPECT_LT((actual - expected).cwiseAbs().maxCoeff(), rounding) << what;
}

class Decoding : public testing::TestWithParam<std::tuple<TinyModel, Layout>> {
 protected:
  Decoding() : whole_(server().pass(InferencePass::Kind::prefill, ids_, 0)) {}

  static TinyServer server() { return {std::get<0>(GetParam()), std::get<1>(GetParam())}; }
  static Index groups() { return std::get<1>(GetParam()).groups(); }
  static Matrix random_ids() {
    model::Random random(7);
    Matrix ids(groups() * requests * prompt, 1);
    for (double& id : ids.reshaped())
      id = static_cast<double>(random.next() %
                               static_cast<std::uint64_t>(std::get<0>(GetParam()).architecture.vocabulary));
    return ids;
  }

  // Ranks that divide the heads would need their numbers for the slopes of ALiBi.
  void SetUp() override {
    const bool alibi = std::get<0>(GetParam()).architecture.positions == model::PositionKind::alibi;
    if (alibi && std::get<1>(GetParam()).tensor > 1) GTEST_SKIP() << "slopes of ALiBi follow the number of a head";
  }

  Matrix ids(Index from, Index count) const { return rows_of_each(ids_, prompt, from, count); }
  Matrix stream(Index from, Index count) const { return rows_of_each(whole_.stream, prompt, from, count); }
  // Compares what follows the last of the pass's `count` tokens with what the whole prompt gives.
  void expect_same_end(const Outputs& pass, Index count) const {
    const bool all = pass.logits.rows() == groups() * requests * count;
    const auto last = [&](const Matrix& logits) { return all ? rows_of_each(logits, count, count - 1, 1) : logits; };
    expect_same(last(pass.logits), whole_.logits, "logits");
    if (whole_.drafted.size() > 0) expect_same(last(pass.drafted), whole_.drafted, "logits of the draft");
    for (std::size_t r = 0; r < whole_.next_ids.size(); ++r) {
      const std::size_t each = pass.next_ids.size() / whole_.next_ids.size();
      EXPECT_EQ(pass.next_ids[(r + 1) * each - 1], whole_.next_ids[r]);
    }
  }

  const Matrix ids_ = random_ids();
  const Outputs whole_;
};

TEST_P(Decoding, TokenByTokenIsPrefill) {
  TinyServer tokens = server();
  for (Index t = 0; t < prompt; ++t) {
    const Outputs one = tokens.pass(InferencePass::Kind::decode, ids(t, 1), t);
    expect_same(one.stream, stream(t, 1), "stream of token " + std::to_string(t));
    if (t + 1 == prompt) expect_same_end(one, 1);
  }
}

TEST_P(Decoding, ChunksOfAPromptArePrefill) {
  TinyServer chunks = server();
  constexpr Index first = 3;
  expect_same(chunks.pass(InferencePass::Kind::prefill, ids(0, first), 0).stream, stream(0, first), "first chunk");
  const Outputs second = chunks.pass(InferencePass::Kind::prefill, ids(first, prompt - first), first);
  expect_same(second.stream, stream(first, prompt - first), "second chunk");
  expect_same_end(second, prompt - first);
}

TEST_P(Decoding, SpeculatedTokensArePrefill) {
  TinyServer tokens = server();
  constexpr Index first = 2, speculated = prompt - first;
  tokens.pass(InferencePass::Kind::prefill, ids(0, first), 0);
  const Outputs rest = tokens.pass(InferencePass::Kind::decode, ids(first, speculated), first);
  expect_same(rest.stream, stream(first, speculated), "speculated tokens");
  expect_same_end(rest, speculated);
}

TEST_P(Decoding, PrefillIsTheForwardPassOfTraining) {
  const Outputs trained = server().train(ids_);
  expect_same(whole_.stream, trained.stream, "stream");
  expect_same(whole_.logits, rows_of_each(trained.logits, prompt, prompt - 1, 1), "logits");
}

INSTANTIATE_TEST_SUITE_P(
    TinyModels, Decoding,
    testing::Combine(testing::ValuesIn(tiny_models()),
                     testing::Values(Layout{"one_rank"}, Layout{"experts_on_two", 2, 1, 2},
                                     Layout{"tensor_on_two", 2, 2}, Layout{"tokens_on_two", 2, 2, 2, true})),
    [](const auto& test) { return std::get<0>(test.param).name + "_" + std::get<1>(test.param).name; });

}  // namespace
}  // namespace plumbline::tests
