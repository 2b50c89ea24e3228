
#include <algorithm>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "model/configurations/detail/shared.h"
#include "model/plan/alternative.h"
#include "model/plan/stage_split.h"

namespace plumbline::model::configurations {
namespace {

// Returns the keys that the written file does not give back, as KEY = VALUE.
Result<std::vector<std::string>> lost_keys(const ConfigurationFormat& format, const std::string& text,
                                           const ExportInput& input, std::vector<std::string> overrides) {
  overrides.push_back(fmt::format("cluster.gpus={}", input.plan.cluster.gpus));
  const auto model = [&input](const std::string&) -> Result<Architecture> { return input.architecture; };
  const auto back = TRY(import_configuration(format, text, "written", {overrides, "", "model.json", model}));
  const auto before = plan_values(input.plan), after = plan_values(back.plan);
  std::vector<std::string> lost;
  for (const auto& [key, value] : before) {
    const auto found = after.find(key);
    if (key != "model.config" && (found == after.end() || found->second != value))
      lost.push_back(fmt::format("{} = {}", key, value));
  }
  return lost;
}

std::int64_t data_ranks(const Plan& plan) {
  const auto& degrees = plan.parallelism;
  return std::max<std::int64_t>(1, plan.cluster.gpus / (degrees.tensor * degrees.context * degrees.pipeline));
}

// Writes sections of torchtitan's configuration: as train.toml, or as arguments of Trainer.Config in Python.
class TitanWriter {
 public:
  explicit TitanWriter(bool python) : python_(python) {}
  bool python() const { return python_; }

  void section(std::string_view name, std::string_view type) {
    close();
    text_ += python_ ? fmt::format("        {}={}(\n", name, type) : fmt::format("\n[{}]\n", name);
    open_ = true;
  }
  template <class T>
  void put(std::string_view key, const T& value) {
    std::string text = toml_of(value);
    if (python_ && std::is_same_v<T, bool>) text.front() = static_cast<char>(text.front() - 'a' + 'A');
    text_ += python_ ? fmt::format("            {}={},\n", key, text) : fmt::format("{} = {}\n", key, text);
  }
  // Returns what was written.
  const std::string& text() {
    close();
    return text_;
  }

 private:
  void close() {
    if (std::exchange(open_, false) && python_) text_ += "        ),\n";
  }

