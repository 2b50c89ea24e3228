// Attention of new tokens over keys and values in a cache.
#include <fmt/format.h>

#include <tuple>
#include <variant>

#include "model/cost/kernel_cost.h"
#include "model/cost/work.h"

namespace plumbline::model {
namespace {

// From so many new tokens of a request on, a block of query rows is full of one head's: the kernel is that of a
// prefill, whose blocks read all keys one after the other.
constexpr double prefill_queries = 128;

// Prompts that attend over latents (sparse attention) have blocks for all SMs: keys are not divided between blocks, so
// that no block waits for its part of them and no results are merged.
CachedAttentionConstants without_division(CachedAttentionConstants form, const CachedAttentionWork& work) {
  if (work.queries >= prefill_queries) form.ramp = form.merge_time = 0;
  return form;
}

bool is_latent(const Operator& op) { return std::get<CachedAttentionAttributes>(op.attributes).latent; }

bool runs_as_prefill(const Operator& op, const CachedAttentionWork& work) {
  return work.queries >= prefill_queries && !is_latent(op);
}

AttentionWork as_prefill(const CachedAttentionWork& work) {
  return {.batch_heads = work.requests * work.query_heads,
          .kv_heads_batch = work.requests * work.kv_heads,
          .queries = work.queries,
          .pairs_per_query = work.pairs_per_query,
          .qk_dim = work.qk_dim,
          .v_dim = work.v_dim,
          .keys = work.keys,
          .longest = work.keys,
          .element_bytes = work.key_value_bytes / (work.kv_heads * (work.qk_dim + work.v_dim))};
}

}  // namespace

// A profile without constants of a format takes those of 16 bits, and without any those of its attention and memory.
void KernelCost::read_cached_attention(ConstantReader& reader) {
  for (const bool latent : {false, true}) {
    for (const bool narrow : {false, true}) {
      CachedAttentionKind& kind = cached_attention_[latent ? 1 : 0][narrow ? 1 : 0];
      const std::string name =
          fmt::format("cached_attention.{}_{}", latent ? "latent" : "grouped", narrow ? "fp8" : "bf16");
      const auto own = [&](std::string_view what) { return reader.find(fmt::format("{}.{}", name, what)); };
      if (narrow) kind = cached_attention_[latent ? 1 : 0][0];
      if (!narrow && !own("bandwidth")) {
        kind.start = reader.require("kernel.shortest");
        kind.bandwidth = reader.require_either("attention.kv_bandwidth", "memory.default.bandwidth");
        kind.rate = reader.require("attention.forward_rate");
      }
      for (const auto& [what, constant] :
           {std::tuple("start", &kind.start), std::tuple("bandwidth", &kind.bandwidth), std::tuple("rate", &kind.rate),
            std::tuple("request_time", &kind.request_time), std::tuple("ramp", &kind.ramp),
            std::tuple("merge_time", &kind.merge_time)})
        *constant = own(what).value_or(*constant);
      const auto plain = [&](std::string_view what, double otherwise) {
        return own(what).value_or(Constant{-1, otherwise}).value;
      };
      kind.form = {.start = kind.start.value,
                   .request_time = kind.request_time.value,
                   .bandwidth = kind.bandwidth.value,
                   .rate = kind.rate.value,
                   .ramp = kind.ramp.value,
                   .ramp_time = plain("ramp_time", kind.form.ramp_time),
                   .merge_time = kind.merge_time.value,
                   .least_rows = plain("least_rows", kind.form.least_rows)};
    }
  }
}

const KernelCost::CachedAttentionKind& KernelCost::cached_attention_kind(const Graph& graph, const Operator& op) const {
  const bool narrow = bytes_per_element(graph.tensor(op.reads[2]).type) < 2;
  return cached_attention_[is_latent(op) ? 1 : 0][narrow ? 1 : 0];
}

// On fewer SMs it reads and computes as much slower.
KernelTime KernelCost::cached_attention(const Graph& graph, const Operator& op, const Conditions& conditions) const {
  const CachedAttentionWork work = cached_attention_work(graph, op, true);
  const double slowdown = conditions.co_runner == CoRunner::transferring || conditions.co_runner == CoRunner::collective
                              ? attention_slowdown_
                              : 1;
  const auto free = static_cast<double>(occupancy(conditions).free);
  const double clock = sustained_clock_ * conditions.clock;
  KernelTime result;
  if (runs_as_prefill(op, work)) {
    const AttentionKind& kind = attention_[0][0];
    const AttentionSeconds parts = attention_parts(kind.form, as_prefill(work), attention_sms_, free);
    result.shares = {Share{kind.rate.index, parts.gemms}, Share{kind.pair_time.index, parts.pairs},
                     Share{kind.row_time.index, parts.rows}, Share{kind.tail.index, parts.tail},
                     Share{kind.kv_bandwidth.index, parts.keys_values}};
    return with_gaps(scaled(result, slowdown / clock), 1);
  }
  const CachedAttentionKind& kind = cached_attention_kind(graph, op);
  const double share = free / static_cast<double>(device_sms_) / slowdown;
  CachedAttentionConstants form = without_division(kind.form, work);
  form.bandwidth *= share * conditions.bandwidth;
  form.rate *= share * clock;
  const CachedAttentionSeconds parts = cached_attention_parts(form, work);
  result.shares = {Share{kind.start.index, parts.start},       Share{kind.request_time.index, parts.requests},
                   Share{kind.bandwidth.index, parts.reading}, Share{kind.rate.index, parts.computing},
                   Share{kind.ramp.index, parts.ramp},         Share{kind.merge_time.index, parts.merge}};
  return with_gaps(scaled(result, 1), 1);
}

double KernelCost::cached_attention_at_best(const Graph& graph, const Operator& op) const {
  const CachedAttentionWork work = cached_attention_work(graph, op, true);
  if (runs_as_prefill(op, work)) {
    AttentionConstants form = attention_[0][0].form;
    form.dim_block = 1;
    const AttentionSeconds parts =
        attention_parts(form, as_prefill(work), attention_sms_, static_cast<double>(device_sms_));
    return (parts.gemms + parts.pairs) / sustained_clock_;
  }
  CachedAttentionConstants form = cached_attention_kind(graph, op).form;
  form.rate *= sustained_clock_;
  return cached_attention_parts(form, work).core();
}

}  // namespace plumbline::model
