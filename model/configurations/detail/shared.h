// What several formats share: models by name, number formats, ZeRO, batches.
//
// What readers of reinforcement learning share: the keys of [rollout] that follow from those of a program.
//
// What readers of configurations share: limits, and the collection of entries.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/architecture/adapter_targets.h"
#include "model/base/data_type.h"
#include "model/base/error.h"
#include "model/base/text.h"
#include "model/configurations/configuration.h"
#include "model/configurations/import.h"
#include "model/megatron/shell/shell.h"

namespace plumbline::model::configurations {

inline constexpr std::size_t kMostValues = 100'000;
inline constexpr int kDeepest = 64;

// Returns "callbacks[].name" of "callbacks[0].name": tables of keys do not count the elements of a list.
inline std::string without_indices(const std::string& written) {
  std::string key;
  bool inside = false;
  for (const char letter : written) {
    if (letter == ']') inside = false;
    if (!inside) key += letter;
    if (letter == '[') inside = true;
  }
  return key;
}

inline std::string with_renames(const std::string& written, const std::vector<Rename>& renames) {
  for (const auto& [prefix, replacement] : renames) {
    const bool begins = written.starts_with(prefix) && (prefix.ends_with('.') || prefix.ends_with('_'));
    if (begins || written == prefix) return std::string(replacement) + written.substr(prefix.size());
  }
  return written;
}

// Collects entries under their renamed keys and keeps the first error.
class Collector {
 public:
  Collector(const std::string& path, const std::vector<Rename>& renames) : renames_(renames) { out_.file = path; }

  bool failed() const { return error_.has_value(); }

  // Returns whether reading may go on at this depth.
  bool enter(int depth, int line) {
    if (depth > kDeepest) fail(line, "", fmt::format("nested more than {} levels deep", kDeepest));
    return !failed();
  }

  void fail(int line, const std::string& key, std::string message) {
    if (!error_) error_ = Error{ErrorKind::input, std::move(message), out_.file, line, key, ""};
  }

  // Adds a value. Of a merge key, values that the table has itself are left out.
  void add(Entry entry, bool merged) {
    if (failed()) return;
    if (!written_.insert(entry.written).second) {
      if (!merged) fail(entry.line, entry.written, "is given twice");
      return;
    }
    if (out_.entries.size() >= kMostValues)
      return fail(entry.line, "", fmt::format("more than {} values: aliases that expand each other?", kMostValues));
    entry.key = with_renames(without_indices(entry.written), renames_);
    out_.entries.push_back(std::move(entry));
  }

  Result<Configuration> result() && {
    if (error_) return tl::unexpected(*error_);
    return std::move(out_);
  }

