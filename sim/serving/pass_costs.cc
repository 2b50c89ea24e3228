#include "sim/serving/pass_costs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "model/cost/operator_class.h"
#include "model/cost/sm_partition.h"
#include "model/cost/work.h"
#include "model/memory/memory.h"
#include "model/plan/layout.h"
#include "model/program/compile.h"
#include "sim/predict/memos.h"
#include "sim/predict/plan_key.h"

namespace plumbline::sim {
namespace {

using model::OperatorClass;
using model::Section;
using model::ServingBound;
using Kind = model::InferencePass::Kind;

// Returns the bytes of a kernel's weights that it reads: those of experts that have rows.
double weights_read(const model::Graph& graph, const model::Operator& op) {
  double bytes = 0;
  for (const model::TensorId id : op.reads) {
    const model::Tensor& tensor = graph.tensor(id);
    if (tensor.role != model::Role::parameter) continue;
    const auto* matmul = std::get_if<model::MatmulAttributes>(&op.attributes);
    const bool some = op.kind == model::OperatorKind::grouped_matmul && matmul != nullptr && matmul->groups_hit > 0;
    const auto experts = static_cast<double>(tensor.shape.front().size);
    bytes += tensor.bytes().value() * (some ? std::min(1.0, matmul->groups_hit / experts) : 1);
  }
  return bytes;
}

// A part of the seconds below which what a kernel does at the device's peaks does not explain them.
constexpr double explained = 0.5;

ServingBound larger(double seconds, double memory, ServingBound of_memory, double compute) {
  if (std::max(memory, compute) < explained * seconds) return ServingBound::latency;
  return memory >= compute ? of_memory : ServingBound::compute;
}

// Returns what binds a kernel on one GPU that takes `seconds`.
ServingBound kernel_bound(const model::Graph& graph, const model::Operator& op, const model::Device& device,
                          double seconds) {
  const OperatorClass type = model::operator_class(graph, op);
  const double bandwidth = device.memory_bandwidth.value();
  const double flops = model::flops(graph, op, 1, true).value();
  if (type == OperatorClass::cached_attention || op.kind == model::OperatorKind::scan_step)
    return larger(seconds, model::bytes_moved(graph, op, 1).value() / bandwidth, ServingBound::kv,
                  flops / device.bf16_peak.value());
  if (type == OperatorClass::attention || type == OperatorClass::scan) return ServingBound::compute;
  if (is_gemm(type)) {
    const double peak = model::peak(device, graph.tensor(op.reads[0]).type);
    return larger(seconds, weights_read(graph, op) / bandwidth, ServingBound::weights, flops / peak);
  }
  return larger(seconds, 0, ServingBound::weights, model::bytes_moved(graph, op, 1).value() / bandwidth);
}

ServingBound link_bound(const model::CommunicationCost::LinkSeconds& best, double seconds) {
  return std::max(best.network, best.node) < explained * seconds ? ServingBound::latency : ServingBound::links;
}

bool attends(OperatorClass type) { return type == OperatorClass::attention || type == OperatorClass::cached_attention; }

// Finds the part of each operator of a block in program order.
class PartFinder {
 public:
  BlockPart part(const model::Graph& graph, const model::Operator& op) {
    const OperatorClass type = model::operator_class(graph, op);
    if (type == OperatorClass::collective) return BlockPart::collectives;
    attended_ = attended_ || attends(type) || type == OperatorClass::scan;
    switch (op.section) {
      case Section::embedding:
        return BlockPart::embedding;
      case Section::attention:
        return attended_ ? BlockPart::attention_out : BlockPart::attention_in;
      case Section::dispatch:
        return BlockPart::dispatch;
      case Section::mlp:
        return op.name.starts_with("shared_") ? BlockPart::shared_experts : BlockPart::mlp;
      case Section::combine:
        return BlockPart::combine;
      default:
        return BlockPart::head;
    }
  }