  bool python_, open_ = false;
  std::string text_;
};

constexpr std::string_view kTitanData = "c4_test";  // of torchtitan's repository: it starts without a download

void write_titan_training(const Plan& plan, TitanWriter& out) {
  const bool pipeline = plan.parallelism.pipeline > 1;
  const std::int64_t local = pipeline ? plan.batch.global_batch_size / data_ranks(plan) : plan.batch.micro_batch_size;
  out.section("training", "TrainingConfig");
  out.put("local_batch_size", std::max<std::int64_t>(1, local));
  out.put("global_batch_size", plan.batch.global_batch_size);
  out.put("seq_len", plan.batch.sequence_length);
  out.put("max_norm", 1.0);  // 0 would not switch it off
  const double step =
      static_cast<double>(plan.batch.global_batch_size) * static_cast<double>(plan.batch.sequence_length);
  if (plan.run.tokens) out.put("steps", static_cast<std::int64_t>(*plan.run.tokens / step));
  out.put("enable_cpu_offload", plan.offload.optimizer);
  out.put("mixed_precision_param", plan.precision.gemm == Precision::fp32 ? "float32" : "bfloat16");
  out.put("mixed_precision_reduce", "float32");  // the only one that torchtitan takes
  if (!out.python()) out.put("dataset", kTitanData);
}

// Returns the names of the modules of each stage, as torchtitan's models have them.
std::vector<std::vector<std::string>> modules_of(const std::vector<std::int64_t>& counts) {
  std::vector<std::vector<std::string>> stages(counts.size());
  std::int64_t layer = 0;
  stages.front().emplace_back("tok_embeddings");
  for (std::size_t stage = 0; stage < counts.size(); ++stage)
    for (std::int64_t i = 0; i < counts[stage]; ++i) stages[stage].push_back(fmt::format("layers.{}", layer++));
  stages.back().insert(stages.back().end(), {"norm", "output"});
  return stages;
}

// Returns the plan with the numbers of its layers by stage, which torchtitan lists where they are not by its own rule.
Plan with_counted_layers(Plan plan, std::int64_t layers) {
  StageLayers& split = plan.schedule.layers_per_stage;
  const bool two = plan.schedule.kind == "zb-v" || plan.schedule.kind == "dualpipev";
  const std::int64_t stages = plan.parallelism.pipeline * (two ? 2 : plan.schedule.virtual_stages);
  if (plan.parallelism.pipeline == 1)
    split = {};
  else if (split.counts.empty() && stages <= layers + 2)
    split = {even_layer_counts(layers, stages)};
  return plan;
}

void write_titan_parallelism(const Plan& plan, std::int64_t layers, TitanWriter& out) {
  const auto& degrees = plan.parallelism;
  const std::int64_t data = data_ranks(plan);
  const std::int64_t group =
      degrees.shard_group > 0 ? std::max<std::int64_t>(1, degrees.shard_group / degrees.context) : data;
  const std::int64_t shards = degrees.zero_stage == 0 ? 1 : std::min(group, data);
  out.section("parallelism", "ParallelismConfig");
  out.put("data_parallel_replicate_degree", data / shards);
  out.put("data_parallel_shard_degree", shards);
  // What shards optimizer states or gradients alone keeps the parameters of a step gathered.
  out.put("fsdp_reshard_after_forward", degrees.zero_stage == 3 && degrees.reshard_after_forward ? "always" : "never");
  out.put("tensor_parallel_degree", degrees.tensor);
  out.put("enable_async_tensor_parallel", plan.overlap.tensor);
  out.put("context_parallel_degree", degrees.context);
  if (degrees.context > 1)
    out.put("context_parallel_rotate_method", degrees.context_method == "ring" ? "alltoall" : "allgather");
  out.put("expert_parallel_degree", degrees.expert);
  out.put("expert_tensor_parallel_degree", degrees.expert_tensor);
  if (degrees.expert > 1)
    out.put("expert_parallel_comm_backend", plan.stack.dispatcher == "alltoall" ? "standard" : plan.stack.dispatcher);
  out.put("pipeline_parallel_degree", degrees.pipeline);
  if (degrees.pipeline == 1) return;
  const std::string_view schedule = titan_schedule(plan.schedule.kind);
  out.put("pipeline_parallel_schedule", schedule);
  const auto& counts = plan.schedule.layers_per_stage.counts;
  const auto stages = static_cast<std::int64_t>(counts.size());
  if (stages > 0 && stages <= layers + 2 && counts != split_with_ends(layers, stages, 1, 1)) {
    out.put("module_fqns_per_model_part", modules_of(counts));
  } else if (stages > 0 && schedule == "Interleaved1F1B") {  // embedding and head count as layers
    out.put("pipeline_parallel_layers_per_stage", (layers + 2 + stages - 1) / stages);
  }
  out.put("pipeline_parallel_microbatch_size", plan.batch.micro_batch_size);
}

void write_titan_rest(const Plan& plan, TitanWriter& out) {
  out.section("activation_checkpoint", "ActivationCheckpointConfig");
  out.put("mode", plan.recompute.policy);
  if (plan.recompute.policy == "selective") out.put("selective_ac_option", "op");
  const bool compiles = plan.stack.name != "pytorch-fsdp-eager";
  if (out.python() && !compiles) out.put("early_stop", plan.recompute.early_stop);
  out.section("compile", "CompileConfig");
  out.put("enable", compiles);
  if (out.python()) return;
  out.section("optimizer", "");
  out.put("name", "AdamW");
  out.put("implementation", "fused");
}

using TitanFlavor = std::pair<std::string_view, std::string_view>;  // name and flavor
constexpr std::string_view kTitanFunction = "from_plan";

void write_titan_model(const TitanFlavor& flavor, Precision gemm, TitanWriter& out) {
  out.section("model", "");
  out.put("name", flavor.first);
  out.put("flavor", flavor.second);
  if (is_quantized(gemm))
    out.put("converters",
            std::vector<std::string>{gemm == Precision::mxfp8 ? "quantize.linear.mx" : "quantize.linear.float8"});
}

// Returns the function of a registry that returns these sections.
std::string titan_function(const TitanFlavor& flavor, Precision gemm, std::string_view sections) {
  const bool mx = gemm == Precision::mxfp8;
  const std::string_view converter = mx ? "MXLinearConverter" : "Float8LinearConverter";
  std::string imports, converters;
  if (is_quantized(gemm)) {
    imports = fmt::format(
        "from torchtitan.components.quantization.{} import {}\n"
        "from torchtitan.protocols.model_converter import ModelConvertersContainer\n",
        mx ? "mx" : "float8", converter);
    converters =
        fmt::format("        model_converters=ModelConvertersContainer.Config(converters=[{}.Config()]),\n", converter);
  }
  return fmt::format(
      R"(from torchtitan.components.optimizer import OptimizersContainer
{}from torchtitan.config import (
    ActivationCheckpointConfig,
    CompileConfig,
    ParallelismConfig,
    TrainingConfig,
)
from torchtitan.hf_datasets.text_datasets import HuggingFaceTextDataLoader
from torchtitan.models.{} import model_registry
from torchtitan.trainer import Trainer


def {}() -> Trainer.Config:
    return Trainer.Config(
        hf_assets_path="./tests/assets/tokenizer",
        dataloader=HuggingFaceTextDataLoader.Config(dataset="{}"),
        model_spec=model_registry("{}"),
{}        optimizer=OptimizersContainer.Config(),
{}    )
)",
      imports, flavor.first, kTitanFunction, kTitanData, flavor.second, converters, sections);
}

struct Nodes {
  std::int64_t count, gpus;  // gpus: of each
};
Nodes nodes_of(const ExportInput& input) {
  const std::int64_t gpus = std::max<std::int64_t>(1, std::min(input.gpus_per_node, input.plan.cluster.gpus));
  return {(input.plan.cluster.gpus + gpus - 1) / gpus, gpus};
}

// Returns the start of a command that runs on every node, with the first one's name as MASTER_ADDR.
std::string torchrun(const ExportInput& input) {
  const Nodes nodes = nodes_of(input);
  return fmt::format(
      "torchrun --nnodes={} --nproc_per_node={} --rdzv_backend=c10d --rdzv_id=0 "
      "--rdzv_endpoint=\"$MASTER_ADDR:29500\"",
      nodes.count, nodes.gpus);
}

const char* float_of(Precision precision) {
  return precision == Precision::fp16 ? "fp16" : precision == Precision::fp32 ? "fp32" : "bf16";
}

nlohmann::ordered_json zero_of(const Plan& plan) {
  nlohmann::ordered_json zero;
  const bool third = plan.parallelism.zero_stage == 3;
  zero["stage"] = plan.parallelism.zero_stage;
  zero["overlap_comm"] = plan.overlap.gradient_reduce;
  const double bytes = plan.precision.gradients == Precision::fp32 ? 4 : 2;
  zero["reduce_bucket_size"] = static_cast<std::int64_t>(plan.overlap.gradient_bucket_bytes / bytes);
  if (plan.offload.optimizer) zero["offload_optimizer"] = {{"device", "cpu"}, {"pin_memory", true}};
  if (third && plan.parallelism.shard_group > 0) zero["mics_shard_size"] = plan.parallelism.shard_group;
  return zero;
}

}  // namespace

