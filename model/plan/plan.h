// The training plan: plain data, strict on input. The keys are a contract with other tools.
#pragma once

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
#include "model/plan/parallelism.h"

namespace plumbline::model {

struct RoutingFiles;
class ScheduleKind;

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

// The layers of each stage: their numbers, or else a rule. Stages are balanced by the seconds of their layers, which
// sim::with_balanced_stages() (sim/predict/stage_balance.h) turns into numbers, since they take a cluster and its
// profile. model::make_layout() spreads the layers evenly where there are no numbers.
struct StageLayers {
  std::vector<std::int64_t> counts;
  bool even = false;          // the rule is even_layer_counts()
  bool found = false;         // the counts are those of the balanced rule, not the plan's own
  std::int64_t replaced = 0;  // with `found`: the stages of the plan's own numbers, which do not fit its schedule

  bool operator==(const StageLayers&) const = default;
};

// Probabilities that speculated tokens are accepted after accepted ones, by their position; the last one holds for all
// positions after it. Never empty.
struct AcceptanceShares {
  std::vector<double> shares;

  bool operator==(const AcceptanceShares&) const = default;
};

// The share of a tier's bandwidth that others take, by its name: nic, leaf, spine. Tiers that are not given have 0.
using TierShares = std::map<std::string, double>;

// The values of a key that a software stack has (model/plan/software.h).
struct SoftwareValues {
  std::string stack;                // its name
  std::vector<std::string> values;  // as words
};

// What each key means, its unit and since when it is there: model/plan/plan_keys.def. visit_fields
// (model/plan/plan_fields.h) calls a function for each.
struct Plan {
  // They are long for so many sections: compiled once, in plan.cc, not in every unit that copies a plan.
  Plan();
  Plan(const Plan&);
  Plan(Plan&&) noexcept;
  Plan& operator=(const Plan&);
  Plan& operator=(Plan&&) noexcept;
  ~Plan();