 private:
  bool attended_ = false;
};

// Returns whether an operator casts what attention or an activation has written for the GEMM that leaves its region.
bool casts_before_exit(const model::Operator& op) {
  return op.kind == model::OperatorKind::cast && (op.name == "cast_o" || op.name.ends_with("down"));
}

// Returns the indices of constants in order, each once; -1 is that of none.
std::vector<std::int32_t> without_repeats(std::vector<std::int32_t> constants) {
  std::ranges::sort(constants);
  const auto rest = std::ranges::unique(constants);
  constants.erase(rest.begin(), rest.end());
  std::erase(constants, -1);
  return constants;
}

// Returns a GEMM of experts of which so many have rows, kept in `changed`; other operators as they are.
const model::Operator& with_hit(const model::Operator& op, double hit, model::Operator& changed) {
  if (hit == 0 || op.kind != model::OperatorKind::grouped_matmul) return op;
  changed = op;
  std::get<model::MatmulAttributes>(changed.attributes).groups_hit = hit;
  return changed;
}

model::Precision weights_of(const model::Plan& plan, const PassShape& shape) {
  return shape.model == PassModel::served ? plan.inference.weights : model::Precision::bf16;
}

EngineMemory memory_of(model::ConstantReader& reader) {
  const auto read = [&](const std::string& name, double absent = 0) { return reader.value("serving." + name, absent); };
  EngineMemory memory{.most_requests = read("most_requests"),
                      .block_tokens = read("memory.block_tokens", 1),
                      .reserved = read("memory.reserved"),
                      .reserved_tokens = read("memory.reserved_tokens", std::numeric_limits<double>::infinity()),
                      .of_static = read("memory.static") > 0,
                      .of_free = read("memory.free") > 0,
                      .logit = read("memory.logit")};
  memory.left = {.fixed = read("memory.fixed"),
                 .token = read("memory.token"),
                 .graph = read("memory.graph"),
                 .group_graph = read("memory.group_graph"),
                 .gpu = read("memory.gpu"),
                 .draft = read("memory.draft"),
                 .draft_model = read("memory.draft_model"),
                 .least = read("memory.least")};
  return memory;
}

void add_instance(const model::Plan& plan, const model::Instance& instance, PlanKey& key) {
  key.add(instance.tensor, instance.expert, instance.expert_tensor(), instance.redundant_experts,
          model::dispatch_of(plan, instance), plan.inference.weights, plan.routing.max_nodes_per_token,
          plan.stack.dispatcher);
}

}  // namespace

bool has_experts(model::BlockKind kind) {
  using enum model::BlockKind;
  return kind == multi_token_prediction || model::layer_of(kind, {}).feed_forward == model::FeedForward::experts;
}

double BoundSeconds::sum() const { return std::accumulate(by.begin(), by.end(), 0.0); }

ServingBound BoundSeconds::largest() const {
  return static_cast<ServingBound>(std::ranges::max_element(by) - by.begin());
}

BoundSeconds& BoundSeconds::operator+=(const BoundSeconds& other) {
  for (std::size_t i = 0; i < bounds; ++i) by[i] += other.by[i];
  return *this;
}

BoundSeconds BlockCost::sum() const {
  BoundSeconds sum;
  for (const BoundSeconds& part : seconds) sum += part;
  return sum;
}

PassGraph::PassGraph(model::Graph block)
    : graph(std::move(block)),
      weights_bytes(model::weight_bytes(graph).value()),
      activation_bytes(model::activation_bytes(graph).value()) {}

std::shared_ptr<const PassGraph> PassGraphs::find(const std::string& key, const model::LayerContext& degrees,
                                                  model::BlockKind kind) {
  if (made_ > most_graphs) {
    graphs_.clear();
    ranks_.clear();
    made_ = 0;
  }
  return graphs_.find(key, [&] {
    ++made_;
    return std::make_shared<const PassGraph>(model::make_block(kind, degrees));
  });
}

double PassGraphs::imbalance(const model::MixtureOfExperts& experts, const model::LayerContext& pass) {
  const double skew = pass.inference.expert_skew, tokens = static_cast<double>(pass.choosing_tokens());
  const Ranks key = {pass.expert_parallel, pass.redundant_experts, skew};
  return imbalances_.find({key, tokens}, [&] {
    const auto ranks = ranks_.find(key, [&] {
      return std::make_shared<const model::ServedRanks>(experts, pass.expert_parallel, pass.redundant_experts, skew);
    });
    return ranks->fullest(tokens);
  });
}

model::Result<std::shared_ptr<const PassCosts>> PassCosts::make(const Inputs& inputs) {
  auto holds =
      std::make_shared<const model::DeviceProfile>(TRY(model::profile_on(inputs.profile, inputs.cluster.device)));
  const auto kernels = TRY(model::KernelCost::make(holds->profile, inputs.cluster.device));
  const auto host = TRY(model::HostCost::make(holds->profile, inputs.cluster, inputs.plan));
  std::shared_ptr<PassCosts> costs(new PassCosts(inputs, std::move(holds), kernels, host));
  costs->kernels_.use(inputs.shapes);
  model::ConstantReader reader(costs->profile_->profile);
  costs->mixes_prompts_ = reader.value("serving.mixed_chunks", 1) > 0;
  costs->whole_prompts_ = reader.value("serving.whole_prompts") > 0;
  costs->shares_chunks_ = reader.value("serving.shared_chunks") > 0;
  costs->steps_ahead_ = reader.value("serving.steps_ahead");
  if (inputs.plan.inference.stream_interval > 0) costs->tokenize_ = reader.value("serving.tokenize");
  std::int64_t& state_bytes = costs->served_.recurrence.state_bytes;
  if (state_bytes == 0 && reader.value("serving.narrow_states") > 0) state_bytes = 2;
  costs->static_casts_ = reader.value("serving.static_casts") > 0;
  constexpr double unbounded = std::numeric_limits<double>::infinity();
  costs->graphs_ = {.step = std::llround(reader.value("serving.graphs.step")),
                    .wide_from = reader.value("serving.graphs.wide_from", unbounded),
                    .most = reader.value("serving.graphs.most", unbounded),
                    .wide_step = std::llround(reader.value("serving.graphs.wide_step", 1))};
  costs->memory_ = memory_of(reader);
  return std::shared_ptr<const PassCosts>(std::move(costs));
}

const model::Architecture& PassCosts::architecture(PassModel model) const {
  if (model == PassModel::served) return served_;
  return model == PassModel::head ? head_ : *inputs_.draft;
}

// EAGLE's heads are one layer with the model's widths, a dense MLP and no window over the projection of its last hidden
// state and the embedding of the token after it (arXiv 2401.15077), which is what a prediction module is.
model::Architecture PassCosts::head_of(model::Architecture model) {
  if (model.intermediate_size == 0) model.intermediate_size = model.experts.intermediate_size;
  model.experts = {};
  model.window = {};
  model.multi_token_prediction_layers = 1;
  return model;
}

bool PassCosts::replays(double requests) const { return host_.graphs() && requests <= graphs_.most; }

// Batches of 1, 2 and 4 are captured, then multiples of a step.
std::optional<CapturedBatch> PassCosts::captured(double requests) const {
  if (graphs_.step == 0 || !replays(requests)) return std::nullopt;
  constexpr std::int64_t doubled = 4;
  CapturedBatch batch{0, 1};
  while (static_cast<double>(batch.rows) < requests) {
    batch.below = batch.rows;
    if (batch.rows < doubled)
      batch.rows *= 2;
    else if (static_cast<double>(batch.rows) < graphs_.wide_from)
      batch.rows = (batch.rows / graphs_.step + 1) * graphs_.step;
    else
      batch.rows += graphs_.wide_step;
  }
  return batch;
}

double PassCosts::message_seconds(const model::CommunicationCost& transfers, double tokens) const {
  const auto width = static_cast<double>(inputs_.architecture.stream_columns());
  return transfers.p2p(model::Bytes(tokens * width * model::bytes_per_element(model::DataType::bf16)), 1);
}

bool PassCosts::weights_only(model::Precision weights) const {
  return model::peak(inputs_.cluster.device, weights) == 0 || !kernels_.has_gemm(weights);
}

// Tokens that all ranks gather are cast to FP8 only where the experts read them (NVIDIA/TensorRT-LLM
// tensorrt_llm/_torch/modules/fused_moe.py, vllm-project/vllm's and sgl-project/sglang's gathers), while experts of
// NVFP4 have theirs cast before (NVIDIA/TensorRT-LLM tensorrt_llm/_torch/utils.py: disable_fp4_allgather() is false;
// sgl-project/sglang python/sglang/srt/layers/moe/token_dispatcher/standard.py: fp4_quantize, then all_gatherv).
model::Precision PassCosts::dispatch_format(const model::Plan& plan, const model::Instance& instance) const {
  using enum model::Precision;
  const model::Precision weights = plan.inference.weights;
  if (!model::is_quantized(weights) || weights_only(weights)) return bf16;
  const bool gathers = instance.attention_data > 1 && model::dispatch_of(plan, instance) == model::all_reduce_dispatch;
  if (!gathers) return fp8;
  if (weights == nvfp4) return nvfp4;
  return weights == fp8 || weights == fp8_tensor ? bf16 : fp8;
}

double PassCosts::engine_seconds(double device, double launches, double requests) const {
  return host_.serving_step(device, launches > 0 ? launches : host_.issue({}), requests) - device;
}

// Copies of experts spread a token's experts over as many ranks as experts of their own would.
model::RoutingSpread PassCosts::spread(const model::Plan& plan, const model::Instance& instance) const {
  model::MixtureOfExperts held = inputs_.architecture.experts;
  if (held.routed_experts == 0) return {};
  held.routed_experts += instance.redundant_experts;
  std::int64_t groups = model::groups_per_token(plan, held);
  if (held.routed_experts % held.groups != 0) groups = held.groups = 1;
  const std::int64_t on_node = std::max<std::int64_t>(1, inputs_.cluster.gpus_per_node / instance.expert_tensor());
  return inputs_.routing->spread(held, groups, instance.expert, on_node);
}

model::Result<PassCosts::Communication> PassCosts::communication(const model::Plan& plan,
                                                                 const model::Instance& instance, bool decodes) const {
  const std::string dispatch = model::dispatch_of(plan, instance);
  const bool low_latency = decodes && instance.expert > 1 && dispatch != model::all_reduce_dispatch;
  PlanKey key;
  add_instance(plan, instance, key);
  key.add(low_latency, plan.overlap.communication_sms, plan.overlap.communication_kernels);
  return communications_.find(key.bytes(), [&]() -> model::Result<Communication> {
    const auto width = static_cast<double>(inputs_.architecture.expert_hidden());
    const double sent = width * model::bytes_per_element(model::activation_type(dispatch_format(plan, instance)));
    const double returned = width * model::bytes_per_element(model::DataType::bf16);
    auto costs = TRY(model::CommunicationCost::make(
        profile_->profile, inputs_.cluster,
        {spread(plan, instance), instance.expert, instance.expert_tensor(), sent, returned},
        {plan.overlap.communication_kernels, plan.overlap.communication_sms, model::dispatcher_of(plan),
         low_latency ? dispatch : ""}));
    costs.use(inputs_.shapes);
    return std::make_shared<const model::CommunicationCost>(std::move(costs));
  });
}

model::LayerContext PassCosts::context(const model::Plan& plan, const model::Instance& instance, const PassShape& shape,
                                       bool with_experts) const {
  const auto& inference = plan.inference;
  const model::Architecture& architecture = this->architecture(shape.model);
  model::LayerContext c;
  c.gemm = weights_of(plan, shape);
  c.attention = model::attention_kernel(plan.attention.kernel);
  c.tokens = shape.requests * shape.new_tokens;
  c.sequence_length = shape.new_tokens;
  c.tensor = instance.tensor;
  c.shares_embedding = instance.pipeline == 1;
  c.inference = {shape.kind, shape.requests, shape.new_tokens, shape.cached_tokens, inference.kv_cache};
  c.inference.weights_only = weights_only(c.gemm);
  c.inference.last_token = shape.drafts;
  if (architecture.experts.routed_experts == 0) return c;
  const bool reduces = model::dispatch_of(plan, instance) == model::all_reduce_dispatch;
  const bool shared_tokens = instance.attention_data == 1 && (reduces || instance.expert == 1);
  // The ranks of a group that have the same tokens each send a part of them.
  c.sequence = instance.tensor > 1 && !shared_tokens;
  if (!with_experts) return c;
  c.dispatch = dispatch_format(plan, instance);
  c.combine = model::Precision::bf16;
  c.expert_parallel = instance.expert;
  c.expert_tensor = instance.expert_tensor();
  c.redundant_experts = instance.redundant_experts;
  c.inference.expert_skew = skew(plan);
  c.groups_per_token = model::groups_per_token(plan, architecture.experts);
  c.distinct_ranks_per_token = spread(plan, instance).ranks_per_token;
  c.inference.shared_tokens = shared_tokens;
  const bool low_latency = shape.kind == Kind::decode && !reduces && instance.expert > 1;
  c.dispatcher = low_latency ? model::Dispatcher::low_latency : model::dispatcher_of(plan);
  if (reduces || instance.expert == 1) c.dispatcher = model::Dispatcher::allgather;
  c.inference.masked_experts = low_latency;
  return c;
}

double PassCosts::skew(const model::Plan& plan) const {
  const auto& inference = plan.inference;
  if (inference.expert_skew) return *inference.expert_skew;
  return inference.expert_imbalance ? 0 : model::served_skew(inputs_.architecture.experts).middle;
}

double PassCosts::imbalance(const model::Plan& plan, const model::LayerContext& pass) const {
  if (plan.inference.expert_imbalance) return *plan.inference.expert_imbalance;
  if (inputs_.architecture.experts.routed_experts == 0 || pass.expert_parallel == 1) return 1;
  return passes_->imbalance(inputs_.architecture.experts, pass);
}

BlockCost PassCosts::cost(const PassGraph& block, const PassShape& shape, model::Precision weights,
                          const ExpertLoad& load, const model::CommunicationCost& communication) const {
  const double imbalance = load.imbalance;
  const bool writes_operands = static_casts_ && weights == model::Precision::fp8_tensor;
  const model::Graph& graph = block.graph;
  const model::Device& device = inputs_.cluster.device;
  model::Conditions conditions{.sms = device.sms, .row_scale = imbalance};
  if (shape.communicates && shape.kind == Kind::prefill) {
    const model::SmPartition partition{model::SmPolicy::fixed, device.sms, communication.communication_sms()};
    conditions = partition.overlapped(model::CoRunner::transferring);
    conditions.row_scale = imbalance;
  }
  BlockCost cost;
  PartFinder parts;
  std::vector<std::int32_t> constants;
  model::HostCalls calls;
  model::Operator hit;
  for (const model::Operator& even : graph.operators) {
    const model::Operator& op = with_hit(even, load.hit, hit);
    if (writes_operands && casts_before_exit(op)) continue;
    calls.add(host_.calls(graph, op, kernels_.launches(graph, op), 1));
    const OperatorClass type = model::operator_class(graph, op);
    BoundSeconds& part = cost.seconds[static_cast<std::size_t>(parts.part(graph, op))];
    if (type == OperatorClass::exchange) {
      const model::AllToAllTime sent = communication.all_to_all(graph, op);
      // The fullest rank has more bytes on its links; kernels start and signal as long as with the mean.
      const model::CommunicationCost::LinkSeconds links = communication.all_to_all_at_best(graph, op);
      const double transfer =
          (shape.communicates ? sent.overlapped : sent.alone) + (imbalance - 1) * std::max(links.network, links.node);
      part.add(ServingBound::latency, sent.prepare + sent.notify);
      part.add(link_bound(links, transfer), transfer);
      constants.push_back(sent.share.index);
    } else if (type == OperatorClass::collective) {
      const double seconds = communication.collective(graph, op);
      part.add(link_bound(communication.collective_at_best(graph, op), seconds), seconds);
      constants.push_back(communication.collective_share(graph, op).index);
    } else {
      const model::KernelTime time = kernels_.time(graph, op, conditions);
      if (attends(type)) cost.core_attention += time.seconds;
      part.add(kernel_bound(graph, op, device, time.seconds), time.seconds);
      for (const model::Share& share : time.shares)
        if (share.seconds > 0) constants.push_back(share.index);
    }
  }
  cost.launches = host_.one_by_one(calls);
  cost.weights_bytes = block.weights_bytes;
  cost.activation_bytes = block.activation_bytes;
  cost.constants = without_repeats(std::move(constants));
  return cost;
}

std::shared_ptr<const BlockCost> PassCosts::block(const model::Plan& plan, const model::Instance& instance,
                                                  const model::CommunicationCost& transfers, const PassShape& shape,
                                                  model::BlockKind kind) const {
  const bool experts = has_experts(kind);
  model::LayerContext degrees = context(plan, instance, shape, experts);
  const double skew = degrees.inference.expert_skew;
  degrees.inference.expert_skew = 0;  // Draws of it share the graphs.
  PlanKey key;
  key.add(shape.requests, shape.new_tokens);  // what differs most is compared first
  model::visit_context(degrees, [&](const auto& value) { key.add(value); });
  key.add(kind, shape.model);
  const std::string graph = key.bytes();
  if (experts || shape.communicates) {
    add_instance(plan, instance, key);
    key.add(skew, shape.communicates, plan.inference.expert_imbalance, plan.overlap.communication_sms,
            plan.overlap.communication_kernels);
  }
  return blocks_.find(key.bytes(), [&] {
    degrees.architecture = architecture(shape.model);
    const auto found = passes_->find(graph, degrees, kind);
    degrees.inference.expert_skew = skew;
    ExpertLoad load;
    if (experts) load = {imbalance(plan, degrees), skew > 0 ? degrees.experts_hit() : 0};
    return std::make_shared<const BlockCost>(cost(*found, shape, weights_of(plan, shape), load, transfers));
  });
}

}  // namespace plumbline::sim
