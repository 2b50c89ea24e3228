// The graphs compute the published architectures: the loss of a tiny model equals that of a plain
// token-by-token reading of the papers' formulas. Multi-head latent attention: arXiv 2405.04434, section 2.1;
// mixture of experts, its router and multi-token prediction: arXiv 2412.19437, sections 2.1.2 and 2.2;
// grouped queries: arXiv 2305.13245; rotary embedding: arXiv 2104.09864; SwiGLU: arXiv 2002.05202; GELU: arXiv
// 1606.08415; layer norm: arXiv 1607.06450; ALiBi: arXiv 2108.12409; sliding window: arXiv 2310.06825.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <set>

#include "tests/support/real/tiny_training.h"

namespace plumbline::tests {
namespace {

using Vector = Eigen::VectorXd;
using Sequence = std::vector<Vector>;  // one vector per token

class Reference {
 public:
  Reference(const TinyModel& model, TinyTraining& training)
      : a_(model.architecture), parameters_(training.parameters()), constants_(training.constants()) {
    for (const model::Graph& graph : training.graphs())
      names_.push_back(std::to_string(names_.size()) + " " + graph.name + "/");
  }

  // Returns the sum of the mean cross-entropies of the model's heads over a batch of sequences.
  double loss() {
    const Matrix& ids = constants_.at("token_ids");
    double total = 0, sequences = 0;
    for (Index from = 0; from < ids.rows(); from += tiny_sequence_length, ++sequences) total += sequence_loss(from);
    return total / sequences;
  }

 private:
  Matrix weight(const std::string& name) const { return parameters_.at(block_ + name); }
  Vector embedded(Index token) const {
    const auto id = static_cast<Index>(constants_.at("token_ids")(token));
    return parameters_.at(names_.front() + "embedding").row(id).transpose();
  }
  Vector norm(const std::string& name, const Vector& x) const {
    return weight(name).col(0).cwiseProduct(x) / std::sqrt(x.squaredNorm() / static_cast<double>(x.size()) + 1e-6);
  }
  // Normalizes a row of the residual stream by its mean and variance, or by its mean square.
  Vector stream_norm(const std::string& name, const Vector& x) const {
    if (a_.norm == model::NormKind::root_mean_square) return norm(name, x);
    const Vector y = norm(name, (x.array() - x.mean()).matrix());
    return a_.norm_bias ? Vector(y + weight(name + "_bias").col(0)) : y;
  }
  Vector linear(const std::string& name, const Vector& x, bool bias) const {
    const Vector y = weight(name) * x;
    return bias ? Vector(y + weight(name + "_bias").col(0)) : y;
  }
  static Vector gated(const Matrix& gate_up, const Matrix& down, const Vector& x) {
    const Index f = gate_up.rows() / 2;
    const Vector gate = gate_up.topRows(f) * x, up = gate_up.bottomRows(f) * x;
    return down * (gate.array() / (1 + (-gate.array()).exp()) * up.array()).matrix();
  }
  Vector mlp(const Vector& x) const {
    if (a_.mlp == model::MlpKind::swiglu) return gated(weight("gate_up"), weight("down"), x);
    const Vector up = linear("up", x, a_.biases.mlp);
    return linear("down", up.unaryExpr([](double v) { return v * (1 + std::erf(v / std::sqrt(2.0))) / 2; }),
                  a_.biases.mlp);
  }

  // Columns i and i + half are the parts of a complex number that is rotated by the position.
  Vector rotated(const Vector& x, std::size_t position) const {
    const Index half = x.size() / 2;
    Vector y(x.size());
    for (Index i = 0; i < half; ++i) {
      const double exponent = -static_cast<double>(i) / static_cast<double>(half);
      const double angle = static_cast<double>(position) * std::pow(a_.rope_theta, exponent);
      const auto z = std::complex<double>(x(i), x(i + half)) * std::polar(1.0, angle);
      y(i) = z.real();
      y(i + half) = z.imag();
    }
    return y;
  }