 private:
  const std::vector<Rename>& renames_;
  Configuration out_;
  std::set<std::string, std::less<>> written_;
  std::optional<Error> error_;
};

inline std::string joined(const std::string& prefix, std::string_view key) {
  return prefix.empty() ? std::string(key) : fmt::format("{}.{}", prefix, key);
}

// Reads a script up to the command that starts a training, which its variables see: whose words up to `first` end with
// a launcher, or one of which has a launcher that ends in _ in it. A script without one is an error.
struct Launch {
  megatron::Command words;
  std::size_t first = 0;
  megatron::Definitions variables;
};
Result<Launch> read_launch(const Source& source, std::span<const std::string_view> launchers);
// Returns what the options from a word on state: --KEY VALUE, --KEY=VALUE, --KEY, --no-KEY. Several values are a list.
std::vector<Entry> options_of(const megatron::Command& words, std::size_t first, const std::vector<Rename>& renames);
// Gives entries whose value is a reference of OmegaConf the value that it means: "${model.x}", "${.x}" of the same
// section, and "${mul:a, b}" of whole numbers.
void resolve_references(std::vector<Entry>& entries);

// Reads a recipe of Megatron-Bridge as read_python does, with what Bridge's functions set that it gives its
// configuration.
Result<Configuration> read_bridge(const Source& source);
// Return NeMo's row of a key, and that of Megatron's argument of its name, where rules here read it.
const KeyRow* nemo_row(std::string_view key);
const KeyRow* megatron_row(std::string_view key);

// Sets all of a NeMo recipe but its model and its degrees.
void read_nemo_training(const RuleInput& in);

// A shipped model and its names elsewhere; those of NeMo and Primus are divided by blanks.
struct ShippedModel {
  std::string_view name;
  std::int64_t layers;
  std::string_view titan, flavor;  // torchtitan's; empty: it has none
  std::string_view classes, presets;
};
inline constexpr ShippedModel shipped_models[] = {
#include "model/configurations/detail/shipped_models.def"
};

// Returns the model of a flavor of torchtitan: "llama3" "8B". Nothing where it is unknown.
std::optional<NamedModel> torchtitan_model(std::string_view name, std::string_view flavor);
// Returns name and flavor of a shipped model.
std::optional<std::pair<std::string_view, std::string_view>> titan_flavor(std::string_view shipped);
// Returns the name of a schedule in torchtitan; "" where it has none.
std::string_view titan_schedule(std::string_view kind);
// Returns the longest context of a flavor, which is that of its configurations unless they state another one.
std::optional<std::int64_t> torchtitan_context(std::string_view name, std::string_view flavor);
// Returns "llama3 8B, 70B, 405B; qwen3 ...".
std::string torchtitan_flavors();

// Returns the shipped model of a name on Hugging Face or ModelScope that a key has, or that of a folder; no name where
// there is none. What a name has behind that of a shipped model is that of a further training, which is noted.
std::optional<NamedModel> named_model(const RuleInput& in, std::string_view key);
// Sets it.
void read_named_model(const RuleInput& in, std::string_view key);
// Sets the model whose config.json has the values of a section ("model.config."), and the model type.
void use_section(const RuleInput& in, std::string_view section, std::string_view model_type);

// Sets the schedule that a key names as PyTorch does, in any case, "1F1B" without one. Returns the stages of a rank
// where no other key decides; nothing where it is refused. `compiled`: the key that compiles the layers; empty: none
// does.
std::optional<std::int64_t> read_torch_schedule(Draft& draft, std::string_view key, std::string_view compiled);
// Sets what runs again where the results of attention and of every second GEMM are kept, as `words` of a key ask for.
void keep_second_gemms(const RuleInput& in, std::string_view key, std::string_view words);

// Returns the plan's name of a number format of PyTorch or DeepSpeed; other words as they are.
std::string number_format(const std::string& word);

// Returns the format of GEMMs that such a name has: FP32, FP16, or BF16 for all others.
Precision plain_precision(const std::string& format);

// Sets the formats of GEMMs and of dispatch and combine; quantized GEMMs leave those in bf16.
void set_precision(Draft& draft, Precision gemm, std::string_view origin);

// Returns accelerate's row of a key, and reads its section for FSDP.
const KeyRow* accelerate_row(std::string_view key);
void read_fsdp(Draft& draft, Precision gemm);
// Refuses shards of data-parallel ranks without FSDP; returns whether there are none.
bool refuse_shards(Draft& draft);
// Returns DeepSpeed's row of a key of its own file.
const KeyRow* deepspeed_row(std::string_view key);

// Refuses a training of few weights that is not read, unless the user states the plan's; returns whether it does.
bool refuse_adapter(Draft& draft, std::string_view key, std::string_view method);

// Sets that FSDP reduces gradients once for all micro-batches, unless a key, true by default, is off.
void read_deferred_reduction(Draft& draft, std::string_view key);

// Returns whether a module of the list has one of the parts in its name.
bool names_module(const std::vector<std::string>& modules, std::initializer_list<std::string_view> parts);
// Sets the layers of the modules that a key names and returns them; an error where there are none.
AdapterTargets read_adapter_layers(const RuleInput& in, std::string_view key);
// Sets adapters of a rank (default 8) next to the modules that a key names; next to all linear layers where it is
// missing or is that word.
struct AdapterKeys {
  std::string_view method, rank, targets;
};
void read_adapters(const RuleInput& in, const AdapterKeys& keys);

// Sets the ranks over which Ulysses spreads a sequence, which send each other heads.
void read_ulysses(const RuleInput& in, std::string_view key);

// Sets the even division of layers over stages of programs that make no other.
void spread_evenly(Draft& draft);

// Returns the layers of each stage where embedding and head count as layers of the first and the last one; the first
// stages have one more where they do not divide.
std::vector<std::int64_t> split_with_ends(std::int64_t layers, std::int64_t stages, std::int64_t first,
                                          std::int64_t last);

// What begins a comment that states a key of the plan: "# plumbline: KEY = VALUE".
inline constexpr std::string_view kPlumblineComment = "# plumbline: ";

// Returns the entries of the JSON or YAML file that a key names, at that key's line, where the file lies by its path
// from the folder of the configuration or from one around it; the key then has its whole path. Nothing where it does
// not, an error where it is not read.
Result<std::optional<std::vector<Entry>>> entries_of_named_file(const std::string& path, std::string_view key,
                                                                Configuration& read);
// Adds those of DeepSpeed's file under "deepspeed."; returns whether there is one.
Result<bool> add_deepspeed_file(const std::string& path, std::string_view key, Configuration& read);

// The keys of ZeRO that DeepSpeed and accelerate's own section for it have under other names.
struct ZeroKeys {
  std::string_view stage, optimizer_device, parameter_device, clipping, overlap, bucket, gradients, wire;
};
inline constexpr ZeroKeys kDeepspeedSection{"deepspeed.zero_optimization.stage",
                                            "deepspeed.zero_optimization.offload_optimizer.device",
                                            "deepspeed.zero_optimization.offload_param.device",
                                            "deepspeed.gradient_clipping",
                                            "deepspeed.zero_optimization.overlap_comm",
                                            "deepspeed.zero_optimization.reduce_bucket_size",
                                            "deepspeed.data_types.grad_accum_dtype",
                                            "deepspeed.communication_data_type"};
bool has_deepspeed_section(const Draft& draft);
// Sets what the section has of degrees.
void read_deepspeed_section_degrees(const RuleInput& in);
// Returns the stage, which is `missing` where nothing states it.
std::int64_t read_zero(Draft& draft, const ZeroKeys& keys, std::int64_t missing);
// Sets what DeepSpeed reduces, in which format and buckets, and what overlaps, after the stage is set. A bucket that is
// "auto" has the square of the model's hidden size as parameters (HfTrainerDeepSpeedConfig of huggingface/transformers
// src/transformers/integrations/deepspeed.py, trainer_config_finalize).
void read_zero_buffers(const RuleInput& in, const ZeroKeys& keys, Precision gemm);

// Sets micro-batch and global batch from two or three of batch, micro-batch and accumulation by the data-parallel
// degree; a contradiction is an error.
struct BatchKeys {
  std::string_view global, micro, accumulation;
};
void read_batch(Draft& draft, const BatchKeys& keys);
// Sets the tokens of a run from its steps, after batch and sequence length.
void read_steps(Draft& draft, std::string_view key);

// A key of the plan that has a program's own default, as TOML, where neither file nor user states it.
struct SilentKey {
  std::string_view plan_key, key, value;
};
void set_silent(Draft& draft, std::span<const SilentKey> silent);

// Sets what verl, OpenRLHF and NeMo-RL state of the policy, and their defaults.
struct PolicyKeys {
  std::string_view path, nodes, gpus, clipping;
};
void read_policy(const RuleInput& in, const PolicyKeys& keys, std::span<const SilentKey> silent);
// Sets whether all of a layer is recomputed, as a flag has it that is `silent` without one.
void read_checkpointing(Draft& draft, std::string_view key, bool silent = false);

// Sets the engine that a key names, vLLM without one.
void read_engine(Draft& draft, std::string_view key);

// Sets the algorithm, and returns whether it leaves out prompts whose answers are alike.
bool read_algorithm(Draft& draft, std::string_view filter, bool critic, std::string_view estimator);

// Sets the updates of a step of so many prompts, or answers, as a key states an update in.
void read_updates(Draft& draft, std::int64_t all, std::string_view key, std::int64_t silent);
// Returns the answers of a step.
std::int64_t answers_of(const Draft& draft);

// Sets a micro-batch that is packed to so many tokens, else of so many samples of the longest; lengths in the mean are
// in no file.
void read_micro_batch(Draft& draft, std::int64_t longest, std::optional<std::int64_t> packed,
                      std::optional<std::int64_t> samples, std::string_view key);

// Reads GRPO of the trainers that build on TRL, after model, GPUs and degrees.
void read_trl_grpo(const RuleInput& in);

}  // namespace plumbline::model::configurations
