#include "sim/predict/cost_models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "model/base/bytes.h"
#include "model/cost/operator_class.h"
#include "model/plan/layout.h"
#include "model/plan/software.h"
#include "model/program/compile.h"
#include "model/program/program.h"
#include "sim/cluster/fleet_priors.h"
#include "sim/network/contention.h"
#include "sim/predict/inputs.h"
#include "sim/predict/memos.h"
#include "topologies/fabric.h"

namespace plumbline::sim {
namespace {

constexpr std::string_view limit_key = "cluster.power_limit_w";

model::CommunicationCost::Group expert_group(const Inputs& inputs) {
  const model::RankGroup group = model::expert_group(inputs.plan.parallelism);
  const auto bytes = [&](model::Precision precision) {
    return static_cast<double>(inputs.architecture.expert_hidden()) *
           model::bytes_per_element(model::activation_type(precision));
  };
  return {spread_of(inputs),
          group.ranks,
          group.stride,
          bytes(inputs.plan.precision.dispatch),
          bytes(inputs.plan.precision.combine),
          expert_node_gpus(inputs, inputs.plan)};
}

// Sets how the placement spreads the groups of dense collectives over nodes and links.
model::Result<void> place_groups(const Inputs& inputs, const model::Layout& layout, const topologies::Fabric& fabric,
                                 CostModels& costs) {
  const auto placement = TRY(topologies::placement_of(inputs.plan, fabric.gpus_per_node()));
  LinksMemo own;
  LinksMemo& memo = inputs.links ? *inputs.links : own;
  for (const GroupPattern& pattern : collective_groups(inputs.plan, layout)) {
    GroupLinks links = memo.group(inputs, fabric, placement, pattern);
    costs.communication.place_group(pattern.ranks, pattern.stride,
                                    {pattern.ranks, links.ranks_per_node, links.slowdown});
    // Groups of equal ranks and stride have the links of the last pattern, as costs have.
    costs.groups.insert(costs.groups.begin(), {pattern.ranks, pattern.stride, std::move(links)});
  }
  return {};
}

// Returns the bandwidth of the slowest link between pipeline ranks that follow each other.
double message_rate(const StepLinks& links, const model::Plan& plan) {
  double rate = std::numeric_limits<double>::infinity();
  for (std::int32_t rank = 1; rank < plan.parallelism.pipeline; ++rank)
    for (const auto& [from, to] : {std::pair(rank - 1, rank), std::pair(rank, rank - 1)})
      for (const Crossing& crossing : links.message(from, to))
        rate = std::min(rate, links.fabric().link(crossing.link).bandwidth);
  return rate;
}

// Returns the kernels that move tokens; those of hybridep are a family of their own.
model::CommunicationCost::Kernels exchange_kernels(const model::Plan& plan) {
  const auto& overlap = plan.overlap;
  const model::Dispatcher dispatcher = model::dispatcher_of(plan);
  const bool hybrid = dispatcher == model::Dispatcher::hybridep &&
                      overlap.communication_kernels == model::Plan().overlap.communication_kernels;
  return {hybrid ? std::string_view("hybrid-ep") : overlap.communication_kernels, overlap.communication_sms,
          dispatcher};
}

// Dense collectives run on the reserved SMs, if there are any, else on as many as their kernels use.
std::int64_t collective_sms(const Inputs& inputs, const model::CommunicationCost& communication) {
  const auto& overlap = inputs.plan.overlap;
  const std::int64_t most = inputs.cluster.device.sms - 1;
  const std::int64_t wanted = communication.collective_sms();
  const std::int64_t usual = overlap.communication_sms > 0 ? std::min(overlap.communication_sms, wanted) : wanted;
  return std::min(most, overlap.collective_sms.value_or(usual));
}

// A kernel of attention that the profile lacks has the constants of the one that it was measured with.
void add_attention_warning(const model::Plan& plan, const model::Device& device, model::DeviceProfile& profile) {
  const std::string& kernel = plan.attention.kernel;
  if (kernel == "fused" && lacks(device, "cudnn") && lacks(device, "flash2"))
    profile.warnings.push_back(
        fmt::format("{} runs neither FlashAttention nor cuDNN's attention: a fused kernel is one "
                    "of PyTorch's, and Megatron's is attention.kernel = \"unfused\"",
                    device.name));
  if (kernel == "fused" || kernel == "unfused") return;
  if (profile.profile.find(fmt::format("attention.{}.forward_rate", kernel))) return;
  profile.warnings.push_back(fmt::format("profile {} has no rates of {} attention: its own fused kernel is priced",
                                         profile.profile.name(), kernel));
}

// Returns the share of the memory bandwidth that reductions and gathers leave at their full rate. Those of experts are
// taken to be as fast.
double bandwidth_beside(const Inputs& inputs, const model::Layout& layout, double passes,
                        const model::CollectiveCost& collectives) {
  constexpr double least = 0.1;
  const model::Device& device = inputs.cluster.device;
  if (passes == 0 || layout.dense_group == 1 || device.memory_bandwidth.value() <= 0) return 1;
  const auto group =
      model::CollectiveGroup::strided(layout.dense_group, layout.dense_stride, inputs.cluster.gpus_per_node);
  const double sent = model::bus_factor(model::Collective::all_gather, group.ranks);
  const double rate = sent / collectives.best(model::Collective::all_gather, group, model::Bytes(1));
  return std::max(least, 1 - passes * rate / device.memory_bandwidth.value());
}

model::Failure cannot_be(const model::Plan& plan, std::string key, std::string message, std::string hint) {
  return tl::unexpected(
      model::plan_error(plan, model::ErrorKind::infeasible, std::move(key), std::move(message), std::move(hint)));
}

// Returns the power model of the inputs; a limit that no constant gives a meaning is refused.
model::Result<std::optional<model::PowerModel>> power_model(const Inputs& inputs, const model::Profile& profile) {
  const std::optional<double> given = inputs.plan.cluster.power_limit_w;
  auto power = model::PowerModel::make(profile, {given, inputs.cluster.device.tdp, inputs.power_exponent});
  if (!power && power.error().key == limit_key)
    return tl::unexpected(model::plan_error(inputs.plan, power.error().kind, std::string(limit_key),
                                            power.error().message, power.error().hint));
  if (power && !*power && given)
    return tl::unexpected(
        model::plan_error(inputs.plan, model::ErrorKind::input, std::string(limit_key),
                          fmt::format("profile '{}' does not state what a power limit costs: it has no power.idle",
                                      inputs.profile.name()),
                          "leave the key out, or use a profile with a power model"));
  return power;
}

// Returns "one of bf16, fp16": the formats of GEMMs that the device has.
std::string formats_of(const model::Device& device) {
  std::vector<std::string_view> names;
  for (auto value = model::Precision::fp8; value <= model::Precision::mxfp4;
       value = static_cast<model::Precision>(static_cast<int>(value) + 1))
    if (has_format(device, value)) names.push_back(to_string(value));
  return fmt::format("one of {}", fmt::join(names, ", "));
}

// Refuses a kernel of attention that the device does not have.
model::Result<void> check_attention(const model::Plan& plan, const model::Device& device) {
  if (!lacks(device, plan.attention.kernel)) return {};
  std::vector<std::string> names = model::attention_kernels();
  std::erase_if(names, [&](const std::string& name) { return lacks(device, name); });
  return cannot_be(plan, "attention.kernel",
                   fmt::format("{} does not run {} attention", device.name, plan.attention.kernel),
                   fmt::format("one of {}", fmt::join(names, ", ")));
}

// Refuses a format of attention that the device, the plan's kernel or the profile lacks. Only cuDNN's kernels have one.
model::Result<void> check_attention_format(const model::Plan& plan, const model::Device& device,
                                           const model::Profile& profile, const model::KernelCost& kernels) {
  const auto format = model::attention_format(plan);
  if (!format) return {};
  const std::string& word = plan.precision.attention;
  const auto refuse = [&](const std::string& message, const std::string& hint) {
    return cannot_be(plan, "precision.attention", message, hint);
  };
  if (!has_format(device, *format)) return refuse(fmt::format("{} lacks {}", device.name, word), formats_of(device));
  if (plan.attention.kernel != "fused" && plan.attention.kernel != "cudnn")
    return refuse(fmt::format("{} attention reads 16 bits", plan.attention.kernel),
                  "set it to bf16, or attention.kernel to cudnn or fused");
  if (!kernels.has_attention(*format))
    return refuse(fmt::format("profile '{}' has no attention.{}.forward_rate", profile.name(), word),
                  "set it to bf16, or use a profile that has it");
  return {};
}

std::vector<std::pair<std::string, model::Precision>> formats_of_gemms(const Inputs& inputs) {
  const auto& precision = inputs.plan.precision;
  std::vector<std::pair<std::string, model::Precision>> formats = {{"precision.gemm", precision.gemm}};
  if (precision.experts && inputs.architecture.experts.routed_experts > 0)
    formats.emplace_back("precision.experts", *precision.experts);
  return formats;
}

}  // namespace

std::vector<GroupPattern> collective_groups(const model::Plan& plan, const model::Layout& layout) {
  std::vector<GroupPattern> patterns = {{layout.dense_group, layout.dense_stride, layout.two_directions},
                                        {layout.expert_group, layout.expert_stride, layout.two_directions}};
  for (const model::RankGroup& group : model::layer_groups(plan.parallelism))
    patterns.push_back({group.ranks, group.stride});
  if (is_collective(model::dispatcher_of(plan))) {
    const model::RankGroup group = model::expert_group(plan.parallelism);
    patterns.push_back({group.ranks, group.stride});
  }
  const auto known = [&](std::int64_t ranks, std::int64_t stride) {
    return std::ranges::any_of(
        patterns, [&](const GroupPattern& pattern) { return pattern.ranks == ranks && pattern.stride == stride; });
  };
  for (const bool expert : {false, true}) {  // sharding inside groups
    const model::ShardGroup group = model::shard_group(plan, layout, expert);
    if (layout.two_directions) break;
    if (!known(group.shards, group.stride)) patterns.push_back({group.shards, group.stride});
    if (!known(group.replicas, group.replica_stride)) patterns.push_back({group.replicas, group.replica_stride});
  }
  std::erase_if(patterns, [](const GroupPattern& pattern) { return pattern.ranks == 1; });
  return patterns;
}

WireLoad wire_load(const model::Graph& graph, const std::vector<std::uint16_t>& operators, const CostModels& costs) {
  WireLoad load;
  double most = 0;
  for (const std::uint16_t index : operators) {
    const model::Operator& op = graph.operators[index];
    if (costs.groups.empty() || model::operator_class(graph, op) != model::OperatorClass::collective) continue;
    const auto sent = costs.communication.collective_load(graph, op);
    const auto group = std::ranges::find_if(costs.groups, [&](const CostModels::PlacedGroup& placed) {
      return placed.ranks == sent.ranks && placed.stride == sent.stride;
    });
    if (group == costs.groups.end()) continue;
    load.network_bytes += sent.network_bytes;
    load.node_bytes += sent.node_bytes;
    const double bytes = sent.network_bytes + sent.node_bytes;
    if (bytes > most) load.group = static_cast<std::int32_t>(group - costs.groups.begin());
    most = std::max(most, bytes);
  }
  return load;
}

model::Result<CostModels> cost_models(const Inputs& inputs, const model::Layout& layout) {
  const auto& overlap = inputs.plan.overlap;
  const model::Device& device = inputs.cluster.device;
  if (overlap.communication_sms >= device.sms)
    return cannot_be(
        inputs.plan, "overlap.communication_sms",
        fmt::format("{} communication SMs leave none of {} to compute", overlap.communication_sms, device.sms),
        "give fewer");
  const auto formats = formats_of_gemms(inputs);
  for (const auto& [key, precision] : formats)
    if (!has_format(device, precision))
      return cannot_be(inputs.plan, key,
                       fmt::format("{} {} {}: it lacks the format", device.name,
                                   lacks(device, to_string(precision)) ? "multiplies nothing in" : "states no peak of",
                                   to_string(precision)),
                       formats_of(device));
  TRY(check_attention(inputs.plan, device));
  const model::Precision gemm = formats.front().second;
  const bool has_fp8 =
      gemm == model::Precision::fp8 || gemm == model::Precision::fp8_tensor || gemm == model::Precision::mxfp8;
  if (inputs.plan.precision.parameters == "fp8" && !has_fp8)
    return cannot_be(inputs.plan, "precision.parameters",
                     fmt::format("GEMMs in {} read no parameters in FP8", to_string(gemm)),
                     "set it to bf16, or precision.gemm to fp8, fp8_tensor or mxfp8");
  if (inputs.plan.precision.head != "bf16" && gemm != model::Precision::mxfp8)
    return cannot_be(inputs.plan, "precision.head",
                     fmt::format("it is as other GEMMs are, which are in {}", to_string(gemm)),
                     "set it to bf16, or precision.gemm to mxfp8");
  model::DeviceProfile holds = TRY(model::profile_on(inputs.profile, device));
  add_attention_warning(inputs.plan, device, holds);
  const auto on_device = std::make_shared<const model::DeviceProfile>(std::move(holds));
  const model::Profile& profile = on_device->profile;
  const auto kernels = TRY(model::KernelCost::make(profile, device, model::software_kernels(inputs.plan)));
  for (const auto& [key, precision] : formats)
    if (!kernels.has_gemm(precision))
      return cannot_be(inputs.plan, key,
                       fmt::format("profile '{0}' says nothing about GEMMs in {1}: it has no gemm.{1}.k_time",
                                   inputs.profile.name(), to_string(precision)),
                       "use a profile that has it, or another format");
  TRY(check_attention_format(inputs.plan, device, inputs.profile, kernels));
  const model::Result<model::CommunicationCost> communication =
      model::CommunicationCost::make(profile, inputs.cluster, expert_group(inputs), exchange_kernels(inputs.plan));
  if (!communication) {
    const model::Error& error = communication.error();
    if (error.key != "overlap.communication_kernels") return tl::unexpected(error);
    return tl::unexpected(model::plan_error(inputs.plan, error.kind, error.key, error.message, error.hint));
  }
  const bool reserved = overlap.communication_sms > 0;
  const model::SmPolicy policy = reserved ? model::sm_policy(overlap.sm_policy) : model::SmPolicy::none;
  const auto host = TRY(model::HostCost::make(profile, inputs.cluster, inputs.plan));
  const auto power = TRY(power_model(inputs, profile));
  const model::SmPartition partition{policy, device.sms, communication->communication_sms(),
                                     collective_sms(inputs, *communication)};
  CostModels costs{kernels, *communication, host, partition, nullptr, {}, on_device, power};
  costs.kernels.use(inputs.shapes);
  costs.kernels.slow_down(slowest_gpu(inputs.plan));
  costs.communication.use(inputs.shapes);
  model::ConstantReader reader(profile);
  costs.gather_passes = reader.value("sharding.gather_passes");
  costs.reduce_passes = reader.value("sharding.reduce_passes");
  costs.fp32_reduce_passes = reader.value("sharding.fp32_reduce_passes", costs.reduce_passes);
  costs.accumulate_passes = reader.value("sharding.accumulate_passes");
  costs.run_passes = reader.value("sharding.run_passes", costs.accumulate_passes);
  const auto& parallelism = inputs.plan.parallelism;
  if (parallelism.sequence) {
    const bool several = inputs.plan.batch.micro_batch_size > 1, whole = !overlap.tensor;
    const double gathered = reader.value("sequence.gather_passes"), reduced = reader.value("sequence.reduce_passes");
    const double ordered = several ? reduced : 0, summed = reader.value("sequence.gradient_passes", ordered);
    costs.sequences = {parallelism.tensor, several && whole ? gathered : 0, whole ? ordered : 0,
                       whole || !overlap.tensor_gradients ? summed : 0,
                       whole ? 0 : reader.value("sequence.partial_passes")};
  }
  if (!parallelism.sequence && reader.value("message.divided") > 0)
    costs.communication.divide_messages(parallelism.tensor);
  if (partition.collective_sms > 0) {
    costs.collective_slowdown = reader.value("overlap.collective_slowdown", 1);
    costs.compute_slowdown = reader.value("overlap.compute_slowdown", 1);
    costs.partition.collective_bandwidth =
        bandwidth_beside(inputs, layout, reader.value("overlap.memory_passes"), communication->collectives());
  }
  if (inputs.fabric) {
    auto links = TRY(links_of(inputs, spread_of(inputs)));
    costs.links = std::move(links);
    TRY(place_groups(inputs, layout, costs.links->fabric(), costs));
    if (inputs.fabric->disturbed()) costs.communication.limit_messages(message_rate(*costs.links, inputs.plan));
  }
  return costs;
}

void add_memos(Inputs& inputs) {
  if (!inputs.routing) inputs.routing = std::make_shared<ExpertGroupMemo>();
  if (!inputs.links) inputs.links = std::make_shared<LinksMemo>();
  if (!inputs.tables) inputs.tables = std::make_shared<ScheduleTables>();
}

model::RoutingSpread ExpertGroupMemo::spread(const model::MixtureOfExperts& experts, std::int64_t groups_per_token,
                                             std::int64_t expert_parallel, std::int64_t ranks_per_node) {
  const Key key = {
      experts.routed_experts, experts.groups, experts.experts_per_token, experts.group_score_experts, groups_per_token,
      expert_parallel,        ranks_per_node};
  return spreads_.find(
      key, [&] { return model::routing_spread(experts, groups_per_token, expert_parallel, ranks_per_node); });
}

std::vector<double> ExpertGroupMemo::straggler_waits(const std::string& bytes,
                                                     const std::function<std::vector<double>()>& run) {
  if (runs_ > most_runs) {
    waits_.clear();
    runs_ = 0;
  }
  return waits_.find({std::hash<std::string>{}(bytes), model::hash_of(bytes)}, [&] {
    ++runs_;
    return run();
  });
}

model::RoutingSpread spread_of(const Inputs& inputs) { return spread_of(inputs, inputs.plan); }

std::int64_t expert_node_gpus(const Inputs& inputs, const model::Plan& plan) {
  return inputs.fabric ? topologies::expert_node_gpus(*inputs.fabric, plan) : inputs.cluster.gpus_per_node;
}

model::RoutingSpread spread_of(const Inputs& inputs, const model::Plan& plan) {
  const model::MixtureOfExperts& experts = inputs.architecture.experts;
  ExpertGroupMemo* memo = inputs.routing.get();
  const std::int64_t groups = model::groups_per_token(plan, experts);
  const auto [ranks, stride] = model::expert_group(plan.parallelism);
  const std::int64_t per_node = expert_node_gpus(inputs, plan) / stride;
  const std::int64_t ranks_per_node = std::min(ranks, std::max<std::int64_t>(1, per_node));
  return memo != nullptr ? memo->spread(experts, groups, ranks, ranks_per_node)
                         : model::routing_spread(experts, groups, ranks, ranks_per_node);
}

ScheduleTables::Prepared ScheduleTables::find(const model::ScheduleKind& kind, const model::ScheduleShape& shape) {
  if (ops_ > most_ops) {
    known_.clear();
    ops_ = 0;
  }
  const auto name = static_cast<std::int64_t>(std::hash<std::string_view>{}(kind.name()));
  const Key key = {name, shape.ranks, shape.micro_batches, shape.virtual_stages, shape.micro_batch_group};
  return known_.find(key, [&]() -> Prepared {
    auto table = TRY(model::make_schedule_table(kind, shape));
    ops_ += table.ops.size();
    model::ScheduleOutline outline(table);
    return std::make_shared<const PreparedSchedule>(PreparedSchedule{std::move(table), std::move(outline)});
  });
}

}  // namespace plumbline::sim