  struct Head {
    Sequence q, k, v;
  };
  Head latent_head(const Sequence& x, Index head) const {
    const model::LatentAttention& l = a_.latent;
    const Index qk = l.qk_nope_head_dim + l.qk_rope_head_dim, kv = l.qk_nope_head_dim + l.v_head_dim;
    Head result;
    for (std::size_t t = 0; t < x.size(); ++t) {
      const Vector down = weight("kv_a") * x[t];
      const Vector up = (weight("kv_b") * norm("kv_norm", down.head(l.kv_lora_rank))).segment(head * kv, kv);
      const Vector query_latent = l.q_lora_rank > 0 ? norm("q_norm", weight("q_a") * x[t]) : x[t];
      const Vector q = (weight("q_b") * query_latent).segment(head * qk, qk);
      Vector query(qk), key(qk);
      query << q.head(l.qk_nope_head_dim), rotated(q.tail(l.qk_rope_head_dim), t);
      key << up.head(l.qk_nope_head_dim), rotated(down.tail(l.qk_rope_head_dim), t);
      result.q.push_back(query);
      result.k.push_back(key);
      result.v.push_back(up.tail(l.v_head_dim));
    }
    return result;
  }
  // The last rotary columns of a head are rotated, or the whole head where the architecture names none.
  Vector placed(const std::string& norm_name, const Vector& head, std::size_t t, bool windowed) const {
    Vector y = a_.query_key_norm ? norm(norm_name, head) : head;
    if (a_.positions != model::PositionKind::rotary || (a_.window.rotary_only && !windowed)) return y;
    const Index turning = a_.head_shape(windowed).rotary_dim;
    y.tail(turning) = rotated(y.tail(turning), t).eval();
    return y;
  }
  // Returns the first token that token t attends to.
  std::size_t first_seen(std::size_t t, bool windowed) const {
    const auto window = static_cast<std::size_t>(a_.window.tokens);
    if (windowed && a_.window.chunks) return t - t % window;
    return windowed && t + 1 > window ? t + 1 - window : 0;
  }
  // Returns the ALiBi bias of the score of query t and key s (arXiv 2108.12409).
  double alibi(Index head, std::size_t t, std::size_t s) const {
    const double slope = std::pow(2.0, -8.0 * static_cast<double>(head + 1) / static_cast<double>(a_.heads));
    return a_.positions == model::PositionKind::alibi ? slope * (static_cast<double>(s) - static_cast<double>(t)) : 0;
  }
  // Returns queries, keys and values of a token, of one product or, the queries, of a normalised latent (arXiv
  // 2507.19427, section 3.2).
  Vector projected(const Vector& x) const {
    const Index rank = a_.latent.q_lora_rank;
    if (rank == 0) return linear("qkv", x, a_.biases.query_key_value);
    const Vector down = weight("qkv_a") * x, queries = weight("q_b") * norm("q_norm", down.head(rank));
    Vector all(queries.size() + down.size() - rank);
    all << queries, down.tail(down.size() - rank);
    return all;
  }
  Head grouped_head(const Sequence& x, Index head, bool windowed) const {
    const model::HeadShape shape = a_.head_shape(windowed);
    const Index d = shape.query_key_dim, group = head / (shape.heads / shape.key_value_heads);
    const Index keys = shape.heads * d, values = keys + shape.key_value_heads * d;
    Head result;
    for (std::size_t t = 0; t < x.size(); ++t) {
      const Vector qkv = projected(x[t]);
      result.q.push_back(placed("query_norm", qkv.segment(head * d, d), t, windowed));
      result.k.push_back(placed("key_norm", qkv.segment(keys + group * d, d), t, windowed));
      result.v.push_back(qkv.segment(values + group * shape.value_dim, shape.value_dim));
    }
    return result;
  }
  Sequence attention(const Sequence& x, bool windowed) const {
    Sequence result(x.size(), Vector::Zero(a_.hidden_size));
    const bool latent = a_.attention == model::AttentionKind::multi_head_latent;
    const model::HeadShape shape = a_.head_shape(windowed);
    const Index width = latent ? a_.latent.v_head_dim : shape.value_dim;
    for (Index head = 0; head < shape.heads; ++head) {
      const Head h = latent ? latent_head(x, head) : grouped_head(x, head, windowed);
      for (std::size_t t = 0; t < x.size(); ++t) {
        Vector sum = Vector::Zero(width);
        double total = 0;
        for (std::size_t s = first_seen(t, windowed); s <= t; ++s) {
          const double score =
              std::exp(h.q[t].dot(h.k[s]) / std::sqrt(static_cast<double>(h.q[t].size())) + alibi(head, t, s));
          sum += score * h.v[s];
          total += score;
        }
        result[t] += weight("o").middleCols(head * width, width) * sum / total;
      }
    }
    if (a_.biases.attention_output)
      for (Vector& token : result) token += weight("o_bias").col(0);
    return result;
  }

