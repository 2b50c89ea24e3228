// The training plan: plain data, strict on input. The keys are a contract with other tools.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture/config_value.h"
#include "model/base/data_type.h"
#include "model/base/error.h"
#include "model/base/provenance.h"

namespace plumbline::model {

struct RoutingFiles;

struct RunPhase {  // a phase whose cost is stated, not predicted
  std::string name;
  double gpu_hours = 0;
  std::string source;
};

// A phase of the campaign, in order. It has tokens, or a share of run.tokens, or what the others leave.
struct CampaignPhaseKeys {
  std::string name;
  std::optional<double> tokens, share;
  std::optional<std::int64_t> global_batch_size;  // sequences; default: the plan's
  std::optional<std::int64_t> sequence_length;    // tokens; default: the plan's

  bool operator==(const CampaignPhaseKeys&) const = default;
};

// [inference.prefill] and [inference.decode]: what one pool of a disaggregated deployment has otherwise than the plan.
struct PoolKeys {
  std::optional<std::int64_t> gpus;  // of the cluster's; default: what the other pool leaves
  std::optional<std::int64_t> tensor, pipeline, expert, attention_data, redundant_experts;
  std::optional<bool> two_micro_batches;

  bool operator==(const PoolKeys&) const = default;
};

// The layers of each stage: their numbers, or else a rule by which make_layout (model/plan/layout.h) finds them.
struct StageLayers {
  std::vector<std::int64_t> counts;
  bool balanced = false;  // without counts: balanced_layer_counts(), else even_layer_counts()

  bool operator==(const StageLayers&) const = default;
};

// The share of a tier's bandwidth that others take, by its name: nic, leaf, spine. Tiers that are not given have 0.
using TierShares = std::map<std::string, double>;

struct Plan {
  struct {
    std::string config;
    ConfigOverrides overrides;  // other keys of [model]: keys of the config.json, whose values they replace
  } model;
  struct {
    std::string topology;
    std::int64_t gpus = 0;
    std::optional<std::string> profile;
    std::optional<std::string> device;
    std::optional<double> power_limit_w;  // of each GPU; default: the device's tdp (model/cost/power_model.h)
    std::optional<std::int64_t> nics_per_node;
    std::optional<double> nic_gbps;  // Gb/s
    std::optional<double> oversubscription;
    std::optional<TierShares> background;        // of other jobs on the network; one number is of all tiers
    std::optional<std::string> background_plan;  // a plan on the same leaves whose mean load is the background
    std::optional<std::string> placement;  // contiguous | striped | random:SEED | file:PATH (topologies/placement.h)
    std::optional<std::string> fleet;      // healthy | stragglers (sim/interval, sim/cluster); default: healthy
    // Of the speed of GPUs, and of the time of a forward or backward of a micro-batch on one of them: standard
    // deviation over mean; default: sim/cluster/fleet_priors.h.
    std::optional<double> speed_deviation, jitter;
  } cluster;
  struct Parallelism {
    std::int64_t tensor = 1;
    bool sequence = false;
    std::int64_t context = 1;
    std::string context_method = "ring";  // ring | all-gather: how keys and values reach the other ranks
    std::int64_t pipeline = 1;
    std::int64_t expert = 1;
    std::int64_t expert_tensor = 1;
    std::int64_t zero_stage = 0;
    std::int64_t shard_group = 0;               // ranks over which ZeRO shards; 0: the whole data-parallel group
    bool reshard_after_forward = true;          // zero_stage 3: gather the parameters again for the backward pass
    std::int64_t synchronization_interval = 1;  // steps from one reduction of the gradients to the next