  struct {
    std::string config;
    ConfigOverrides overrides;  // other keys of [model]: keys of the config.json, whose values they replace
  } model;
  struct {
    std::string topology;
    std::int64_t gpus = 0;
    std::optional<std::string> profile;
    std::optional<std::string> device;
    std::optional<double> power_limit_w;  // See model/cost/power_model.h.
    std::optional<std::int64_t> nics_per_node;
    std::optional<double> nic_gbps;
    std::optional<double> oversubscription;
    std::optional<TierShares> background;
    std::optional<std::string> background_plan;
    std::optional<std::string> placement;     // See topologies/fabric.h.
    std::optional<std::int64_t> domain_gpus;  // See topologies/fabric.h.
    std::optional<double> host_speed;         // See model/cost/host_cost.h.
    std::optional<std::string> fleet;
    // See sim/cluster/fleet_priors.h.
    std::optional<double> speed_deviation, jitter;
  } cluster;
  Parallelism parallelism;
  struct {
    std::int64_t sequence_length = 0;
    std::int64_t micro_batch_size = 0;
    std::int64_t global_batch_size = 0;
    // See model/routing/documents.h.
    std::optional<double> document_length;
    std::optional<std::string> document_lengths;
  } batch;
  struct {
    std::string kind = "1f1b";
    StageLayers layers_per_stage;
    std::int64_t virtual_stages = 1;
  } schedule;
  struct {
    Precision gemm = Precision::bf16;
    Precision dispatch = Precision::bf16;
    Precision combine = Precision::bf16;
    Precision gradients = Precision::fp32;
    Precision master_weights = Precision::fp32;
    Precision optimizer_moments = Precision::fp32;
    std::optional<Precision> gradient_reduce;
    std::string scaling = "current";
    std::string weight_cast = "micro_batch";
    std::optional<Precision> experts;
    std::string parameters = "bf16";
    std::string attention = "bf16";  // See model/layers/core_attention.h.
    std::string head = "bf16";       // or mxfp8, with GEMMs in it
    std::string layouts = "both";    // See model/layers/linear.h.
  } precision;
  struct {  // See model/layers/context.h, Adapters.
    std::string method = "full";
    std::int64_t rank = 16;
    std::vector<std::string> targets;
    std::string objective = "next-token";
    std::string reference = "model";  // of dpo
  } training;
  struct {
    std::string kind = "adamw";  // See model/program/data_parallel.h.
    bool gradient_clipping = true;
    std::string ema = "none";
    std::string gradient_copy = "none";
  } optimizer;
  struct {
    bool optimizer = false;
    double activations = 0;  // See model/graph/offload.h.
  } offload;
  struct {
    std::string kernel = "fused";  // See model/graph/attributes.h.
  } attention;
  struct {
    std::string kernel = "fused";  // See model/layers/blocks.cc.
    std::int64_t chunks = 1;
  } loss;
  struct {
    std::string policy = "none";
    std::vector<std::string> operators;
    std::optional<std::int64_t> layers;
    bool early_stop = false;
  } recompute;
  struct {
    std::int64_t communication_sms = 0;
    std::string sm_policy = "static";  // See model/cost/sm_partition.h.
    std::string communication_kernels = "deepep-v1";
    bool tensor = false;
    bool gradient_reduce = true;
    bool parameter_gather = true;
    double gradient_bucket_bytes = 40e6;
    std::int64_t prefetch = 1;
    std::optional<std::int64_t> collective_sms;
    bool tensor_gradients = true;
  } overlap;
  struct {
    std::optional<std::int64_t> max_nodes_per_token;
    double imbalance = 0;
    std::vector<std::int64_t> rows_per_rank;
    std::optional<double> capacity_factor;
    std::optional<bool> pad_to_capacity;
    // See model/routing/rank_rows.h.
    std::optional<std::string> load_file;
    std::optional<double> skew;
    std::optional<double> correlation;
    std::optional<std::string> balancing;
    std::optional<double> bias_rate;
    std::optional<std::int64_t> redundant_experts;
  } routing;
  struct {
    std::optional<std::string> name;
    std::string dispatcher = "deepep";
    std::optional<bool> dispatch_overlap;
    std::vector<std::string> fused;   // See model/cost/kernel_cost.h.
    std::vector<std::string> graphs;  // See model/cost/host_cost.h.
  } stack;
  struct {
    double bytes_per_token = 4;
    std::optional<double> loader_gbps;
    bool prefetch = true;
  } input;
  struct {  // See sim/search/search.h.
    std::vector<std::int64_t> tensor;
    std::vector<bool> sequence;
    std::vector<std::int64_t> context, pipeline, expert, expert_tensor, zero_stage, micro_batch_size;
    std::vector<std::string> schedule;
    std::vector<std::int64_t> virtual_stages;
    std::vector<std::string> recompute;  // See sim/search/choices.h.
    std::vector<std::int64_t> communication_sms;
    std::vector<std::string> split;  // See sim/search/choices.h.
    double min_fit = 0.95;
    std::vector<std::string> remedies;  // See search_with_remedies().
  } search;
  struct {
    std::optional<std::string> reliability;
    std::string checkpoint = "synchronous";
    double checkpoint_interval_s = 0;
    std::string checkpoint_storage = "parallel";
    std::optional<double> storage_gbps;
    std::optional<std::int64_t> spare_nodes;
    bool elastic = false;
    std::optional<double> restart_s;
    std::optional<double> detect_s;
    std::optional<double> repair_days;
    double health_check_hours = 0;
    double planned_stops_per_week = 0, planned_stop_hours = 0;
    std::optional<std::string> start, deadline;
    std::vector<CampaignPhaseKeys> phases;
  } campaign;
  struct Inference {
    bool given = false;  // the plan has this section, and needs no [batch]
    std::string engine = "generic";
    std::int64_t input_tokens = 1024, output_tokens = 1024;
    std::optional<std::string> lengths;
    std::int64_t concurrency = 64;
    double prefix_hit_rate = 0;
    std::string kv_cache = "bf16";  // See model/layers/key_value_cache.h.
    Precision weights = Precision::fp8;
    std::int64_t attention_data = 1;
    std::int64_t redundant_experts = 0;
    std::optional<double> expert_imbalance, expert_skew;
    bool two_micro_batches = false;
    std::int64_t chunked_prefill_tokens = 8192;
    std::int64_t speculative_tokens = 0;
    std::optional<AcceptanceShares> acceptance;  // See draft_of(), model/plan/instance.h.
    std::string dispatch = "auto";               // See dispatch_of(), model/plan/instance.h.
    double memory_share = 0.9;
    bool disaggregated = false;
    PoolKeys prefill, decode;
    std::optional<double> max_ttft_s, max_tpot_s;
    std::optional<double> demand_output_tokens_per_day;
    std::string arrivals = "steady";
    std::optional<std::int64_t> requests;
    std::string draft = "auto";  // See draft_of(), model/plan/instance.h.
    std::optional<bool> mixed_chunks;
    std::int64_t stream_interval = 1;

