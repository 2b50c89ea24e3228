#include "model/cost/measured_operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <variant>

#include "model/base/text.h"
#include "model/base/units.h"
#include "model/cost/operator_class.h"
#include "model/profile/constant_rules.h"

namespace plumbline::model {
namespace {

constexpr std::string_view overlapped_suffix = "_beside";
constexpr std::array<std::string_view, 2> unit_words = {"cores", "sms"};  // by Unit

// Parses "cores2" or "sms112_beside".
std::optional<MeasuredOperators::Place> place_of(std::string_view word) {
  MeasuredOperators::Place place;
  place.overlapped = word.ends_with(overlapped_suffix);
  if (place.overlapped) word.remove_suffix(overlapped_suffix.size());
  const auto* unit = std::ranges::find_if(unit_words, [&](std::string_view one) { return word.starts_with(one); });
  if (unit == unit_words.end()) return std::nullopt;
  const auto cores = parse_number<std::int64_t>(word.substr(unit->size()));
  if (!cores || *cores < 1) return std::nullopt;
  place.cores = *cores;
  return place;
}

std::string extents(const Tensor& tensor) {
  std::string text;
  for (const Dimension& dimension : tensor.shape) text += fmt::format("{}{}", text.empty() ? "" : "x", dimension.size);
  return text.empty() ? "1" : text;
}

// Returns the shapes in order, with consecutive equal ones counted: "-4x8-2n16" is one of 4 x 8 and two of 16. A format
// other than `usual` is named.
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

// For lists of hundreds of shards only their number and elements determine the time.
std::string total(const Graph& graph, const std::vector<TensorId>& tensors) {
  double elements = 0;
  for (const TensorId id : tensors) elements += graph.tensor(id).elements();
  return fmt::format("-{}of{:.0f}", tensors.size(), elements);
}

std::string flag(bool set, std::string_view word) { return set ? fmt::format("-{}", word) : ""; }

// The attributes that change the time. Numbers that only enter the arithmetic (epsilon, angles, rates) are left out.
struct Suffix {
  std::string operator()(const std::monostate&) const { return ""; }
  std::string operator()(const MatmulAttributes& a) const {
    return flag(a.transpose_a, "ta") + flag(a.transpose_b, "tb") + flag(a.accumulate, "acc") +
           (a.groups_hit > 0 ? fmt::format("-hit{:g}", a.groups_hit) : "") + flag(a.masked, "masked") +
           (a.chunks > 1 ? fmt::format("-chunks{}", a.chunks) : "");
  }
  std::string operator()(const HeadMatmulAttributes& a) const { return fmt::format("-h{}c{}", a.heads, a.copied); }
  std::string operator()(const BatchedMatmulAttributes& a) const {
    return fmt::format("-form{}-h{}k{}-d{}-s{}", static_cast<int>(a.form), a.query_heads, a.key_value_heads, a.dim,
                       a.sequence_length);
  }
  std::string operator()(const AttentionAttributes& a) const {
    return fmt::format("-h{}k{}-d{}v{}-s{}", a.query_heads, a.key_value_heads, a.query_key_dim, a.value_dim,
                       a.sequence_length) +
           (a.window > 0 ? fmt::format("-w{}", a.window) : "") + flag(a.alibi, "alibi") +
           flag(a.dropout > 0, "dropout") + (a.ring_ranks > 1 ? fmt::format("-ring{}", a.ring_ranks) : "") +
           flag(a.kernel != AttentionKernel::fused, to_string(a.kernel)) +
           (a.document_tokens > 0 ? fmt::format("-doc{:g}", a.document_tokens) : "") +
           (a.compression > 0 ? fmt::format("-run{}x{}", a.compression, a.chosen) : "");
  }
  std::string operator()(const CachedAttentionAttributes& a) const {
    return fmt::format("-h{}k{}-d{}v{}-r{}n{}c{:g}", a.query_heads, a.key_value_heads, a.query_key_dim, a.value_dim,
                       a.requests, a.new_tokens, a.context_tokens) +
           flag(a.latent, "latent") + (a.window > 0 ? fmt::format("-w{}", a.window) : "") + flag(a.alibi, "alibi") +
           (a.compression > 0 ? fmt::format("-run{}x{}", a.compression, a.chosen) : "");
  }
  std::string operator()(const ScanAttributes& a) const {
    return fmt::format("-kind{}-h{}k{}-d{}v{}-c{}-s{}", static_cast<int>(a.kind), a.value_heads, a.key_heads, a.key_dim,
                       a.value_dim, a.chunk, a.sequence_length);
  }
  std::string operator()(const CompressionAttributes& a) const {
    return fmt::format("-t{}-s{}", a.tokens, a.sequence_length) + flag(a.overlaps, "overlaps");
  }
  std::string operator()(const StreamAttributes& a) const { return fmt::format("-n{}", a.streams); }
  std::string operator()(const ConvolutionAttributes& a) const {
    return fmt::format("-t{}-s{}", a.taps, a.sequence_length);
  }
  std::string operator()(const RotaryAttributes& a) const {
    return fmt::format("-h{}-d{}-r{}-s{}", a.heads, a.head_dim, a.rope_dim, a.sequence_length) +
           flag(a.scaled, "scaled");
  }
  std::string operator()(const HeadsAttributes& a) const {
    return fmt::format("-h{}-d{}r{}v{}", a.heads, a.nope_dim, a.rope_dim, a.value_dim);
  }
  std::string operator()(const RouterAttributes& a) const {
    return fmt::format("-e{}k{}-g{}k{}-{}", a.experts, a.experts_per_token, a.groups, a.groups_per_token,
                       a.group_score_experts) +
           (a.score == ScoreFunction::softmax ? "-softmax" : "-sigmoid") + flag(a.normalize, "norm");
  }
  std::string operator()(const DispatchAttributes& a) const {
    return fmt::format("-e{}r{}k{}-b{}", a.experts, a.experts_per_rank, a.experts_per_token, a.token_bytes) +
           flag(a.dispatcher == Dispatcher::alltoall, "alltoall") +
           flag(a.dispatcher == Dispatcher::allgather, "allgather") +
           flag(a.dispatcher == Dispatcher::low_latency, "low_latency");
  }
  std::string operator()(const NormAttributes& a) const { return a.heads > 1 ? fmt::format("-h{}", a.heads) : ""; }
  std::string operator()(const CastAttributes& a) const {
    return flag(a.scales_transposed, "ts") + flag(a.finds_scale, "fs");
  }
  std::string operator()(const ClampAttributes&) const { return ""; }
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

std::string MeasuredOperators::name(std::string_view key, const Place& place, Unit unit) {
  return fmt::format("{}{}{}{}.{}", measured_prefix, unit_words[static_cast<std::size_t>(unit)], place.cores,
                     place.overlapped ? overlapped_suffix : "", key);
}

Result<MeasuredOperators> MeasuredOperators::read(const Profile& profile) {
  const auto& all = profile.parameters();
  auto entries = std::make_shared<std::unordered_map<std::string, std::vector<Entry>>>();
  auto at =
      std::ranges::lower_bound(all, measured_prefix, {}, [](const Parameter& p) { return std::string_view(p.name); });
  for (; at != all.end() && at->name.starts_with(measured_prefix); ++at) {
    const std::string_view rest = std::string_view(at->name).substr(measured_prefix.size());
    const std::size_t dot = rest.find('.');
    const bool complete = dot != std::string_view::npos && dot + 1 < rest.size();
    const auto place = complete ? place_of(rest.substr(0, dot)) : std::nullopt;
    if (!place)
      return wrong_input(at->name, "not the name of a measured operator",
                         "measured.cores1.<kind>-<phase>-<format>-...");
    const Result<SiUnit> unit = si_unit(at->unit);
    if (!unit || unit->dimension != UnitDimension::seconds || at->value <= 0)
      return wrong_input(at->name, "a measured operator takes a time above 0",
                         "for example value = 12.5, unit = \"us\"");
    const auto index = static_cast<std::int32_t>(at - all.begin());
    (*entries)[std::string(rest.substr(dot + 1))].emplace_back(*place, Constant{index, at->value * unit->factor});
  }
  MeasuredOperators measured;
  if (entries->empty()) return measured;
  for (auto& [key, of_key] : *entries) std::ranges::sort(of_key, {}, &Entry::first);
  measured.entries_ = std::move(entries);
  return measured;
}

std::span<const MeasuredOperators::Entry> MeasuredOperators::find(const std::string& key) const {
  if (empty()) return {};
  const auto found = entries_->find(key);
  return found == entries_->end() ? std::span<const Entry>() : std::span<const Entry>(found->second);
}

std::optional<Constant> MeasuredOperators::find(const std::string& key, const Place& place) const {
  const std::span<const Entry> entries = find(key);
  const auto found = std::ranges::find(entries, place, &Entry::first);
  return found == entries.end() ? std::nullopt : std::optional(found->second);
}

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
