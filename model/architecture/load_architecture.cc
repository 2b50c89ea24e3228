#include "model/architecture/load_architecture.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <vector>

#include "model/architecture/config_reader.h"
#include "model/architecture/families/families.h"
#include "model/base/text.h"
#include "model/plan/plan.h"

namespace plumbline::model {
namespace {

// Returns the type that is meant. Another number is another version, of which the layers may be others.
std::string meant_type(const std::string& found, const std::vector<std::string>& names) {
  const auto digits = [](std::string text) {
    std::erase_if(text, [](char c) { return !is_digit(c); });
    return text;
  };
  constexpr std::size_t short_name = 3;  // one letter more or less is another name
  const std::string nearest = nearest_name(found, names);
  return nearest.size() > short_name && digits(nearest) == digits(found) ? nearest : "";
}

// Types that are asked for, and what they have that no operator here computes: huggingface/transformers @008e574
// src/transformers/models/gemma3n/configuration_gemma3n.py, @8adb893 zamba, @0d828d2 inkling, @075f05c zaya, @020a37d
// ernie4_5_vl_moe, @4e65412 rwkv7, @00a8e12 glm_image, @5ebccdb gemma4_assistant and @2527adf muse_glimmer_assistant,
// configuration_*.py, @0572057 axk2 and @051fb71 hrm_text, modular_*.py, @05cd1ec jetmoe, @052b1dc recurrent_gemma,
// @053f59e rwkv, @124ddc4 xlstm, @040e1a7 diffllama, @008e574 doge and @996a401 mllama, configuration_*.py and
// modeling_*.py; vllm-project/vllm vllm/model_executor/models/arctic.py and plamo2.py; nvidia/Hymba-1.5B-Base
// modeling_hymba.py; microsoft/Phi-4-mini-flash-reasoning modeling_phi4flash.py; zai-org/GLM-5.3-Flash config.json;
// IQuestLab/IQuest-Coder-V1-40B-Loop-Instruct configuration_iquestloopcoder.py; ByteDance/Ouro-2.6B
// configuration_ouro.py; nvidia/Llama-3_3-Nemotron-Super-49B-v1 configuration_decilm.py.
struct UnreadType {
  std::string_view name, parts;
  std::string_view nearest = {};  // of the types that are read, if one is like it
};
constexpr UnreadType unread_types[] = {
    {"gemma3n",
     "streams of which each layer predicts the others (altup_num_inputs), and low-rank branches of attention "
     "(laurel_rank)",
     "gemma4"},
    {"gemma4_assistant", "a draft that attends to the keys and values of the model whose tokens it guesses"},
    {"gemma4_unified_assistant", "a draft that attends to the keys and values of the model whose tokens it guesses"},
    {"muse_glimmer_assistant",
     "a draft that reads streams of the model whose tokens it guesses (target_layer_ids), several tokens at once"},
    {"glm_image", "a head of another vocabulary than the embedding's (vision_vocab_size)"},
    {"zamba", "recurrences of Mamba-1 whose heads project steps, keys and queries each by themselves (n_mamba_heads)",
     "zamba2"},
    {"phi4flash",
     "layers that attend to the keys and values of another, or gate what another's recurrence made (arXiv 2507.06607), "
     "and differences of two attentions",
     "jamba"},
    {"glm5_next", "an indexer whose keys are pooled by blocks (index_kpool), over latent attention without rotation"},
    {"axk2", "norms with a gate of low rank (gated_norm_rank), and queries of a latent before and behind its norm"},
    {"inkling",
     "short convolutions of keys, values and what a layer adds (conv_kernel_size), and scores by position that are "
     "projected of each token (d_rel)"},
    {"zaya",
     "queries and keys that are convolved over tokens (cca_time0), and a router of several matrices "
     "(router_hidden_size)"},
    {"hrm_text", "layers that a token passes several times (H_cycles, L_cycles)"},
    {"iquestloopcoder", "layers that a token passes several times (loop_num)"},
    {"ouro", "layers that a token passes several times (total_ut_steps)"},
    {"diffusion_gemma", "tokens that see later ones, and are written in several passes"},
    {"ernie4_5_vl", "experts of images next to those of texts, of another width"},
    {"ernie4_5_moe_vl", "experts of images next to those of texts, of another width"},
    {"rwkv7", "states with a decay and a removal of each column, and tokens mixed with the one before"},
    {"rwkv", "states of single columns, and tokens mixed with the one before (attention_hidden_size)", "mamba2"},
    {"xlstm",
     "states with gates that are exponentials, and their sums that divide what is read of them (qk_dim_factor)",
     "mamba2"},
    {"recurrent_gemma", "states of single columns whose gates are projected by blocks of columns (lru_width)",
     "gemma2"},
    {"plamo2", "recurrences of heads whose keys, queries and steps are projected of the convolution's result", "bamba"},
    {"hymba", "attention and a recurrence that share an output, and tokens that are learned (num_memory_tokens)",
     "falcon_h1"},
    {"jetmoe", "queries and outputs of attention that are of experts too (num_local_experts)", "granitemoe"},
    {"arctic", "experts that read a layer's input, past attention and an MLP (parallel_attn_mlp_res)", "mixtral"},
    {"diffllama", "differences of two attentions (lambda_std_dev)", "llama"},
    {"doge", "attention to the keys alone that a projection of values chooses (keep_window_size)", "llama"},
    {"mllama", "layers that attend to an image (cross_attention_layers)", "llama"},
    {"nemotron-nas", "layers that differ in heads and widths, or have no attention (block_configs)"}};

// Refuses a type that is named above, and returns whether it does.
bool refuse_unread_type(ConfigReader& config, const std::string& key) {
  const std::string found = config.text(key, "");
  if (find_model_type(found) != nullptr) return false;
  const auto* type =
      std::ranges::find_if(unread_types, [&](const UnreadType& one) { return found.starts_with(one.name); });
  if (type == std::end(unread_types)) return false;
  config.fail(key, fmt::format("no operator here computes what {} has", type->name),
              type->nearest.empty()
                  ? std::string(type->parts)
                  : fmt::format("{}; the nearest type that is read is {}", type->parts, type->nearest));
  return true;
}

// Whether a key of the file could change what a model computes: many are of tokens, texts and other software.
bool may_matter(std::string_view key) {
  constexpr std::string_view other[] = {"token_id", "_name_or_path", "architectures", "auto_map",     "dtype",
                                        "version",  "use_cache",     "initializer",   "return_dict",  "max_position",
                                        "task",     "_class",        "label",         "quantization", "_range"};
  return key != "model_type" &&
         std::ranges::none_of(other, [&](std::string_view part) { return key.find(part) != std::string_view::npos; });
}

// Returns what to do with a file of a type that is not known: the type whose reader takes the file and leaves fewest of
// its keys unread, of equals the one that asks for fewest.
std::string nearest_by_keys(const std::string& path, const ConfigOverrides& overrides) {
  std::string nearest;
  std::vector<std::string> left;
  std::size_t asked = 0;
  for (const ModelType& type : model_types) {
    auto config = ConfigReader::open(path, overrides);
    Architecture model;
    model.model_type = type.name;
    if (!config || !read_model(*config, model).empty() || config->error()) continue;
    const std::vector<std::string> unread = config->unread();
    if (!nearest.empty() && std::pair(unread.size(), config->asked().size()) >= std::pair(left.size(), asked)) continue;
    nearest = type.name;
    left = unread;
    asked = config->asked().size();
  }
  if (nearest.empty()) return "";
  std::erase_if(left, [](const std::string& key) { return !may_matter(key); });
  constexpr std::size_t most_named = 6;
  const bool more = left.size() > most_named;
  left.resize(std::min(left.size(), most_named));
  return fmt::format("'{}' reads such keys{}; where it computes the same, state it as model_type", nearest,
                     left.empty() ? "" : fmt::format(", but for {}{}", fmt::join(left, ", "), more ? ", ..." : ""));
}

void fail_unknown_type(ConfigReader& config, const std::string& key, const std::string& path,
                       const ConfigOverrides& overrides) {
  if (refuse_unread_type(config, key)) return;
  const std::string found = config.text(key, "");
  std::vector<std::string> names;
  for (const ModelType& type : model_types) names.emplace_back(type.name);
  std::string hint = meant_type(found, names);
  hint = hint.empty() ? nearest_by_keys(path, overrides) : fmt::format("did you mean '{}'?", hint);
  config.fail(key, found.empty() ? "required key is missing" : fmt::format("unknown model type '{}'", found),
              hint.empty() ? "docs/models.md lists the types that are read" : hint);
}

// Rejects an override that no key of the model type uses, because it would change nothing.
void refuse_unread(ConfigReader& config, const ConfigOverrides& overrides, const std::string& model_type) {
  for (const auto& [key, value] : overrides) {
    if (std::ranges::find(config.asked(), key) != config.asked().end()) continue;
    const std::string nearest = nearest_name(key, config.asked());
    config.fail(key, fmt::format("a model of type {} has no such key", model_type),
                nearest.empty() ? fmt::format("one of {}", fmt::join(config.asked(), ", "))
                                : fmt::format("did you mean 'model.{}'?", nearest));
  }
}

// YaRN stretches the positions that it names (vllm/config.py, _get_and_verify_max_len); files of other scalings have
// the stretched ones in their own key, Llama 3.2's fewer than its factor would give.
std::int64_t longest_sequence(ConfigReader& config) {
  std::int64_t positions = 0;
  for (const char* key : {"max_position_embeddings", "n_positions", "max_seq_len"})
    if (positions == 0) positions = config.positions(key);
  for (const char* scaling : {"rope_scaling", "rope_parameters"}) {
    const auto key_of = [&](const char* name) { return fmt::format("{}.{}", scaling, name); };
    const std::string type = config.text(key_of("rope_type"), config.text(key_of("type"), ""));
    const double scaled = static_cast<double>(config.positions(key_of("original_max_position_embeddings"))) *
                          config.number(key_of("factor"), 1);
    if (positions > 0 && type == "yarn" && scaled > 0 && scaled < 1e12)
      positions = std::max(positions, static_cast<std::int64_t>(scaled));
  }
  return positions;
}

// Reads what tools that quantise write to a model's file: of DeepSeek and Transformers (quant_method), of NVIDIA
// ModelOpt (quant_algo), of compressed-tensors (format, config_groups, kv_cache_scheme) and of AMD Quark
// (global_quant_config).
CheckpointFormats checkpoint_formats(ConfigReader& config) {
  struct Row {
    const char *key, *text, *format;
  };
  constexpr Row rows[] = {{"quant_algo", "NVFP4", "nvfp4"},
                          {"quant_algo", "MXFP8", "mxfp8"},
                          {"quant_algo", "FP8", "fp8"},
                          {"quant_algo", "FP8_PB_WO", "fp8"},
                          {"quant_method", "mxfp4", "mxfp4"},
                          {"quant_method", "fp8", "fp8"},
                          {"quant_method", "fbgemm_fp8", "fp8"},
                          {"quant_method", "awq", "int4"},
                          {"quant_method", "gptq", "int4"},
                          {"format", "nvfp4-pack-quantized", "nvfp4"},
                          {"format", "float-quantized", "fp8"},
                          {"format", "pack-quantized", "int4"},
                          {"global_quant_config.weight.dtype", "fp8_e4m3", "fp8"},
                          {"global_quant_config.weight.dtype", "fp4", "mxfp4"}};
  const auto key_of = [](std::string_view key) { return fmt::format("quantization_config.{}", key); };
  const auto says = [&](std::string_view key, std::string_view text) { return config.is_text(key_of(key), text); };
  const std::string group = "config_groups.group_0.weights.";
  CheckpointFormats formats;
  if (const auto row = std::ranges::find_if(rows, [&](const Row& one) { return says(one.key, one.text); });
      row != std::end(rows))
    formats.weights = row->format;
  const bool blocks = config.is_list(key_of("weight_block_size")) || says("quant_algo", "FP8_PB_WO") ||
                      says(group + "strategy", "block");
  if (formats.weights == "fp8" && !blocks) formats.weights = "fp8_tensor";
  if (config.is_text("expert_dtype", "fp4")) formats.weights = "mxfp4";  // of DeepSeek-V4, which has few other weights
  constexpr double bits = 4;
  if (formats.weights == "int4" &&
      (config.number(key_of("bits"), bits) != bits || config.number(key_of(group + "num_bits"), bits) != bits))
    formats.weights.clear();
  if (says("kv_cache_quant_algo", "FP8") || config.number(key_of("kv_cache_scheme.num_bits"), 0) == 2 * bits)
    formats.key_values = "fp8";
  else if (says("kv_cache_quant_algo", "NVFP4"))
    formats.key_values = "nvfp4";
  return formats;
}

Result<Architecture> read_architecture(const std::string& path, const ConfigOverrides& overrides) {
  auto config = TRY(ConfigReader::open(path, overrides));
  Architecture model;
  model.name = std::filesystem::path(path).stem().string();
  model.model_type = config.text("model_type", "");
  if (!refuse_unread_type(config, "model_type")) {
    if (const std::string unknown = read_model(config, model); unknown.empty())
      refuse_unread(config, overrides, model.model_type);
    else
      fail_unknown_type(config, unknown, path, overrides);
  }
  model.longest_sequence = longest_sequence(config);
  model.checkpoint = checkpoint_formats(config);
  if (config.error()) return tl::unexpected(*config.error());
  return model;
}

}  // namespace

Result<Architecture> load_architecture(const std::string& path) { return read_architecture(path, {}); }

Result<Architecture> load_architecture_of(const Plan& plan, const std::string& path) {
  return read_architecture(path, plan.model.overrides).map_error([&plan](const Error& error) {
    if (!plan.model.overrides.contains(error.key)) return error;
    return plan_error(plan, error.kind, "model." + error.key, error.message, error.hint);
  });
}

}  // namespace plumbline::model