    bool operator==(const Inference&) const = default;
  } inference;
  struct Rollout {  // See model/plan/rollout.h.
    bool given = false;
    std::string algorithm = "grpo";
    std::int64_t prompts = 0, answers = 0, prompt_tokens = 0, answer_tokens = 0;
    double answer_tokens_sd = 0;
    std::int64_t max_answer_tokens = 0;
    std::string placement = "colocated";
    std::optional<std::int64_t> gpus, staleness, tensor, pipeline, expert;
    std::optional<bool> offload;
    std::int64_t updates = 1, epochs = 1;
    std::optional<double> oversampling;
    std::optional<bool> reference, critic;
    bool old_log_probs = true;
    std::string reward_model = "rule";
    double reward_s = 0;
    std::optional<std::int64_t> steps;
  } rollout;
  struct {
    std::optional<double> tokens;
    std::optional<ConfigValue> goodput;
    std::optional<double> price_usd_per_gpu_hour;
    std::string ownership = "rent";  // See model/economics/ownership.h.
    std::optional<double> depreciation_years;
    std::optional<double> utilization;
    std::optional<double> pue;
    std::optional<double> electricity_usd_per_kwh;
    std::vector<RunPhase> phases;
  } run;

  std::string file;  // the path it was read from; empty for a plan built in code
  // What the files hold that routing and batch name, read with the plan; nullptr: they name none.
  std::shared_ptr<const RoutingFiles> files;
  std::shared_ptr<const ScheduleKind> schedule_file;  // likewise, of schedule.kind; see schedule_kind()
  struct Place {
    std::string file;  // "--set" for an override
    int line = 0;
    std::string implied_by = "";  // what gives the key, for people; empty: the plan does
    std::string given = "";       // the word that the plan gives and implied_by replaces; empty: it gives none
  };
  std::map<std::string, Place, std::less<>> places;  // where each given key was set
  std::map<std::string, SoftwareValues> software;    // by key; a key that is not there may have any value
};

// Makes an error about a key of the plan, located where the key was given (else at the plan's file).
Error plan_error(const Plan& plan, ErrorKind kind, std::string key, std::string message, std::string hint);

// Reads a plan and applies overrides ("parallelism.pipeline=8": TOML values, a bare word is a string). Errors name
// file, line, key and the nearest known key. Types, ranges and required keys are checked here; make_layout
// (model/plan/layout.h) checks what divides what.
Result<Plan> load_plan(const std::string& path, const std::vector<std::string>& overrides);

// Reads a plan from text; errors name `path`.
Result<Plan> read_plan(std::string_view text, const std::string& path, const std::vector<std::string>& overrides);

// Returns the effective plan as TOML with every default written out; load_plan reads it back to the same plan.
std::string to_toml(const Plan& plan);
// Returns the same with only the keys that a deployment depends on.
std::string deployment_toml(const Plan& plan);

// Returns the model's name and the plan's changes to it: "deepseek-v3", "deepseek-v3 (n_routed_experts 512)".
std::string model_name(const Plan& plan);

const std::vector<std::string>& plan_keys();  // every dotted key in file order, phases and any model's keys included
std::vector<std::string> plan_sections();     // "model", "cluster", ...
// Returns the table of a key: "inference.prefill" of "inference.prefill.gpus", "model" of any key of the model.
std::string_view plan_section(std::string_view key);
// Returns whether the plan serves a model and does not train it: it has [inference] and no [batch].
bool is_deployment(const Plan& plan);
// Returns whether the plan does without the key's section: [inference] of one that only trains, [batch] of one that
// only serves, [rollout] of one that generates nothing to train on. What is written leaves it out.
bool lacks_section(const Plan& plan, std::string_view key);

// Returns "did you mean 'parallelism.pipeline'?": the nearest key of the same section, else a key of that name in
// another section, else the nearest section, else the list of sections.
std::string plan_key_hint(std::string_view dotted);

}  // namespace plumbline::model