Result<ExportedConfiguration> export_torchtitan(const ExportInput& input) {
  const auto flavor = titan_flavor(model_name(input.plan));
  if (!flavor)
    return infeasible("model.config", fmt::format("torchtitan has no flavor of {}", model_name(input.plan)),
                      fmt::format("its flavors: {}", torchtitan_flavors()));
  if (input.plan.parallelism.pipeline > 1 && titan_schedule(input.plan.schedule.kind).empty())
    return infeasible("schedule.kind", fmt::format("torchtitan has no schedule {}", input.plan.schedule.kind),
                      "docs/configurations.md lists those that it has");
  const Plan plan = with_counted_layers(input.plan, input.architecture.layers);
  TitanWriter out(plan.stack.name != "torchtitan-compile");
  if (!out.python()) write_titan_model(*flavor, plan.precision.gemm, out);
  write_titan_training(plan, out);
  write_titan_parallelism(plan, input.architecture.layers, out);
  write_titan_rest(plan, out);
  const std::string text = out.python() ? titan_function(*flavor, plan.precision.gemm, out.text()) : out.text();
  ExportedConfiguration exported;
  exported.notes = TRY(lost_keys(torchtitan(), text, input, {}));
  exported.text = out.python() ? fmt::format(
                                     "# For torchtitan since February 2026, as of config/configs.py @1a618d1d.\n"
                                     "# Append it to torchtitan/models/{}/config_registry.py. ",
                                     flavor->first)
                               : "# For torchtitan up to 0.2.2 (February 2026): later releases take a Python function "
                                 "in place of this file.\n# ";
  exported.text +=
      fmt::format("Start it on every node, with the first one's name as MASTER_ADDR:\n# {} -m torchtitan.train {}\n",
                  torchrun(input),
                  out.python() ? fmt::format("--module {} --config {}", flavor->first, kTitanFunction)
                               : "--job.config_file train.toml");
  for (const std::string& lost : exported.notes) exported.text += fmt::format("{}{}\n", kPlumblineComment, lost);
  exported.text += text;
  for (std::string& lost : exported.notes) lost += ": torchtitan has no key for it";
  if (flavor->second == "671B")
    exported.notes.emplace_back("the flavor has no prediction modules: num_nextn_predict_layers = 0");
  return exported;
}

