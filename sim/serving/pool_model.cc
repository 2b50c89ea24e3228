#include "sim/serving/pool_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/base/integers.h"
#include "model/plan/stage_split.h"
#include "model/routing/files.h"
#include "sim/serving/serving_forms.h"

namespace plumbline::sim {

namespace {

using Kind = model::InferencePass::Kind;
using model::BlockKind;
using model::ServingBound;

// The tokens that a rank of a pool for prefill computes in a pass (DeepSeek, profile-data, prefill: 16K per GPU).
constexpr double prefill_batch = 16384;

constexpr double most_read = 65536;  // tokens of cached prefixes

// Returns the seconds of a pass's kernels on its slowest stage, less some.
double on_slowest_stage(const PassTime& time, double less) {
  const double host = time.by[static_cast<std::size_t>(PassPart::host)].seconds.sum();
  return (time.seconds - host - less) * time.longest / time.seconds;
}

PassPart pass_part(BlockPart part) {
  static constexpr std::array<PassPart, BlockCost::parts> parts = {
      PassPart::embedding,      PassPart::attention, PassPart::attention, PassPart::collectives, PassPart::dispatch,
      PassPart::shared_experts, PassPart::mlp,       PassPart::combine,   PassPart::head};
  return parts[static_cast<std::size_t>(part)];
}

LayerSeconds seconds_of(const BlockCost& cost) {
  return {cost[BlockPart::attention_in].sum(),   cost[BlockPart::attention_out].sum(), cost[BlockPart::dispatch].sum(),
          cost[BlockPart::shared_experts].sum(), cost[BlockPart::mlp].sum(),           cost[BlockPart::combine].sum()};
}

PassTime in_order(const BlockCost& cost) {
  PassTime time;
  for (std::size_t i = 0; i < BlockCost::parts; ++i)
    time[pass_part(static_cast<BlockPart>(i))].seconds += cost.seconds[i];
  time.seconds = cost.sum().sum();
  time.core_attention = cost.core_attention;
  return time;
}

// Returns a layer of two micro-batches, each of which has that cost. What transfers take longer than the kernels that
// run during them is theirs, the rest of them is hidden.
PassTime overlapped(const BlockCost& cost, bool decodes) {
  PassTime time = in_order(cost) * 2;
  const LayerSeconds s = seconds_of(cost);
  const double whole =
      (decodes ? overlapped_decode_layer(s) : overlapped_prefill_layer(s)) + 2 * cost[BlockPart::collectives].sum();
  const double sent = 2 * (s.dispatch + s.combine);
  const double visible = sent > 0 ? std::max(0.0, (whole - (time.seconds - sent)) / sent) : 0;
  for (const PassPart part : {PassPart::dispatch, PassPart::combine}) {
    time[part].hidden = (1 - visible) * time[part].seconds.sum();
    time[part].seconds = time[part].seconds * visible;
  }
  time.seconds = whole;
  return time;
}

PassTime as_part(const PassTime& whole, PassPart part) {
  PassTime time;
  for (const PassTime::Part& one : whole.by) {
    time[part].seconds += one.seconds;
    time[part].hidden += one.hidden;
  }
  time.seconds = whole.seconds;
  time.core_attention = whole.core_attention;
  return time;
}

// Refuses drafts that the model or its instance cannot have.
model::Result<void> check_draft(const Inputs& inputs, const model::Plan& plan, const model::Instance& instance) {
  const model::Architecture& served = inputs.architecture;
  const model::DraftKind kind = model::draft_of(plan, served);
  const auto refuse = [&](std::string message, std::string hint) {
    return tl::unexpected(
        model::plan_error(plan, model::ErrorKind::infeasible, "inference.draft", std::move(message), std::move(hint)));
  };
  if (kind == model::DraftKind::module && served.multi_token_prediction_layers == 0)
    return refuse(fmt::format("{} has no prediction module", served.name), "use \"eagle\", \"ngram\" or a small model");
  if (kind != model::DraftKind::model) return {};
  if (!inputs.draft) return refuse("its model was not loaded", "name a config.json or a shipped model");
  const model::Architecture& draft = *inputs.draft;
  if (draft.vocabulary != served.vocabulary)
    return refuse(fmt::format("{} has a vocabulary of {}, {} one of {}", draft.name, draft.vocabulary, served.name,
                              served.vocabulary),
                  "use a model with the same tokens");
  if (draft.experts.routed_experts > 0)
    return refuse(fmt::format("{} has experts", draft.name), "use a dense model as the draft");
  if (draft.heads % instance.tensor != 0 || draft.head_shape(true).heads % instance.tensor != 0 ||
      draft.intermediate_size % instance.tensor != 0)
    return refuse(
        fmt::format("{} heads of {} do not divide over {} tensor ranks", draft.heads, draft.name, instance.tensor),
        "use a larger draft, or fewer tensor ranks");
  return {};
}

}  // namespace

std::string_view to_string(PassPart part) {
  static constexpr std::array<std::string_view, PassTime::parts> names = {
      "embedding",  "attention", "dispatch",    "shared experts", "MLP", "combine",
      "all-reduce", "head",      "speculation", "pipeline",       "host"};
  return names[static_cast<std::size_t>(part)];
}

BoundSeconds PassTime::bounds() const {
  BoundSeconds sum;
  for (const Part& part : by) sum += part.seconds;
  return sum;
}

PassTime& PassTime::operator+=(const PassTime& other) {
  for (std::size_t i = 0; i < parts; ++i) {
    by[i].seconds += other.by[i].seconds;
    by[i].hidden += other.by[i].hidden;
  }
  seconds += other.seconds;
  longest += other.longest;
  core_attention += other.core_attention;
  return *this;
}

PassTime operator*(PassTime time, double factor) {
  for (PassTime::Part& part : time.by) {
    part.seconds = part.seconds * factor;
    part.hidden *= factor;
  }
  time.seconds *= factor;
  time.longest *= factor;
  time.core_attention *= factor;
  return time;
}

// A request that makes more tokens is in more steps.
MeanRequest mean_request(const model::Plan& plan) {
  const std::vector<model::RequestLength> requests = model::requests_of(plan);
  MeanRequest sum;
  for (const model::RequestLength& one : requests) {
    sum.input += one.input;
    sum.output += one.output;
    sum.context += one.output * mean_context(one.input, one.output);
  }
  const auto count = static_cast<double>(requests.size());
  return {sum.input / count, sum.output / count, sum.context / sum.output};
}

model::Result<std::shared_ptr<const PoolModel>> PoolModel::make(const Inputs& inputs, const PassCosts& costs,
                                                                const model::Plan& plan, model::PoolKind kind) {
  const model::Instance instance = TRY(model::make_instance(plan, inputs.architecture, kind));
  std::shared_ptr<PoolModel> pool(new PoolModel(costs, plan, kind, instance));
  pool->transfers_ = TRY(costs.communication(plan, instance, kind != model::PoolKind::prefill));
  pool->request_ = mean_request(plan);
  pool->tokens_per_step_ =
      sim::tokens_per_step(plan.inference.speculative_tokens, model::acceptance_of(plan, inputs.architecture));
  pool->find_stages(inputs.architecture);
  TRY(check_draft(inputs, plan, instance));
  pool->find_draft(inputs.architecture);
  if (kind != model::PoolKind::decode) pool->find_prefill();
  TRY(pool->find_memory(inputs));
  return std::shared_ptr<const PoolModel>(std::move(pool));
}

// Stages of the same blocks are one.
void PoolModel::find_stages(const model::Architecture& architecture) {
  std::int64_t layer = 0;
  const std::vector<std::int64_t> counts = model::even_layer_counts(architecture.layers, instance_.pipeline);
  for (std::size_t s = 0; s < counts.size(); ++s) {
    Stage stage;
    if (s == 0) ++stage.blocks[BlockKind::embedding];
    for (std::int64_t i = 0; i < counts[s]; ++i) ++stage.blocks[model::layer_kind(architecture, layer++)];
    if (s + 1 == counts.size()) ++stage.blocks[BlockKind::head];
    const bool known = !stages_.empty() && stages_.back().blocks == stage.blocks;
    if (known) ++stages_.back().alike;
    if (!known) stages_.push_back(std::move(stage));
  }
}

void PoolModel::find_draft(const model::Architecture& architecture) {
  const model::DraftKind kind = model::draft_of(plan_, architecture);
  if (kind == model::DraftKind::module || kind == model::DraftKind::head)
    draft_.blocks = {{BlockKind::multi_token_prediction, 1}};
  if (kind == model::DraftKind::head) draft_.model = PassModel::head;
  if (kind != model::DraftKind::model) return;
  draft_.model = PassModel::draft;
  const model::Architecture& small = costs_.architecture(PassModel::draft);
  draft_.blocks = {{BlockKind::embedding, 1}, {BlockKind::head, 1}};
  for (std::int64_t layer = 0; layer < small.layers; ++layer) ++draft_.blocks[model::layer_kind(small, layer)];
}

PassShape PoolModel::draft_shape(PassShape shape) const {
  shape.model = draft_.model;
  shape.drafts = true;
  return shape;
}

// Rows that pad a batch have no keys and values.
PassShape PoolModel::decode_shape(std::int64_t requests, std::int64_t rows) const {
  const double cached = rows == 0 ? 1 : static_cast<double>(requests) / static_cast<double>(rows);
  return {.requests = rows == 0 ? requests : rows,
          .new_tokens = 1 + plan_.inference.speculative_tokens,
          .cached_tokens = request_.context * cached,
          .padding = rows == 0 ? 0 : rows - requests};
}

// A prompt is computed in equal chunks; the tokens before one are those of the mean chunk.
PassShape PoolModel::prompt_shape(std::int64_t requests, std::int64_t chunks) const {
  const double computed = computed_tokens(request_.input, plan_.inference.prefix_hit_rate);
  const double each = computed / static_cast<double>(chunks);
  return {.kind = Kind::prefill,
          .requests = requests,
          .new_tokens = std::max<std::int64_t>(1, std::llround(each)),
          .cached_tokens = request_.input - computed + each * static_cast<double>(chunks - 1) / 2};
}

std::shared_ptr<const BlockCost> PoolModel::block(const PassShape& shape, BlockKind kind) const {
  return costs_.block(plan_, instance_, *transfers_, shape, kind);
}

// Only layers whose experts lie on several ranks are divided into two micro-batches, of half of the requests or, where
// there is one, of its tokens.
PassTime PoolModel::layer(const PassShape& shape, BlockKind kind) const {
  const bool halves =
      instance_.two_micro_batches && instance_.expert > 1 && has_experts(kind) && shape.requests * shape.new_tokens > 1;
  if (!halves) return in_order(*block(shape, kind));
  PassShape half = shape;
  half.communicates = true;
  (shape.requests > 1 ? half.requests : half.new_tokens) =
      model::ceil_div(shape.requests > 1 ? shape.requests : shape.new_tokens, 2);
  return overlapped(*block(half, kind), shape.kind == Kind::decode);
}

PassTime PoolModel::pass(const PassShape& shape) const {
  PassTime time;
  double longest = 0;
  std::map<BlockKind, PassTime> layers;
  for (const Stage& stage : stages_) {
    PassTime one;
    for (const auto& [kind, count] : stage.blocks) {
      const auto [known, fresh] = layers.try_emplace(kind);
      if (fresh) known->second = layer(shape, kind);
      one += known->second * static_cast<double>(count);
    }
    longest = std::max(longest, one.seconds);
    time += one * static_cast<double>(stage.alike);
  }
  const PassTime draft = draft_time(shape);
  time += draft;
  longest += draft.seconds;
  if (instance_.pipeline > 1) {
    const auto tokens = static_cast<double>(shape.requests * shape.new_tokens);
    const double sent = costs_.message_seconds(*transfers_, tokens);
    time[PassPart::pipeline].seconds.add(ServingBound::links, sent * static_cast<double>(instance_.pipeline));
    time.seconds += sent * static_cast<double>(instance_.pipeline);
    longest += sent;
  }
  // Lengths of prompts differ from pass to pass, so that no graph of them is kept.
  const bool replayed = shape.kind == Kind::decode && costs_.replays(static_cast<double>(shape.requests));
  const auto requests = static_cast<double>(shape.requests - shape.padding);
  const double launches = replayed ? 0 : launch_seconds(shape);
  const double host = costs_.engine_seconds(time.seconds, launches, requests);
  time[PassPart::host].seconds.add(ServingBound::host, host);
  time.seconds += host;
  time.longest = longest + costs_.engine_seconds(longest, launches, requests);
  return time;
}

// A draft reads all tokens of the pass, prompts too, since it has keys and values of its own; after them it speculates
// one token, each further one in a pass of its own (vllm-project/vllm vllm/v1/spec_decode/eagle.py, propose;
// sgl-project/sglang python/sglang/srt/speculative/eagle_worker.py, forward_draft_extend_after_decode and
// draft_forward; NVIDIA/TensorRT-LLM tensorrt_llm/_torch/speculative/mtp.py, MTPEagleWorker).
PassTime PoolModel::draft_time(const PassShape& shape) const {
  const auto pass = [&](std::int64_t tokens) {
    PassShape one = draft_shape(shape);
    one.new_tokens = tokens;
    PassTime time;
    for (const auto& [kind, count] : draft_.blocks) time += in_order(*block(one, kind)) * static_cast<double>(count);
    return time;
  };
  PassTime time = pass(shape.new_tokens);
  const auto further = static_cast<double>(plan_.inference.speculative_tokens - 1);
  if (shape.kind == Kind::decode && further > 0) time += pass(1) * further;
  return as_part(time, PassPart::speculation);
}

double PoolModel::launch_seconds(const PassShape& shape) const {
  const auto launches = [&](const PassShape& of, const std::map<BlockKind, std::int64_t>& blocks) {
    double seconds = 0;
    for (const auto& [kind, count] : blocks) seconds += block(of, kind)->launches * static_cast<double>(count);
    return seconds;
  };
  double longest = 0;
  for (const Stage& stage : stages_) longest = std::max(longest, launches(shape, stage.blocks));
  const std::int64_t passes = shape.kind == Kind::decode ? plan_.inference.speculative_tokens : 1;
  return longest + static_cast<double>(passes) * launches(draft_shape(shape), draft_.blocks);
}

std::shared_ptr<const PassTime> PoolModel::at(std::int64_t requests, std::int64_t rows) const {
  return steps_.find({requests, rows},
                     [&] { return std::make_shared<const PassTime>(pass(decode_shape(requests, rows))); });
}

PoolModel::Between PoolModel::between(double requests) {
  constexpr double exact = 8, per_octave = 4;
  const double spacing = requests < exact ? 1 : std::exp2(std::floor(std::log2(requests))) / per_octave;
  const double below = std::floor(requests / spacing) * spacing;
  const double share = (requests - below) / spacing;
  return {std::llround(below), std::llround(share > 0 ? below + spacing : below), share};
}

PoolModel::Between PoolModel::in_decode(double requests) const {
  const auto batch = costs_.captured(requests);
  if (!batch) return between(requests);
  const auto below = static_cast<double>(batch->below), rows = static_cast<double>(batch->rows);
  return {batch->below, batch->rows, (requests - below) / (rows - below), batch->rows};
}

// Of the slowest stage.
PoolModel::Linear PoolModel::linear(double tokens) const {
  const auto at = [this](std::int64_t count) {
    return linear_.find(count, [&] {
      PassTime time = pass({.kind = Kind::prefill, .requests = 1, .new_tokens = count});
      double experts = 0;
      if (instance_.expert > 1)
        for (const PassPart part : {PassPart::dispatch, PassPart::mlp, PassPart::combine})
          experts += time[part].seconds.sum() * time.longest / time.seconds;
      return Linear{on_slowest_stage(time, time.core_attention) - experts, experts};
    });
  };
  const Between b = between(std::max(1.0, tokens));
  const Linear below = at(b.below);
  if (b.share == 0) return below;
  const Linear above = at(b.above);
  return {below.own + b.share * (above.own - below.own), below.experts + b.share * (above.experts - below.experts)};
}

double PoolModel::linear_seconds(double tokens, double tokens_of_experts) const {
  return linear(tokens).own + linear(tokens_of_experts).experts;
}

// Requests that decode have the first of a step's tokens where prompts join it (vllm-project/vllm
// vllm/v1/core/sched/scheduler.py, schedule: the running requests first, waiting ones by what token_budget is left;
// sgl-project/sglang python/sglang/srt/managers/schedule_policy.py, PrefillAdder: less mixed_with_decode_tokens;
// NVIDIA/TensorRT-LLM tensorrt_llm/llmapi/llm_args.py: max_num_tokens of all requests).
double PoolModel::prompt_tokens(double batch) const { return chunk_ - (mixes_prompts() ? decode_rows(batch) : 0); }

double PoolModel::prompts_of_step(double batch) const {
  const double prompts = prompt_tokens(batch) / tokens_of_chunk();
  return std::max(1.0, costs_.whole_prompts() && chunks_ == 1 ? std::floor(prompts) : prompts);
}

double PoolModel::added_seconds(double batch, double prompts, double share) const {
  const double added = prompts * tokens_of_chunk(), rest = prompts * rest_of_prompt_;
  if (!mixes_prompts()) {
    const double alone = linear_seconds(added, share * added) + rest;
    return alone + costs_.engine_seconds(alone, launch_seconds(prompt_shape(1)), prompts);
  }
  const double rows = decode_rows(batch);
  return linear_seconds(rows + added, rows + share * added) - linear_seconds(rows, rows) + rest;
}

// Requests are divided over as many groups as stages, which follow each other through them.
double PoolModel::groups(double batch) const {
  return std::min(static_cast<double>(instance_.pipeline), std::max(1.0, std::floor(batch)));
}

double PoolModel::step_seconds(double batch) const {
  return std::max(engine_step_seconds(batch), costs_.streaming_seconds(std::max(1.0, batch)));
}

double PoolModel::engine_step_seconds(double batch) const {
  const double groups = this->groups(batch);
  const Between b = in_decode(std::max(1.0, batch / groups));
  const auto below = at(b.below, b.rows), above = at(b.above, b.rows);
  const auto mean = [&](double PassTime::*value) {
    return (*below).*value + b.share * ((*above).*value - (*below).*value);
  };
  return std::max(mean(&PassTime::seconds), groups * mean(&PassTime::longest));
}

PassTime PoolModel::step(double batch) const {
  const double groups = this->groups(batch);
  const Between b = in_decode(std::max(1.0, batch / groups));
  PassTime time = *at(b.below, b.rows) * (1 - b.share);
  time += *at(b.above, b.rows) * b.share;
  const double waits = groups * time.longest - time.seconds;
  if (waits > 0) {
    time[PassPart::pipeline].seconds.add(ServingBound::latency, waits);
    time.seconds += waits;
  }
  if (const double sends = costs_.streaming_seconds(std::max(1.0, batch)) - time.seconds; sends > 0) {
    time[PassPart::host].seconds.add(ServingBound::host, sends);
    time.seconds += sends;
  }
  return time;
}

std::vector<std::int32_t> PoolModel::constants(double batch) const {
  std::set<std::int32_t> all;
  const PassShape shape = kind_ == model::PoolKind::prefill
                              ? prompt_shape(1)
                              : decode_shape(in_decode(std::max(1.0, batch / groups(batch))).above);
  const auto add = [&](const PassShape& of, const std::map<BlockKind, std::int64_t>& blocks) {
    for (const auto& [kind, count] : blocks) {
      const auto cost = block(of, kind);
      all.insert(cost->constants.begin(), cost->constants.end());
    }
  };
  for (const Stage& stage : stages_) add(shape, stage.blocks);
  add(draft_shape(shape), draft_.blocks);
  return {all.begin(), all.end()};
}

// A full pass takes as many prompts as fit in the stated tokens, or a part of one. Of chunks that groups share, each
// rank computes its part. What it reads of a cached prefix is bounded, too (vLLM,
// vllm/v1/attention/backends/mla/common.py: a workspace of 64K tokens).
void PoolModel::find_prefill() {
  const double computed = std::max(1.0, computed_tokens(request_.input, plan_.inference.prefix_hit_rate));
  const auto stated = static_cast<double>(plan_.inference.chunked_prefill_tokens);
  const bool apart = kind_ == model::PoolKind::prefill || stated == 0;
  const double full = apart ? std::max(stated, prefill_batch) : stated;
  const auto groups = static_cast<double>(instance_.attention_data);
  chunk_ = !apart && costs_.shares_chunks() ? std::max(1.0, std::floor(stated / groups)) : full;
  const auto chunks_of = [&](double tokens) { return static_cast<std::int64_t>(std::ceil(computed / tokens)); };
  chunks_ = chunks_of(chunk_);
  const double most = computed < request_.input ? most_read / request_.input : full;
  const auto held = static_cast<std::int64_t>(std::min(full / computed, most));
  prefill_shape_ = prompt_shape(std::max<std::int64_t>(1, held), chunks_of(full));
  prefill_.time = pass(prefill_shape_);
  prefill_.tokens = static_cast<double>(prefill_shape_.requests * prefill_shape_.new_tokens);
  prefill_.launches = launch_seconds(prompt_shape(1));
  const PassTime alone = pass(prompt_shape(1));
  const double tokens = tokens_of_chunk(), kernels = on_slowest_stage(alone, 0);
  rest_of_prompt_ = kernels - linear_seconds(tokens, tokens);
  const double share = 1 / static_cast<double>(instance_.attention_data);
  const double lone = (linear_seconds(tokens, share * tokens) + rest_of_prompt_) / kernels;
  prompt_seconds_ = lone * (alone.seconds + static_cast<double>(chunks_ - 1) * alone.longest);
  one_prompt_ = alone;
  lone_seconds_ = lone * alone.longest;
}

double PoolModel::prompt_pass_seconds(double prompts) const {
  const double one = one_prompt_.longest, most = prompts_of_pass();
  if (prompts <= 1) return lone_seconds_ + std::max(0.0, prompts) * (one - lone_seconds_);
  return most <= 1 ? one : one + (std::min(prompts, most) - 1) / (most - 1) * (prefill_.time.longest - one);
}

PassTime PoolModel::prompt_pass(double prompts) const {
  const double most = prompts_of_pass();
  if (prompts <= 1 || most <= 1) return one_prompt_ * (prompt_pass_seconds(prompts) / one_prompt_.longest);
  const double share = (std::min(prompts, most) - 1) / (most - 1);
  PassTime time = one_prompt_ * (1 - share);
  time += prefill_.time * share;
  return time;
}

}  // namespace plumbline::sim
