#include "model/cost/operator_key.h"

#include <fmt/format.h>

#include <string_view>
#include <variant>
#include <vector>

#include "model/cost/operator_class.h"

namespace plumbline::model {

namespace {

std::string extents(const Tensor& tensor) {
  std::string text;
  for (const Dimension& dimension : tensor.shape) text += fmt::format("{}{}", text.empty() ? "" : "x", dimension.size);
  return text.empty() ? "1" : text;
}

// Shapes in order, equal neighbours counted: "-4x8-2n16" is one of 4 x 8 and two of 16. A format is named where it is
// not the usual one.
std::string shapes(const Graph& graph, const std::vector<TensorId>& tensors, DataType usual) {
  std::string text;
  for (std::size_t i = 0, next = 0; i < tensors.size(); i = next) {
    const auto word = [&](std::size_t at) {
      const Tensor& tensor = graph.tensor(tensors[at]);
      return extents(tensor) + (tensor.type == usual ? "" : fmt::format("_{}", to_string(tensor.type)));
    };
    const std::string shape = word(i);
    for (next = i + 1; next < tensors.size() && word(next) == shape;) ++next;
    text += next - i > 1 ? fmt::format("-{}n{}", next - i, shape) : "-" + shape;
  }
  return text;
}

// Lists of a hundred shards: their number and elements decide the time.
std::string total(const Graph& graph, const std::vector<TensorId>& tensors) {
  double elements = 0;
  for (const TensorId id : tensors) elements += graph.tensor(id).elements();
  return fmt::format("-{}of{:.0f}", tensors.size(), elements);
}

std::string flag(bool set, std::string_view word) { return set ? fmt::format("-{}", word) : ""; }

// What decides the time beside the shapes. Numbers that only enter the arithmetic (epsilon, angles, rates) do not.
struct Suffix {
  std::string operator()(const std::monostate&) const { return ""; }
  std::string operator()(const MatmulAttributes& a) const {
    return flag(a.transpose_a, "ta") + flag(a.transpose_b, "tb") + flag(a.accumulate, "acc");
  }
  std::string operator()(const BatchedMatmulAttributes& a) const {
    return fmt::format("-form{}-h{}k{}-d{}-s{}", static_cast<int>(a.form), a.query_heads, a.key_value_heads, a.dim,
                       a.sequence_length);
  }
  std::string operator()(const AttentionAttributes& a) const {
    return fmt::format("-h{}k{}-d{}v{}-s{}", a.query_heads, a.key_value_heads, a.query_key_dim, a.value_dim,
                       a.sequence_length) +
           (a.window > 0 ? fmt::format("-w{}", a.window) : "") + flag(a.alibi, "alibi") +
           flag(a.dropout > 0, "dropout") + (a.ring_ranks > 1 ? fmt::format("-ring{}", a.ring_ranks) : "");
  }
  std::string operator()(const RotaryAttributes& a) const {
    return fmt::format("-h{}-d{}-r{}-s{}", a.heads, a.head_dim, a.rope_dim, a.sequence_length);
  }
  std::string operator()(const HeadsAttributes& a) const {
    return fmt::format("-h{}-d{}r{}v{}", a.heads, a.nope_dim, a.rope_dim, a.value_dim);
  }
  std::string operator()(const RouterAttributes& a) const {
    return fmt::format("-e{}k{}-g{}k{}-{}", a.experts, a.experts_per_token, a.groups, a.groups_per_token,
                       a.group_score_experts) +
           (a.score == ScoreFunction::softmax ? "-softmax" : "-sigmoid") + flag(a.normalise, "norm");
  }
  std::string operator()(const DispatchAttributes& a) const {
    return fmt::format("-e{}r{}k{}-b{}", a.experts, a.experts_per_rank, a.experts_per_token, a.token_bytes);
  }
  std::string operator()(const NormAttributes& a) const { return a.heads > 1 ? fmt::format("-h{}", a.heads) : ""; }
  std::string operator()(const CastAttributes& a) const {
    return flag(a.scales_transposed, "ts") + flag(a.finds_scale, "fs");
  }
  std::string operator()(const DropoutAttributes&) const { return ""; }
  std::string operator()(const PositionAttributes& a) const { return fmt::format("-s{}", a.sequence_length); }
  std::string operator()(const ShiftAttributes& a) const { return fmt::format("-s{}", a.sequence_length); }
  std::string operator()(const LossAttributes& a) const {
    return a.ignored > 0 ? fmt::format("-s{}i{}", a.sequence_length, a.ignored) : "";
  }
  std::string operator()(const CollectiveAttributes& a) const { return fmt::format("-n{}s{}", a.ranks, a.stride); }
  std::string operator()(const AdamwAttributes& a) const { return flag(a.on_host, "host"); }
};

}  // namespace

std::string operator_key(const Graph& graph, const Operator& op) {
  const std::vector<TensorId>& first = op.reads.empty() ? op.writes : op.reads;
  const DataType usual = graph.tensor(first.at(0)).type;
  const bool lists_shards =
      class_of(op.kind) == OperatorClass::optimizer && std::holds_alternative<std::monostate>(op.attributes);
  const auto part = [&](const std::vector<TensorId>& tensors) {
    return lists_shards ? total(graph, tensors) : shapes(graph, tensors, usual);
  };
  return fmt::format("{}-{}-{}{}-to{}{}", to_string(op.kind), to_string(op.phase), to_string(usual), part(op.reads),
                     part(op.writes), std::visit(Suffix{}, op.attributes));
}

}  // namespace plumbline::model