Result<ExportedConfiguration> export_deepspeed(const ExportInput& input) {
  const Plan& plan = input.plan;
  const std::int64_t data = data_ranks(plan);
  nlohmann::ordered_json json;
  json["train_batch_size"] = plan.batch.global_batch_size;
  json["train_micro_batch_size_per_gpu"] = plan.batch.micro_batch_size;
  json["gradient_accumulation_steps"] =
      std::max<std::int64_t>(1, plan.batch.global_batch_size / (plan.batch.micro_batch_size * data));
  json["gradient_clipping"] = plan.optimizer.gradient_clipping ? 1.0 : 0.0;
  if (plan.precision.gemm == Precision::fp16) json["fp16"]["enabled"] = true;
  if (plan.precision.gemm != Precision::fp16 && plan.precision.gemm != Precision::fp32) json["bf16"]["enabled"] = true;
  json["data_types"]["grad_accum_dtype"] = float_of(plan.precision.gradients);
  if (plan.precision.gradient_reduce) json["communication_data_type"] = float_of(*plan.precision.gradient_reduce);
  if (plan.parallelism.tensor > 1) json["tensor_parallel"]["autotp_size"] = plan.parallelism.tensor;
  if (plan.parallelism.pipeline > 1) json["pipeline"]["stages"] = plan.parallelism.pipeline;
  if (plan.parallelism.context > 1) json["sequence_parallel_size"] = plan.parallelism.context;
  json["zero_optimization"] = zero_of(plan);
  ExportedConfiguration exported;
  exported.text = json.dump(2) + "\n";
  exported.notes =
      TRY(lost_keys(deepspeed(), exported.text, input,
                    {"model.config=model.json", fmt::format("batch.sequence_length={}", plan.batch.sequence_length)}));
  exported.notes.push_back(fmt::format("batch.sequence_length = {}", plan.batch.sequence_length));
  for (std::string& lost : exported.notes) lost += ": is in the training script, or DeepSpeed has no key for it";
  const Nodes nodes = nodes_of(input);
  const std::string_view program = "train.py --deepspeed_config ds_config.json";
  exported.launch = {fmt::format("start it: deepspeed --hostfile hosts --num_nodes {} --num_gpus {} {}", nodes.count,
                                 nodes.gpus, program),
                     fmt::format("or on every node: {} {}", torchrun(input), program)};
  return exported;
}

}  // namespace plumbline::model::configurations