    bool operator==(const Parallelism&) const = default;
  } parallelism;
  struct {
    std::int64_t sequence_length = 0;    // tokens
    std::int64_t micro_batch_size = 0;   // sequences
    std::int64_t global_batch_size = 0;  // sequences
    // Sequences packed of documents that do not attend to each other (model/routing/documents.h).
    std::optional<double> document_length;        // mean, tokens; default: a document fills its sequence
    std::optional<std::string> document_lengths;  // a file of lengths, tokens
  } batch;
  struct {
    std::string kind = "1f1b";
    StageLayers layers_per_stage;  // counts | even | balanced
    std::int64_t virtual_stages = 1;
  } schedule;
  struct {
    Precision gemm = Precision::bf16;
    Precision dispatch = Precision::bf16;
    Precision combine = Precision::bf16;
    Precision gradients = Precision::fp32;
    Precision master_weights = Precision::fp32;
    Precision optimizer_moments = Precision::fp32;
    std::optional<Precision> gradient_reduce;  // format on the wire; default: that of `gradients`
    std::string scaling = "current";           // current | delayed: where scales of fp8_tensor come from
    std::string weight_cast = "micro_batch";   // micro_batch | step: how often weights are cast for fp8_tensor
  } precision;
  struct {
    bool gradient_clipping = true;       // the norm of the whole gradient scales the update
    std::string ema = "none";            // none | host: a moving average of the parameters in host memory
    std::string gradient_copy = "none";  // none | fp32: FP32 sums next to the gradients of a micro-batch
  } optimizer;
  struct {
    bool optimizer = false;  // master weights and moments in host memory, updated there
    double activations = 0;  // share of the kept activations that waits in host memory (model/graph/offload.h)
  } offload;
  struct {
    std::string kernel = "fused";  // fused | cudnn | flash2 | flash3 | triton | unfused (model/graph/attributes.h)
  } attention;
  struct {
    std::string kernel = "fused";  // fused | unfused (model/layers/blocks.cc)
  } loss;
  struct {
    std::string policy = "none";  // none | selective | full
    std::vector<std::string> operators;
    std::optional<std::int64_t> layers;  // the first ones of each stage; default: all
  } recompute;
  struct {
    std::int64_t communication_sms = 0;               // 0: none reserved
    std::string sm_policy = "static";                 // static | none | dynamic (model/cost/sm_partition.h)
    std::string communication_kernels = "deepep-v1";  // family of the profile (docs/costs.md)
    bool tensor = false;  // tensor-parallel collectives in pieces, overlapped with their GEMMs
    bool gradient_reduce = true;
    bool parameter_gather = true;
    double gradient_bucket_bytes = 40e6;
    std::int64_t prefetch = 1;                   // zero_stage 3: gathers ahead of the compute stream
    std::optional<std::int64_t> collective_sms;  // reserved for dense collectives; default: what they need
  } overlap;
  struct {
    std::optional<std::int64_t> max_nodes_per_token;  // default: topk_group of the model, else unlimited
    double imbalance = 0;                             // coefficient of variation of expert rows between ranks
    std::vector<std::int64_t> rows_per_rank;          // rows of one layer, one count per expert-parallel rank
    std::optional<double> capacity_factor;            // most rows of an expert over the mean; default: none is dropped
    std::optional<bool> pad_to_capacity;              // every expert gets as many rows as its capacity; default: no
    // Where the load of experts comes from (model/routing/rank_rows.h); none: from imbalance or rows_per_rank.
    std::optional<std::string> load_file;  // measured rows of experts by layer
    std::optional<double> skew;            // deviation of the experts' popularity over that of a token's logits
    std::optional<double> correlation;     // of popularity between micro-batches; default: 1
    std::optional<std::string> balancing;  // none | auxiliary | bias; default: none
    std::optional<double> bias_rate;       // change of a bias in a step; default: 0.001
    std::optional<std::int64_t> redundant_experts;  // copies of loaded experts; given: ranks are packed by load
  } routing;
  struct {
    std::optional<std::string> name;       // name or file of a stack, or none (docs/stacks.md); default: the profile's
    std::string dispatcher = "deepep";     // deepep | hybridep | alltoall | allgather: how tokens reach their experts
    std::optional<bool> dispatch_overlap;  // kernels run during dispatch and combine; default: DeepEP's, not NCCL's
  } stack;
  struct {
    double bytes_per_token = 4;
    std::optional<double> loader_gbps;  // Gb/s of a node's data loaders; default: never the limit
    bool prefetch = true;               // load the next step's tokens during the step
  } input;
  struct {  // values that a search may give to the keys of the same meaning (sim/search/search.h); empty: its default
    std::vector<std::int64_t> tensor;
    std::vector<bool> sequence;
    std::vector<std::int64_t> context, pipeline, expert, expert_tensor, zero_stage, micro_batch_size;
    std::vector<std::string> schedule;
    std::vector<std::int64_t> virtual_stages;
    std::vector<std::string> recompute;  // none | selective | mlp | moe | half | full | given (sim/search/choices.h)
    std::vector<std::int64_t> communication_sms;
    std::vector<std::string> split;  // even | first-1 | last-2 | ... | balanced | given (sim/search/choices.h)
  } search;
  struct {  // of the whole training (docs/campaign.md); what is not set is that of the reliability file
    std::optional<std::string> reliability;       // name or path of rates of failures; default: the device's
    std::string checkpoint = "synchronous";       // synchronous | asynchronous | neighbour
    double checkpoint_interval_s = 0;             // 0: the best one
    std::string checkpoint_storage = "parallel";  // parallel | ssd
    std::optional<double> storage_gbps;           // Gb/s: of the parallel storage, else of a node's SSDs
    std::optional<std::int64_t> spare_nodes;      // default: the fewest with which it waits less than 1 % of its time
    bool elastic = false;                         // without a spare the run goes on with fewer replicas
    std::optional<double> restart_s;              // from a stop to the first step, without the load of the checkpoint
    std::optional<double> detect_s;               // from a failure until the run has stopped for it
    std::optional<double> repair_days;            // until a failed node is back
    double health_check_hours = 0;                // from one search for slow nodes to the next; 0: never
    double planned_stops_per_week = 0, planned_stop_hours = 0;
    std::optional<std::string> start, deadline;  // 2026-12-01
    std::vector<CampaignPhaseKeys> phases;
  } campaign;
  struct Inference {                 // serving the model (docs/serving.md): degrees are those of [parallelism]
    bool given = false;              // the plan has this section, and needs no [batch]
    std::string engine = "generic";  // name or file of a stack
    std::int64_t input_tokens = 1024, output_tokens = 1024;  // means: ISL and OSL
    std::optional<std::string> lengths;  // a file of input and output tokens of requests, in place of the means
    std::int64_t concurrency = 64;       // requests in flight in the whole deployment; 0: as many as fit
    double prefix_hit_rate = 0;          // share of the input tokens whose keys and values are already cached
    std::string kv_cache = "bf16";       // fp32 | bf16 | fp16 | fp8 | int6 | nvfp4 (model/layers/key_value_cache.h)
    Precision weights = Precision::fp8;  // and of the GEMMs that read them
    std::int64_t attention_data = 1;  // groups of `tensor` ranks with requests of their own, between which experts lie
    std::int64_t redundant_experts = 0;
    double expert_imbalance = 1;                 // rows of the fullest rank's experts over the mean
    bool two_micro_batches = false;              // one computes while the other dispatches or combines
    std::int64_t chunked_prefill_tokens = 8192;  // tokens of a step that also decodes; 0: prefill apart from decode
    std::int64_t speculative_tokens = 0;
    double acceptance = 0.85;                 // probability that a speculated token is accepted after accepted ones
    std::string dispatch = "deepep-2025-06";  // version of the low-latency kernels, or all-reduce
    double memory_share = 0.9;                // of a GPU's memory that the engine may use
    bool disaggregated = false;
    PoolKeys prefill, decode;  // where `disaggregated`
    std::optional<double> max_ttft_s, max_tpot_s;
    std::optional<double> demand_output_tokens_per_day;  // what the deployment should be large enough for