  // Returns the best experts of the best groups.
  std::set<Index> chosen(const Vector& biased) const {
    const model::MixtureOfExperts& e = a_.experts;
    const Index width = e.routed_experts / e.groups;
    std::vector<std::pair<double, Index>> groups, experts;
    for (Index g = 0; g < e.groups; ++g) {
      std::vector<double> scores(biased.data() + g * width, biased.data() + (g + 1) * width);
      std::sort(scores.rbegin(), scores.rend());
      groups.emplace_back(e.group_score_experts == 2 ? scores[0] + scores[1] : scores[0], g);
    }
    std::sort(groups.rbegin(), groups.rend());
    for (Index n = 0; n < e.groups_per_token; ++n)
      for (Index i = groups[n].second * width; i < (groups[n].second + 1) * width; ++i)
        experts.emplace_back(biased(i), i);
    std::sort(experts.rbegin(), experts.rend());
    std::set<Index> result;
    for (Index n = 0; n < e.experts_per_token; ++n) result.insert(experts[n].second);
    return result;
  }
  Vector mixture(const Vector& x) const {
    const model::MixtureOfExperts& e = a_.experts;
    const Index f = e.intermediate_size, h = a_.expert_hidden();
    Vector scores = weight("router") * x;
    if (a_.biases.router) scores += weight("router_logits_bias").col(0);
    if (e.score == model::ScoreFunction::sigmoid)
      scores = (1 / (1 + (-scores.array()).exp())).eval();
    else
      scores = (scores.array().exp() / scores.array().exp().sum()).eval();
    const std::set<Index> experts = chosen(scores + constants_.at(block_ + "router_bias").col(0));
    double total = 0;
    for (Index i : experts) total += scores(i);
    Vector y = Vector::Zero(a_.hidden_size), routed = Vector::Zero(h);
    if (e.shared_experts > 0) y = gated(weight("shared_gate_up"), weight("shared_down"), x);
    if (e.shared_gate) y /= 1 + std::exp(-(weight("shared_gate") * x)(0));
    const Vector read = e.latent_size > 0 ? Vector(weight("latent_down") * x) : x;
    for (Index i : experts)
      routed += e.scaling_factor * scores(i) / (e.normalize_weights ? total : 1) *
                gated(weight("experts_gate_up").middleRows(i * 2 * f, 2 * f),
                      weight("experts_down").middleRows(i * h, h), read);
    if (e.latent_norm) routed = stream_norm("latent_norm", routed);
    return y + (e.latent_size > 0 ? Vector(weight("latent_up") * routed) : routed);
  }

  Sequence layer(Sequence x, bool moe, bool windowed) const {
    Sequence normalized;
    for (const Vector& token : x) normalized.push_back(stream_norm("attention_norm", token));
    const Sequence attended = attention(normalized, windowed);
    for (std::size_t t = 0; t < x.size(); ++t) {
      const Vector before = x[t];
      x[t] += a_.post_norms ? stream_norm("attention_out_norm", attended[t]) : attended[t];
      const Vector input =
          a_.shared_norm ? normalized[t] : stream_norm("mlp_norm", a_.parallel_residual ? before : x[t]);
      const Vector y = moe ? mixture(input) : mlp(input);
      x[t] += a_.post_norms ? stream_norm("mlp_out_norm", y) : y;
    }
    return x;
  }
  // Returns the cross-entropy of the first `count` tokens of the sequence that starts at `from`.
  double cross_entropy(const std::string& prefix, const Sequence& x, Index from, std::size_t count) const {
    const Matrix output = parameters_.at(a_.tied_embedding ? names_.front() + "embedding" : names_.back() + "output");
    double total = 0;
    for (std::size_t t = 0; t < count; ++t) {
      const Vector logits = output * stream_norm(prefix + "final_norm", x[t]);
      const auto label = static_cast<Index>(constants_.at(prefix + "labels")(from + static_cast<Index>(t)));
      total -= std::log(std::exp(logits(label)) / logits.array().exp().sum());
    }
    return total / static_cast<double>(count);
  }
  // The last token of a sequence has no successor: no later token attends to it, and it has no label.
  double prediction_loss(const Sequence& x, Index from) const {
    Sequence projected;
    for (std::size_t t = 0; t + 1 < x.size(); ++t) {
      Vector joined(2 * a_.hidden_size);
      joined << norm("mtp_stream_norm", x[t]), norm("mtp_embedding_norm", embedded(from + static_cast<Index>(t) + 1));
      projected.push_back(weight("mtp_projection") * joined);
    }
    return cross_entropy("mtp_", layer(projected, a_.experts.routed_experts > 0, false), from, projected.size());
  }
  double sequence_loss(Index from) {
    Sequence x;
    for (Index t = from; t < from + tiny_sequence_length; ++t) {
      x.push_back(embedded(t));
      if (a_.positions == model::PositionKind::learned)
        x.back() += parameters_.at(names_.front() + "positions").row(t - from).transpose();
    }
    double total = 0;
    for (const std::string& name : names_) {
      block_ = name;
      if (name.ends_with("_layer/"))
        x = layer(x, name.ends_with("moe_layer/"), name.find("windowed") != std::string::npos);
      if (name.ends_with("multi_token_prediction/")) total += prediction_loss(x, from);
      if (name.ends_with("head/")) total += cross_entropy("", x, from, x.size());
    }
    return total;
  }

  const model::Architecture& a_;
  const std::map<std::string, Matrix>& parameters_;
  const std::map<std::string, Matrix>& constants_;
  std::vector<std::string> names_;
  std::string block_;
};

TEST(Forward, LossIsThatOfThePublishedFormulas) {
  for (TinyModel model : tiny_models()) {
    model.architecture.dropout = {};  // its masks are the interpreter's own
    TinyTraining training(model, {});
    const double expected = Reference(model, training).loss();
    EXPECT_NEAR(training.loss(), expected, 1e-12 * expected) << model.name;
  }
}

}  // namespace
}  // namespace plumbline::tests
