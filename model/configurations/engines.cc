// Commands that start an engine which serves a model: options of vllm-project/vllm vllm/engine/arg_utils.py, of
// sgl-project/sglang python/sglang/srt/server_args.py @001067f, and of NVIDIA/TensorRT-LLM
// tensorrt_llm/commands/serve.py with the YAML that it reads, tensorrt_llm/llmapi/llm_args.py.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <string>
#include <utility>

#include "model/configurations/detail/shared.h"

namespace plumbline::model::configurations {
namespace {

using enum Meaning;

constexpr KeyRow engine_rows[] = {
#include "model/configurations/detail/keys/engines.def"
};

const std::vector<Rename> sglang_names = {{"model_path", "model"},
                                          {"tp_size", "tensor_parallel_size"},
                                          {"tp", "tensor_parallel_size"},
                                          {"pp_size", "pipeline_parallel_size"},
                                          {"pp", "pipeline_parallel_size"},
                                          {"dp_size", "data_parallel_size"},
                                          {"dp", "data_parallel_size"},
                                          {"expert_parallel_size", "ep_size"},
                                          {"ep", "ep_size"},
                                          {"ep_num_redundant_experts", "num_redundant_experts"},
                                          {"moe_a2a_backend", "all2all_backend"},
                                          {"enable_two_batch_overlap", "enable_dbo"},
                                          {"chunked_prefill_size", "max_num_batched_tokens"},
                                          {"max_running_requests", "max_num_seqs"},
                                          {"mem_fraction_static", "gpu_memory_utilization"},
                                          {"speculative_algorithm", "speculative_config.method"},
                                          {"speculative_algo", "speculative_config.method"},
                                          {"speculative_draft_model_path", "speculative_config.model"},
                                          {"speculative_draft_model", "speculative_config.model"},
                                          {"speculative_num_steps", "speculative_config.num_speculative_tokens"},
                                          {"disable_cuda_graph", "enforce_eager"},
                                          {"disaggregation_mode", "kv_transfer_config.kv_role"}};
const std::vector<Rename> vllm_names = {{"tp", "tensor_parallel_size"},
                                        {"pp", "pipeline_parallel_size"},
                                        {"dp", "data_parallel_size"},
                                        {"q", "quantization"},
                                        {"ep", "enable_expert_parallel"},
                                        {"eplb_config.num_redundant_experts", "num_redundant_experts"},
                                        {"speculative_model", "speculative_config.model"},
                                        {"num_speculative_tokens", "speculative_config.num_speculative_tokens"}};

const std::vector<Rename> tensorrt_names = {
    {"config", "extra_llm_api_options"},
    {"tp_size", "tensor_parallel_size"},
    {"pp_size", "pipeline_parallel_size"},
    {"moe_expert_parallel_size", "ep_size"},
    {"max_batch_size", "max_num_seqs"},
    {"max_num_tokens", "max_num_batched_tokens"},
    {"kv_cache_free_gpu_memory_fraction", "gpu_memory_utilization"},
    {"free_gpu_memory_fraction", "gpu_memory_utilization"},
    {"kv_cache_config.free_gpu_memory_fraction", "gpu_memory_utilization"},
    {"kv_cache_config.dtype", "kv_cache_dtype"},
    {"enable_attention_dp", "enable_dp_attention"},
    {"disable_overlap_scheduler", "disable_overlap_schedule"},
    {"speculative_config.decoding_type", "speculative_config.method"},
    {"speculative_config.num_nextn_predict_layers", "speculative_config.num_speculative_tokens"},
    {"speculative_config.max_draft_len", "speculative_config.num_speculative_tokens"},
    {"speculative_config.speculative_model_dir", "speculative_config.model"},
    {"speculative_config.speculative_model", "speculative_config.model"}};

// Values that are JSON become keys of their own: speculative_config '{"method": "mtp"}'.
Result<void> expand_objects(const Source& source, Configuration& read) {
  std::vector<Entry> entries;
  for (Entry& entry : read.entries) {
    if (!entry.value.starts_with('{') || entry.unread) {
      entries.push_back(std::move(entry));
      continue;
    }
    const auto inside = read_yaml({entry.value, source.path, {}});
    if (!inside)
      return wrong_input_at(source.path, entry.line, entry.written, "is no JSON object", inside.error().message);
    for (Entry one : inside->entries) {
      one.line = entry.line;
      one.written = fmt::format("{}.{}", entry.written, one.written);
      one.key = with_renames(fmt::format("{}.{}", entry.key, one.key), source.renames);
      entries.push_back(std::move(one));
    }
  }
  read.entries = std::move(entries);
  return {};
}

void rename(std::vector<Entry>& entries, const std::vector<Rename>& renames) {
  for (Entry& entry : entries) {
    std::ranges::replace(entry.key, '-', '_');
    if (entry.key.starts_with("no_") && lower_case(entry.value) == "true") {
      entry.key.erase(0, 3);
      entry.value = "false";
    }
    entry.key = with_renames(entry.key, renames);
  }
}

// Returns the text with the values of variables in place of $NAME and ${NAME}, up to a length.
std::string with_variables(std::string_view text, const megatron::Definitions& variables) {
  constexpr std::size_t longest = 1 << 20;
  std::string out;
  for (std::size_t at = 0; at < text.size() && out.size() < longest;) {
    const bool braced = text.substr(at).starts_with("${");
    const std::size_t begin = at + (braced ? 2 : 1);
    std::size_t end = begin;
    while (text[at] == '$' && end < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_'))
      ++end;
    const bool whole = end > begin && (!braced || (end < text.size() && text[end] == '}'));
    const auto found = whole ? variables.find(text.substr(begin, end - begin)) : variables.end();
    if (found == variables.end()) {
      out += text[at++];
    } else {
      out += found->second;
      at = end + (braced ? 1 : 0);
    }
  }
  return out;
}

// Returns the entries of the first here-document of a script that is a table of YAML, with the script's variables.
std::vector<Entry> entries_of_document(const Source& source, const megatron::Definitions& variables) {
  constexpr int most_documents = 100;
  const std::vector<std::string_view> lines = lines_of(source.text);
  int documents = 0;
  for (std::size_t first = 0; first < lines.size() && documents < most_documents; ++first) {
    const std::size_t at = lines[first].find("<<");
    documents += at == std::string_view::npos ? 0 : 1;
    std::string mark(at == std::string_view::npos ? "" : lines[first].substr(at + 2));
    std::erase_if(mark, [](char one) { return one == '\'' || one == '"' || one == '-'; });
    mark = std::string(trimmed(mark));
    mark = mark.substr(0, mark.find_first_of(" \t>|;"));
    const auto end = std::find(lines.begin() + static_cast<std::ptrdiff_t>(first), lines.end(), mark);
    if (mark.empty() || end == lines.end()) continue;
    const std::string body = with_variables(
        fmt::format("{}\n", fmt::join(lines.begin() + static_cast<std::ptrdiff_t>(first) + 1, end, "\n")), variables);
    const std::vector<Rename> none;
    auto read = read_yaml({body, source.path, none});
    if (!read) continue;
    for (Entry& entry : read->entries) {
      entry.line += static_cast<int>(first) + 1;
      entry.unread = contains(entry.value, "$");
    }
    return std::move(read->entries);
  }
  return {};
}

// Adds the options of the first benchmark of an engine in a script as "benchmark.KEY". Scripts wait for the server
// before they run one, for as long as it takes, so that its line is read by itself.
void add_benchmark(const Source& source, const megatron::Definitions& variables, std::vector<Entry>& entries) {
  constexpr std::string_view programs[] = {"benchmark_serving", "bench_serving", "bench serve"};
  const std::vector<std::string_view> lines = lines_of(source.text);
  const auto runs = [&](std::string_view line) {
    const auto has = [line](std::string_view one) { return contains(line, one); };
    return contains(line, " -") && !trimmed(line).starts_with('#') && std::ranges::any_of(programs, has);
  };
  const auto first = std::ranges::find_if(lines, runs);
  if (first == lines.end()) return;
  std::string text;
  for (auto line = first; line != lines.end(); ++line) {
    text += std::string(*line) + "\n";
    if (!trimmed(*line).ends_with('\\')) break;
  }
  const auto all = [](const megatron::Command&) { return true; };
  const auto script = megatron::read_script(text, {source.path, "", variables, {}, all});
  if (!script || script->commands.empty()) return;
  const int line = static_cast<int>(first - lines.begin());
  for (Entry& entry : options_of(script->commands.front(), 0, {})) {
    entry.key = "benchmark." + entry.key;
    entry.line += line;
    entries.push_back(std::move(entry));
  }
  // Lengths of SGLang's lie between a share of the stated one, which is 0 by default, and that.
  if (contains(text, "sglang.bench_serving"))
    entries.push_back({"benchmark.of_sglang", "sglang.bench_serving", "true", {}, line + 1});
}

struct EngineCommand {
  std::span<const std::string_view> launchers;
  std::string_view file;   // option that names a file of further ones
  bool file_wins = false;  // over the command
};

Result<Configuration> read_command(const Source& source, const EngineCommand& of) {
  Configuration read{source.path, {}};
  if (source.path.ends_with(".yaml") || source.path.ends_with(".yml")) {
    read = TRY(read_yaml(source));
    rename(read.entries, source.renames);
    return read;
  }
  Launch launch = TRY(read_launch(source, of.launchers));
  megatron::Command& words = launch.words;
  if (launch.first < words.size() && words[launch.first].text == "serve") ++launch.first;  // of trtllm-serve
  std::string backend;  // in the environment of the script, or of the command: env KEY=VALUE, docker run -e KEY=VALUE
  constexpr std::string_view backend_key = "VLLM_ALL2ALL_BACKEND";
  if (const auto found = launch.variables.find(backend_key); found != launch.variables.end()) backend = found->second;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string& text = words[i].text;
    const bool is_short = text.size() > 1 && text[0] == '-' && std::isalpha(static_cast<unsigned char>(text[1])) != 0;
    if (i >= launch.first && is_short) text.insert(0, "-");
    if (i < launch.first && text.starts_with(fmt::format("{}=", backend_key)))
      backend = text.substr(backend_key.size() + 1);
  }
  if (launch.first < words.size() && !words[launch.first].text.starts_with('-')) {
    const megatron::Word& model = words[launch.first];
    read.entries.push_back({"model", "model", model.text, {}, model.line, false, model.unknown});
  }
  for (Entry& entry : options_of(words, launch.first, source.renames)) {
    if (std::exchange(entry.is_list, false)) entry.value = entry.items.front();  // no option that decides has several
    read.entries.push_back(std::move(entry));
  }
  if (!backend.empty() && read.find("all2all_backend") == nullptr)
    read.entries.push_back({"all2all_backend", std::string(backend_key), backend, {}, 0});
  add_benchmark(source, launch.variables, read.entries);
  if (read.find(of.file) != nullptr) {
    auto entries = TRY(entries_of_named_file(source.path, of.file, read));
    if (!entries) entries = entries_of_document(source, launch.variables);
    rename(*entries, source.renames);
    if (!entries->empty()) std::erase_if(read.entries, [&](const Entry& entry) { return entry.key == of.file; });
    read.entries.insert(of.file_wins ? read.entries.end() : read.entries.begin(), entries->begin(), entries->end());
  }
  TRY(expand_objects(source, read));
  return read;
}

Result<Configuration> read_vllm(const Source& source) {
  constexpr std::string_view launchers[] = {"vllm serve", "vllm.entrypoints.openai.api_server", "vllm/vllm-openai:"};
  return read_command(source, {launchers, "config"});
}

Result<Configuration> read_sglang(const Source& source) {
  constexpr std::string_view launchers[] = {"sglang.launch_server", "sglang serve"};
  return read_command(source, {launchers, "config"});
}

Result<Configuration> read_tensorrt_llm(const Source& source) {
  constexpr std::string_view launchers[] = {"trtllm-serve"};
  return read_command(source, {launchers, "extra_llm_api_options", true});
}

// Returns the format of weights that a method of quantization, or the name of a model, has in it; "": none.
std::string_view format_within(std::string_view name) {
  constexpr std::string_view integers[] = {"awq", "gptq", "w4a16", "int4", "bitsandbytes", "gguf"};
  if (contains(name, "mxfp8")) return "mxfp8";
  if (contains(name, "bf16")) return "bf16";
  if (contains(name, "fp4")) return contains(name, "mx") ? "mxfp4" : "nvfp4";
  if (std::ranges::any_of(integers, [name](std::string_view part) { return contains(name, part); })) return "int4";
  return contains(name, "fp8") || name == "modelopt" ? "fp8" : "";
}

constexpr std::string_view of_the_file = "the model's quantization_config";

// `stated`: by the file of the model, with which engines take no other method. `own`: that file is the checkpoint's and
// not one of a model of its name, whose format a name that has another one replaces.
void read_weights(const RuleInput& in, std::string_view stated, bool own) {
  Draft& draft = in.draft;
  constexpr std::string_view plan_key = "inference.weights";
  const std::string method = lower_case(draft.text("quantization").value_or(""));
  const std::string dtype = draft.text("dtype").value_or("auto");
  const std::string name = draft.text("model").value_or("");
  const std::string_view named = format_within(lower_case(name));
  // The method of a checkpoint that states its own format leaves that to the file and the name.
  const bool by_file = !stated.empty() && (own || named.empty());
  const bool open = by_file || method.empty() || method == "compressed-tensors" || method == "none";
  if (open && !by_file && (dtype == "half" || dtype == "float16")) return draft.set(plan_key, "fp16", "dtype");
  if (!by_file && method.empty() && dtype == "bfloat16") return draft.set(plan_key, "bf16", "dtype");
  const std::string_view key = open ? "model" : "quantization";
  std::string_view format = by_file ? stated : open ? named : format_within(method);
  if (format == "int4") {
    draft.note(Note::Kind::assumed, key, "assumed: weights of 4 bits are stored and read as mxfp4, which has as many");
    format = "mxfp4";
  }
  if (by_file && own) return draft.set(plan_key, format, of_the_file);
  if (by_file) return draft.assume(plan_key, format, "as the model is published");
  if (!open && format.empty())
    return draft.fail(key, fmt::format("'{}' is not read", method), "--set inference.weights=FORMAT states it");
  if (!open) return draft.set(plan_key, format != "fp8" ? format : "fp8_tensor", key);
  if (format == "fp8") {
    // Checkpoints of who quantises others' models have a scale of each tensor or row, those of who trained it of
    // blocks.
    constexpr std::string_view publishers[] = {"nvidia/", "redhatai/", "neuralmagic/", "amd/"};
    const bool later =
        std::ranges::any_of(publishers, [&](std::string_view one) { return lower_case(name).starts_with(one); });
    return draft.assume(plan_key, later ? "fp8_tensor" : "fp8", "by the model's name", later ? "fp8" : "fp8_tensor");
  }
  if (!format.empty()) return draft.assume(plan_key, format, "by the model's name");
  draft.assume(plan_key, "bf16", "the command does not state the format of the checkpoint", "fp8");
}

void read_cache(Draft& draft, std::string_view stated) {
  const std::string word = draft.text("kv_cache_dtype").value_or("auto");
  const std::string_view format = contains(word, "fp8") ? "fp8" : contains(word, "fp4") ? "nvfp4" : "bf16";
  if (word == "auto" && !stated.empty()) return draft.set("inference.kv_cache", stated, of_the_file);
  if (format == "bf16" && word != "auto" && word != "bfloat16" && word != "bf16")
    return draft.fail("kv_cache_dtype", fmt::format("'{}' is not read", word),
                      "--set inference.kv_cache=FORMAT states it");
  draft.set("inference.kv_cache", format, "kv_cache_dtype");
}

void read_dispatch(Draft& draft) {
  const std::string word = draft.text("all2all_backend").value_or("none");
  if (word == "none") return;
  if (contains(word, "deepep"))
    draft.set("inference.dispatch", "deepep-2025-06", "all2all_backend");
  else if (contains(word, "flashinfer"))
    draft.set("inference.dispatch", "nvlink-one-sided", "all2all_backend");
  else if (word == "allgather_reducescatter" || word == "naive")
    draft.set("inference.dispatch", "all-reduce", "all2all_backend");
  else
    draft.not_modeled("all2all_backend", "tokens are sent as inference.dispatch = \"auto\" has it");
}

enum class EngineKind { vllm, sglang, tensorrt_llm };

void read_draft(const RuleInput& in, EngineKind engine, bool has_module) {
  Draft& draft = in.draft;
  constexpr std::string_view method_key = "speculative_config.method", model_key = "speculative_config.model",
                             tokens_key = "speculative_config.num_speculative_tokens";
  const std::string method = lower_case(draft.text(method_key).value_or(""));
  const bool has_model = draft.text(model_key).has_value();
  const auto tokens = draft.integer(tokens_key);
  if (method.empty() && !has_model && !tokens) return;
  if (draft.integer("speculative_eagle_topk").value_or(1) > 1)
    draft.not_modeled("speculative_eagle_topk", "drafts are chains of tokens, no trees");
  // sgl-project/sglang python/sglang/srt/server_args.py, auto_choose_speculative_params: 3 steps of DeepSeek's models,
  // 5 of others.
  const std::int64_t usual = has_module ? 3 : 5;
  const bool chooses = engine == EngineKind::sglang;
  if (tokens)
    draft.set("inference.speculative_tokens", *tokens, tokens_key);
  else if (chooses)
    draft.assume("inference.speculative_tokens", usual, "the steps that SGLang chooses");
  else
    draft.fail(tokens_key, "the tokens that are speculated are not stated");
  if (contains(method, "ngram") || contains(method, "lookahead") || contains(method, "suffix"))
    return draft.set("inference.draft", "ngram", method_key);
  if (contains(method, "mtp") || method == "nextn" || (chooses && method == "eagle" && !has_model)) {
    if (has_module) return draft.set("inference.draft", "mtp", method_key);
    return draft.assume("inference.draft", "eagle",
                        "the model's file has no prediction module: a head of a dense layer");
  }
  if (contains(method, "eagle") || contains(method, "medusa")) return draft.set("inference.draft", "eagle", method_key);
  if (!has_model)
    return draft.fail(method_key, fmt::format("'{}' is not read", method), "mtp, eagle, ngram or a small model");
  if (const auto small = named_model(in, model_key)) return draft.set("inference.draft", small->shipped, model_key);
  draft.fail(model_key, fmt::format("no shipped model has the name '{}'", *draft.text(model_key)),
             "--set inference.draft=CONFIG.JSON names one");
}

// Sets the degrees, and returns the groups of ranks that each run as many requests as an engine states.
std::int64_t read_degrees(const RuleInput& in, EngineKind engine, bool experts) {
  Draft& draft = in.draft;
  const std::string_view data_key = "data_parallel_size", tensor_key = "tensor_parallel_size";
  const std::int64_t ranks = draft.integer(tensor_key).value_or(1);
  // Attention of SGLang and TensorRT-LLM divides its tensor ranks into groups, of TensorRT-LLM into single ranks.
  const bool divides = engine != EngineKind::vllm && draft.flag("enable_dp_attention").value_or(false);
  const bool single = engine == EngineKind::tensorrt_llm && divides;
  const std::int64_t data = single ? ranks : draft.integer(data_key).value_or(1);
  if (ranks < 1 || data < 1 || (divides && ranks % data != 0)) {
    draft.fail(ranks < 1 ? tensor_key : data_key,
               data < 1 || ranks < 1 ? "is below 1" : fmt::format("does not divide {} tensor ranks", ranks));
    return 1;
  }
  const bool joins = engine == EngineKind::vllm && experts;  // the ranks of all groups
  draft.set("parallelism.tensor", divides ? ranks / data : ranks, tensor_key);
  if ((divides || joins) && data > 1)
    draft.set("inference.attention_data", data, single ? "enable_dp_attention" : data_key);
  draft.set("cluster.gpus", bounded_product({ranks, divides ? 1 : data, draft.degree("pipeline")}),
            "the product of the degrees");
  const std::int64_t stage = bounded_product({ranks, joins ? data : 1});
  const bool dispatches =
      engine == EngineKind::sglang && contains(draft.text("all2all_backend").value_or(""), "deepep");
  const bool all = dispatches || (joins && draft.flag("enable_expert_parallel").value_or(false));
  const std::int64_t expert = all ? stage : joins ? 1 : draft.integer("ep_size").value_or(1);
  if (experts && expert > 1)
    draft.set("parallelism.expert", expert, joins ? "enable_expert_parallel" : all ? "all2all_backend" : "ep_size");
  return engine == EngineKind::sglang ? 1 : data;
}

// Sets the mean lengths of a benchmark's requests: sgl-project/sglang python/sglang/bench_serving.py draws them between
// random_range_ratio of the stated length and that, vLLM's as far above it as below.
void read_benchmark(Draft& draft) {
  const bool below = draft.flag("benchmark.of_sglang").value_or(false);
  const double least = draft.number("benchmark.random_range_ratio").value_or(0);
  const auto set = [&](std::string_view plan_key, std::initializer_list<std::string_view> keys) {
    for (const std::string_view key : keys)
      if (const auto longest = draft.integer(key); longest && *longest > 0) {
        const double mean = static_cast<double>(*longest) * (below ? (1 + std::clamp(least, 0.0, 1.0)) / 2 : 1);
        draft.set(plan_key, static_cast<std::int64_t>(std::round(mean)), key);
      }
  };
  set("inference.input_tokens", {"benchmark.random_input_len", "benchmark.random_input", "benchmark.input_len"});
  set("inference.output_tokens", {"benchmark.random_output_len", "benchmark.random_output", "benchmark.output_len"});
  if (const std::string rate = draft.text("benchmark.request_rate").value_or("inf"); rate != "inf")
    draft.not_modeled("benchmark.request_rate", "as many requests as stated are in flight");
  const bool fixed = draft.given("inference.input_tokens") && (below ? least >= 1 : least == 0);
  if (!fixed || !draft.given("inference.concurrency")) return;
  draft.assume("inference.arrivals", "waves", "lengths do not vary, so that requests end together",
               toml_string("steady"));
  for (const char* key : {"benchmark.num_prompts", "benchmark.num_prompt"})
    if (const auto requests = draft.integer(key); requests && *requests > 0)
      draft.set("inference.requests", *requests, key);
}

void read_engine_command(const RuleInput& in, EngineKind engine) {
  Draft& draft = in.draft;
  const bool own = draft.word("model.config").value_or("").ends_with(".json");  // and no shipped model's name
  read_named_model(in, "model");
  const auto architecture = in.architecture();
  const std::int64_t groups = read_degrees(in, engine, architecture && architecture->experts.routed_experts > 0);
  const CheckpointFormats stated = architecture ? architecture->checkpoint : CheckpointFormats();
  read_weights(in, stated.weights, own);
  read_cache(draft, stated.key_values);
  read_dispatch(draft);
  read_draft(in, engine, !architecture || architecture->multi_token_prediction_layers > 0);
  const std::string backend = draft.text("backend").value_or("pytorch");
  if (engine == EngineKind::sglang)
    draft.set("inference.engine", "sglang", "of SGLang");
  else if (engine == EngineKind::tensorrt_llm)
    draft.set("inference.engine", backend.starts_with("t") ? "tensorrt-llm-compiled" : "tensorrt-llm", "backend");
  else if (const auto ahead = draft.flag("async_scheduling"); ahead && !*ahead)
    draft.set("inference.engine", "vllm-2025", "async_scheduling");
  else
    draft.assume("inference.engine", "vllm", "a release from 0.14 on", toml_string("vllm-2025"));
  constexpr std::string_view chunk = "max_num_batched_tokens", most = "max_num_seqs", chunks = "enable_chunked_prefill";
  if (!draft.flag(chunks).value_or(true))
    draft.set("inference.chunked_prefill_tokens", std::int64_t{0}, chunks);
  else if (const auto tokens = draft.integer(chunk); tokens && *tokens > 0)
    draft.set("inference.chunked_prefill_tokens", *tokens, chunk);
  else if (tokens)
    draft.not_modeled(chunk, "prompts are computed in chunks");
  read_benchmark(draft);
  for (const char* key : {"inference.input_tokens", "inference.output_tokens"})
    draft.assume(key, std::int64_t{1024}, "the command does not state its requests, --set does");
  if (const auto requests = draft.integer(most); requests && *requests > 0)
    draft.assume("inference.concurrency", bounded_product({*requests, groups}),
                 "as many as the engine runs, --set states those in flight");
  else
    draft.assume("inference.concurrency", std::int64_t{0}, "as many as fit, --set states those in flight");
}

}  // namespace

ConfigurationFormat vllm() {
  return {"vllm", "vLLM", &read_vllm, vllm_names, table_of(engine_rows), [](const RuleInput& in) {
            read_engine_command(in, EngineKind::vllm);
          }};
}

ConfigurationFormat sglang() {
  return {"sglang", "SGLang", &read_sglang, sglang_names, table_of(engine_rows), [](const RuleInput& in) {
            read_engine_command(in, EngineKind::sglang);
          }};
}

ConfigurationFormat tensorrt_llm() {
  return {"tensorrt-llm",        "TensorRT-LLM",
          &read_tensorrt_llm,    tensorrt_names,
          table_of(engine_rows), [](const RuleInput& in) { read_engine_command(in, EngineKind::tensorrt_llm); }};
}

}  // namespace plumbline::model::configurations