    bool operator==(const Inference&) const = default;
  } inference;
  struct {
    std::optional<double> tokens;
    std::optional<ConfigValue> goodput;            // in (0, 1], or "campaign": as [campaign] predicts it; default: 1
    std::optional<double> price_usd_per_gpu_hour;  // rent; default: the topology's
    std::string ownership = "rent";                // rent | purchase (model/economics/ownership.h)
    // The following keys describe a purchase; their defaults are the topology's.
    std::optional<double> depreciation_years;
    std::optional<double> utilization;  // share of those years in which the GPUs are in use
    std::optional<double> pue;
    std::optional<double> electricity_usd_per_kwh;
    std::vector<RunPhase> phases;
  } run;

  std::string file;  // the path it was read from; empty for a plan built in code
  // What the files hold that routing and batch name, read with the plan; nullptr: they name none.
  std::shared_ptr<const RoutingFiles> files;
  struct Place {
    std::string file;  // "--set" for an override
    int line = 0;
    std::string implied_by = "";  // what gives the key, for people; empty: the plan does
  };
  std::map<std::string, Place, std::less<>> places;  // where each given key was set
};

// The value of a key that a stack implies.
struct PlanSetting {
  std::string key;
  std::string value;  // as TOML
  Evidence kind = Evidence::assumed;
  std::string source;
  Plan::Place place;
};

// Makes an error about a key of the plan, located where the key was given (else at the plan's file).
Error plan_error(const Plan& plan, ErrorKind kind, std::string key, std::string message, std::string hint);

// A key of [parallelism] whose value is a number of ranks over which something is divided.
struct Degree {
  const char* name;  // its last part
  std::int64_t Plan::Parallelism::*value;
  bool divides_parameters;  // else it divides only activations, layers or tokens
};
// All degrees, in the order of the plan. Code that treats degrees alike iterates over this list; model/plan/layout.h
// derives the groups of ranks from them.
inline constexpr std::array<Degree, 5> parallel_degrees = {
    {{"tensor", &Plan::Parallelism::tensor, true},
     {"context", &Plan::Parallelism::context, false},
     {"pipeline", &Plan::Parallelism::pipeline, false},
     {"expert", &Plan::Parallelism::expert, true},
     {"expert_tensor", &Plan::Parallelism::expert_tensor, true}}};

// Visits the keys of [parallelism] for visit_fields.
template <class Parallelism, class Visitor>
void visit_parallelism(Parallelism& parallelism, Visitor&& visit) {
  visit("parallelism.tensor", parallelism.tensor);
  visit("parallelism.sequence", parallelism.sequence);
  visit("parallelism.context", parallelism.context);
  visit("parallelism.context_method", parallelism.context_method);
  visit("parallelism.pipeline", parallelism.pipeline);
  visit("parallelism.expert", parallelism.expert);
  visit("parallelism.expert_tensor", parallelism.expert_tensor);
  visit("parallelism.zero_stage", parallelism.zero_stage);
  visit("parallelism.shard_group", parallelism.shard_group);
  visit("parallelism.reshard_after_forward", parallelism.reshard_after_forward);
  visit("parallelism.synchronisation_interval", parallelism.synchronization_interval);
}

// Visits the keys of a [[campaign.phase]].
template <class Phase, class Visitor>
void visit_phase(Phase& phase, Visitor&& visit) {
  visit("name", phase.name);
  visit("tokens", phase.tokens);
  visit("share", phase.share);
  visit("global_batch_size", phase.global_batch_size);
  visit("sequence_length", phase.sequence_length);
}

// Visits the keys of [inference] and its pools for visit_fields.
template <class Inference, class Visitor>
void visit_inference(Inference& inference, Visitor&& visit) {
  visit("inference.engine", inference.engine);
  visit("inference.input_tokens", inference.input_tokens);
  visit("inference.output_tokens", inference.output_tokens);
  visit("inference.lengths", inference.lengths);
  visit("inference.concurrency", inference.concurrency);
  visit("inference.prefix_hit_rate", inference.prefix_hit_rate);
  visit("inference.kv_cache", inference.kv_cache);
  visit("inference.weights", inference.weights);
  visit("inference.attention_data", inference.attention_data);
  visit("inference.redundant_experts", inference.redundant_experts);
  visit("inference.expert_imbalance", inference.expert_imbalance);
  visit("inference.two_micro_batches", inference.two_micro_batches);
  visit("inference.chunked_prefill_tokens", inference.chunked_prefill_tokens);
  visit("inference.speculative_tokens", inference.speculative_tokens);
  visit("inference.acceptance", inference.acceptance);
  visit("inference.dispatch", inference.dispatch);
  visit("inference.memory_share", inference.memory_share);
  visit("inference.disaggregated", inference.disaggregated);
  visit("inference.max_ttft_s", inference.max_ttft_s);
  visit("inference.max_tpot_s", inference.max_tpot_s);
  visit("inference.demand_output_tokens_per_day", inference.demand_output_tokens_per_day);
  const auto pool = [&visit](const std::string& name, auto& keys) {
    const auto key = [&name](const char* leaf) { return "inference." + name + "." + leaf; };
    visit(key("gpus"), keys.gpus);
    visit(key("tensor"), keys.tensor);
    visit(key("pipeline"), keys.pipeline);
    visit(key("expert"), keys.expert);
    visit(key("attention_data"), keys.attention_data);
    visit(key("redundant_experts"), keys.redundant_experts);
    visit(key("two_micro_batches"), keys.two_micro_batches);
  };
  pool("prefill", inference.prefill);
  pool("decode", inference.decode);
}

// Calls visit(key, field) for every scalar and list key of the plan, in file order. Reading, unknown-key checks,
// printing and JSON all use this list. [[run.phase]] and [[campaign.phase]] are handled separately; of the model's keys
// only those that the plan gives are visited. The key string is valid during the call only.
template <class PlanType, class Visitor>
void visit_fields(PlanType& plan, Visitor&& visit) {
  visit("model.config", plan.model.config);
  for (auto& [key, value] : plan.model.overrides) visit("model." + key, value);
  visit("cluster.topology", plan.cluster.topology);
  visit("cluster.gpus", plan.cluster.gpus);
  visit("cluster.profile", plan.cluster.profile);
  visit("cluster.device", plan.cluster.device);
  visit("cluster.power_limit_w", plan.cluster.power_limit_w);
  visit("cluster.nics_per_node", plan.cluster.nics_per_node);
  visit("cluster.nic_gbps", plan.cluster.nic_gbps);
  visit("cluster.oversubscription", plan.cluster.oversubscription);
  visit("cluster.background", plan.cluster.background);
  visit("cluster.background_plan", plan.cluster.background_plan);
  visit("cluster.placement", plan.cluster.placement);
  visit("cluster.fleet", plan.cluster.fleet);
  visit("cluster.speed_deviation", plan.cluster.speed_deviation);
  visit("cluster.jitter", plan.cluster.jitter);
  visit_parallelism(plan.parallelism, visit);
  visit("batch.sequence_length", plan.batch.sequence_length);
  visit("batch.micro_batch_size", plan.batch.micro_batch_size);
  visit("batch.global_batch_size", plan.batch.global_batch_size);
  visit("batch.document_length", plan.batch.document_length);
  visit("batch.document_lengths", plan.batch.document_lengths);
  visit("schedule.kind", plan.schedule.kind);
  visit("schedule.layers_per_stage", plan.schedule.layers_per_stage);
  visit("schedule.virtual_stages", plan.schedule.virtual_stages);
  visit("precision.gemm", plan.precision.gemm);
  visit("precision.dispatch", plan.precision.dispatch);
  visit("precision.combine", plan.precision.combine);
  visit("precision.gradients", plan.precision.gradients);
  visit("precision.master_weights", plan.precision.master_weights);
  visit("precision.optimizer_moments", plan.precision.optimizer_moments);
  visit("precision.gradient_reduce", plan.precision.gradient_reduce);
  visit("precision.scaling", plan.precision.scaling);
  visit("precision.weight_cast", plan.precision.weight_cast);
  visit("optimizer.gradient_clipping", plan.optimizer.gradient_clipping);
  visit("optimizer.ema", plan.optimizer.ema);
  visit("optimizer.gradient_copy", plan.optimizer.gradient_copy);
  visit("offload.optimizer", plan.offload.optimizer);
  visit("offload.activations", plan.offload.activations);
  visit("attention.kernel", plan.attention.kernel);
  visit("loss.kernel", plan.loss.kernel);
  visit("recompute.policy", plan.recompute.policy);
  visit("recompute.operators", plan.recompute.operators);
  visit("recompute.layers", plan.recompute.layers);
  visit("overlap.communication_sms", plan.overlap.communication_sms);
  visit("overlap.sm_policy", plan.overlap.sm_policy);
  visit("overlap.communication_kernels", plan.overlap.communication_kernels);
  visit("overlap.tensor", plan.overlap.tensor);
  visit("overlap.gradient_reduce", plan.overlap.gradient_reduce);
  visit("overlap.parameter_gather", plan.overlap.parameter_gather);
  visit("overlap.gradient_bucket_bytes", plan.overlap.gradient_bucket_bytes);
  visit("overlap.prefetch", plan.overlap.prefetch);
  visit("overlap.collective_sms", plan.overlap.collective_sms);
  visit("routing.max_nodes_per_token", plan.routing.max_nodes_per_token);
  visit("routing.imbalance", plan.routing.imbalance);
  visit("routing.rows_per_rank", plan.routing.rows_per_rank);
  visit("routing.capacity_factor", plan.routing.capacity_factor);
  visit("routing.pad_to_capacity", plan.routing.pad_to_capacity);
  visit("routing.load_file", plan.routing.load_file);
  visit("routing.skew", plan.routing.skew);
  visit("routing.correlation", plan.routing.correlation);
  visit("routing.balancing", plan.routing.balancing);
  visit("routing.bias_rate", plan.routing.bias_rate);
  visit("routing.redundant_experts", plan.routing.redundant_experts);
  visit("stack.name", plan.stack.name);
  visit("stack.dispatcher", plan.stack.dispatcher);
  visit("stack.dispatch_overlap", plan.stack.dispatch_overlap);
  visit("input.bytes_per_token", plan.input.bytes_per_token);
  visit("input.loader_gbps", plan.input.loader_gbps);
  visit("input.prefetch", plan.input.prefetch);
  visit("search.tensor", plan.search.tensor);
  visit("search.sequence", plan.search.sequence);
  visit("search.context", plan.search.context);
  visit("search.pipeline", plan.search.pipeline);
  visit("search.expert", plan.search.expert);
  visit("search.expert_tensor", plan.search.expert_tensor);
  visit("search.zero_stage", plan.search.zero_stage);
  visit("search.micro_batch_size", plan.search.micro_batch_size);
  visit("search.schedule", plan.search.schedule);
  visit("search.virtual_stages", plan.search.virtual_stages);
  visit("search.recompute", plan.search.recompute);
  visit("search.communication_sms", plan.search.communication_sms);
  visit("search.split", plan.search.split);
  visit("campaign.reliability", plan.campaign.reliability);
  visit("campaign.checkpoint", plan.campaign.checkpoint);
  visit("campaign.checkpoint_interval_s", plan.campaign.checkpoint_interval_s);
  visit("campaign.checkpoint_storage", plan.campaign.checkpoint_storage);
  visit("campaign.storage_gbps", plan.campaign.storage_gbps);
  visit("campaign.spare_nodes", plan.campaign.spare_nodes);
  visit("campaign.elastic", plan.campaign.elastic);
  visit("campaign.restart_s", plan.campaign.restart_s);
  visit("campaign.detect_s", plan.campaign.detect_s);
  visit("campaign.repair_days", plan.campaign.repair_days);
  visit("campaign.health_check_hours", plan.campaign.health_check_hours);
  visit("campaign.planned_stops_per_week", plan.campaign.planned_stops_per_week);
  visit("campaign.planned_stop_hours", plan.campaign.planned_stop_hours);
  visit("campaign.start", plan.campaign.start);
  visit("campaign.deadline", plan.campaign.deadline);
  visit_inference(plan.inference, visit);
  visit("run.tokens", plan.run.tokens);
  visit("run.goodput", plan.run.goodput);
  visit("run.price_usd_per_gpu_hour", plan.run.price_usd_per_gpu_hour);
  visit("run.ownership", plan.run.ownership);
  visit("run.depreciation_years", plan.run.depreciation_years);
  visit("run.utilisation", plan.run.utilization);
  visit("run.pue", plan.run.pue);
  visit("run.electricity_usd_per_kwh", plan.run.electricity_usd_per_kwh);
}

// Reads a plan and applies overrides ("parallelism.pipeline=8": TOML values, a bare word is a string). Errors name
// file, line, key and the nearest known key. Types, ranges and required keys are checked here; make_layout
// (model/plan/layout.h) checks what divides what.
Result<Plan> load_plan(const std::string& path, const std::vector<std::string>& overrides);

// Reads a plan from text; errors name `path`.
Result<Plan> read_plan(std::string_view text, const std::string& path, const std::vector<std::string>& overrides);

// Returns an input error at the setting's place where it is not of a key and value that a stack may imply: software
// decides neither about model, cluster, batch and run nor about a search.
Result<void> check_setting(const PlanSetting& setting);

// Sets those keys that the plan does not give.
Result<void> apply_settings(const std::vector<PlanSetting>& settings, Plan& plan);

// Returns the effective plan as TOML with every default written out; load_plan reads it back to the same plan.
std::string to_toml(const Plan& plan);

// Returns the model's name and the plan's changes to it: "deepseek-v3", "deepseek-v3 (n_routed_experts 512)".
std::string model_name(const Plan& plan);

std::vector<std::string> plan_keys();      // every dotted key in file order, phases and any model's keys included
std::vector<std::string> plan_sections();  // "model", "cluster", ...
// Returns the table of a key: "inference.prefill" of "inference.prefill.gpus", "model" of any key of the model.
std::string_view plan_section(std::string_view key);
// Returns whether the plan does without the key's section: [inference] of one that only trains, [batch] of one that
// only serves. What is written leaves it out.
bool lacks_section(const Plan& plan, std::string_view key);

// Returns "did you mean 'parallelism.pipeline'?": the nearest key of the same section, else a key of that name in
// another section, else the nearest section, else the list of sections.
std::string plan_key_hint(std::string_view dotted);

}  // namespace plumbline::model
