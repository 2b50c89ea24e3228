
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "model/base/integers.h"
#include "model/base/text_file.h"
#include "model/configurations/detail/shared.h"
#include "model/megatron/arguments.h"

namespace plumbline::model::configurations {
namespace {

namespace fs = std::filesystem;
using enum Meaning;

constexpr std::string_view kTrainer = "modules.pre_trainer.";
constexpr std::string_view kMegatron = "megatron", kTitan = "torchtitan";
constexpr int kDeepestPreset = 8, kMostPresets = 64;
constexpr std::uintmax_t kLargestPreset = 1 << 20;

using Texts = std::pair<std::string_view, std::string_view>;

// What pre_trainer.yaml and language_model.yaml set that Megatron-LM does not by itself, for experiments without these
// files (primus/configs/modules/megatron/pre_trainer.yaml @44a21d15, primus/configs/models/megatron/
// language_model.yaml @0158a866 and llama_base.yaml @1b29bf7c).
constexpr Texts module_defaults[] = {
    {"bf16", "true"},       {"sequence_parallel", "true"}, {"use_distributed_optimizer", "true"},
    {"seq_length", "1024"}, {"micro_batch_size", "2"},     {"global_batch_size", "16"}};
constexpr Texts model_defaults[] = {
    {"moe_token_dispatcher_type", "alltoall"}};  // of every preset of a model with experts
// The same for torchtitan (primus/configs/modules/torchtitan/pre_trainer.yaml @04aa8ac4).
constexpr Texts titan_defaults[] = {{"compile.enable", "true"}, {"activation_checkpoint.mode", "none"}};
constexpr std::string_view kQuantized = "-fp8";  // ends the names of torchtitan's presets with converters to FP8

// Reads a file of an experiment, and what it extends.
class PresetReader {
 public:
  PresetReader(const megatron::Definitions& environment, std::vector<std::string>& defaults)
      : environment_(environment), defaults_(defaults) {}

  Result<std::vector<Entry>> file(const fs::path& path, int depth) {
    std::error_code ignored;
    if (depth > kDeepestPreset || ++files_ > kMostPresets)
      return wrong_input_at(
          path.string(), 0, "",
          fmt::format("is more than {} files deep, or one of more than {}", kDeepestPreset, kMostPresets),
          "do presets extend each other?");
    if (!fs::is_regular_file(path, ignored) || fs::file_size(path, ignored) > kLargestPreset)
      return wrong_input_at(path.string(), 0, "", "is no preset: a file is expected, of a MiB at most");
    return text(TRY(read_text_file(path.string())), path.string(), depth);
  }

  // Returns the entries of a file behind those of the files that it extends, each key once: the last one holds.
  Result<std::vector<Entry>> text(std::string_view text, const std::string& path, int depth) {
    static const std::vector<Rename> none;
    auto read = TRY(read_yaml({text, path, none, "", {}}));
    std::vector<Entry> all;
    const auto extends = [](const Entry& one) {
      return one.key == "extends" || one.key == "includes" || one.key == "bases";
    };
    for (const Entry& entry : read.entries)
      for (const std::string& name : extends(entry) ? entry.items : std::vector<std::string>())
        merge(TRY(file(fs::path(path).parent_path() / name, depth + 1)), all);
    std::erase_if(read.entries, extends);
    for (Entry& entry : read.entries) {
      TRY(expand(entry.value, path, entry));
      for (std::string& item : entry.items) TRY(expand(item, path, entry));
    }
    merge(std::move(read.entries), all);
    return all;
  }

  // Replaces entries of `all` by those of the same key, and adds the others.
  static void merge(std::vector<Entry> more, std::vector<Entry>& all) {
    std::set<std::string_view> names;
    for (const Entry& entry : more) names.insert(entry.written);
    std::erase_if(all, [&names](const Entry& one) { return names.contains(one.written); });
    std::ranges::move(more, std::back_inserter(all));
  }

 private:
  // Replaces ${NAME} and ${NAME:default} (primus/core/utils/yaml_utils.py @33e0e46a, replace_env_variables).
  Result<void> expand(std::string& value, const std::string& path, const Entry& entry) {
    for (std::size_t begin = value.find("${"); begin != std::string::npos; begin = value.find("${", begin)) {
      const std::size_t end = value.find('}', begin);
      if (end == std::string::npos) break;
      const std::string inside = value.substr(begin + 2, end - begin - 2);
      const std::size_t colon = inside.find(':');
      const std::string name = inside.substr(0, colon);
      const auto given = environment_.find(name);
      if (given == environment_.end() && colon == std::string::npos)
        return wrong_input_at(path, entry.line, entry.written, fmt::format("{} has no value", name),
                              fmt::format("--define {}=VALUE gives it one", name));
      const std::string text = given == environment_.end() ? inside.substr(colon + 1) : given->second;
      if (given == environment_.end() && text != "null" && entry.written.starts_with(kTrainer))
        defaults_.push_back(fmt::format("{}={}", name, text));
      value.replace(begin, end + 1 - begin, text);
      begin += text.size();
    }
    if (value == "null") value.clear();
    return {};
  }

  const megatron::Definitions& environment_;
  std::vector<std::string>& defaults_;
  int files_ = 0;
};

// Returns the file of a preset: next to the experiment, or in the tree of Primus that holds it; empty where it is in
// neither.
fs::path preset_file(const fs::path& experiment, std::string_view kind, std::string_view framework,
                     const std::string& name) {
  std::error_code ignored;
  const fs::path below = fs::path("configs") / kind / framework / name;
  fs::path folder = experiment.parent_path();
  if (fs::is_regular_file(folder / name, ignored) && folder / name != experiment) return folder / name;
  for (; folder.has_relative_path(); folder = folder.parent_path())
    for (const fs::path& file : {folder / "primus" / below, folder / below})
      if (fs::is_regular_file(file, ignored)) return file;
  return {};
}

const Entry* find_entry(const std::vector<Entry>& entries, std::string_view key) {
  const auto found = std::ranges::find(entries, key, &Entry::key);
  return found == entries.end() || found->is_null() ? nullptr : &*found;
}

bool is_switched_on(const std::vector<Entry>& entries, std::string_view key) {
  const Entry* entry = find_entry(entries, key);
  return entry != nullptr && (entry->value == "true" || entry->value == "True");
}

std::optional<std::int64_t> whole_number(const std::vector<Entry>& entries, std::string_view key) {
  const Entry* entry = find_entry(entries, key);
  return entry == nullptr ? std::nullopt : parse_number<std::int64_t>(entry->value);
}

constexpr KeyRow primus_keys[] = {
#include "model/configurations/detail/keys/primus.def"
};

const KeyRow* primus_row(std::string_view key) {
  static const std::vector<KeyRow> rows = megatron::table_of(primus_keys);
  const auto found = std::ranges::find(rows, key, &KeyRow::name);
  return found == rows.end() ? nullptr : &*found;
}

// Gives an entry as the argument of Megatron that has its name. Of presets, only what takes part in the plan is given:
// they state every argument.
void give_entry(const Entry& entry, bool of_preset, PrimusArguments& out) {
  const KeyRow* own = primus_row(entry.key);
  const bool off = entry.is_null() || entry.value == "false" || entry.value == "False";
  const bool on = entry.value == "true" || entry.value == "True";
  if (own != nullptr && own->key.starts_with("--")) {
    const bool is_flag = own->meaning == flag;
    const bool is_given = is_flag ? own->note == (off ? "false" : lower_case(entry.value)) : !off;
    const bool counts = !of_preset || megatron::find_argument(own->key)->meaning != not_modeled;
    if (!entry.is_null() && is_given && counts)
      out.arguments.push_back(
          {std::string(own->key), is_flag ? std::vector<std::string>() : std::vector{entry.value}, entry.line});
    return;
  }
  // Whichever Transformer Engine takes of them, fused attention is Composable Kernel's or AITER's.
  if (entry.key == "attention_backend" && entry.value != "unfused" && entry.value != "local") return;
  if (own != nullptr) {
    if (own->meaning == not_modeled && !off && !of_preset)
      out.unread.emplace_back(entry.line,
                              fmt::format("{}: not modelled; it can change the cost: {}", entry.key, own->note));
    return;
  }
  const std::string name = megatron::known_name(fmt::format("--{}", entry.key));
  const KeyRow* known = megatron::find_argument(name);
  // A rank's experts run one after another unless this is given, which is noted.
  const bool noted = name == "--moe-grouped-gemm";
  const bool taken = known != nullptr && (noted || (known->meaning != no_cost && known->meaning != not_modeled));
  // Of an argument without a value Python takes 1 as true and 0 as false; one value that is a list is written as such.
  const bool is_flag = known != nullptr && known->meaning == flag;
  if (off || (is_flag && entry.value == "0") || (of_preset && !taken)) return;
  const bool given = on || (is_flag && entry.value == "1");
  std::vector<std::string> values = entry.items;
  if (known != nullptr && known->meaning == value && values.size() > 1)
    values = {fmt::format("[{}]", fmt::join(values, ","))};
  if (!entry.is_list && !given) values = {entry.value};
  if (given || !values.empty()) out.arguments.push_back({name, std::move(values), entry.line});
}

// Gives what sync-free layers of experts turn on (primus/backends/megatron/patches/args/rocm_arg_validation.py
// @037ae1c7, _get_sync_free_moe_options), and DeepEP, whose dispatcher takes the place of the one that is named.
void give_experts(const std::vector<Entry>& entries, PrimusArguments& out) {
  const auto experts = whole_number(entries, "num_experts");
  const bool turbo = is_switched_on(entries, "enable_primus_turbo"),
             deepep = is_switched_on(entries, "use_turbo_deepep");
  const std::int64_t stage = turbo ? whole_number(entries, "turbo_sync_free_moe_stage").value_or(0) : 0;
  const auto line_of = [&entries](std::string_view key) { return find_entry(entries, key)->line; };
  if (stage > 0) {
    const int line = line_of("turbo_sync_free_moe_stage");
    out.arguments.push_back({"--moe-router-fusion", {}, line});
    out.arguments.push_back({"--moe-permute-fusion", {}, line});
    if (stage > 1)
      out.unread.emplace_back(line,
                              "turbo_sync_free_moe_stage: not modelled; it can change the cost: "
                              "buffers hold what ranks may receive at most");
  }
  if (!turbo || !(stage > 1 || deepep) || (experts && *experts < 2)) return;
  const int line = line_of(deepep ? "use_turbo_deepep" : "turbo_sync_free_moe_stage");
  std::erase_if(out.arguments, [](const MegatronArgument& one) { return one.name == "--moe-token-dispatcher-type"; });
  out.arguments.push_back({"--moe-token-dispatcher-type", {"flex"}, line});
  out.arguments.push_back({"--moe-enable-deepep", {}, line});
  const Entry* units = find_entry(entries, "turbo_deepep_num_cu");
  constexpr std::string_view silent = "32";  // primus_turbo.yaml
  out.arguments.push_back({"--moe-deepep-num-sms",
                           {units == nullptr ? std::string(silent) : units->value},
                           units == nullptr ? line : units->line});
}

// Schedules of Primus's own pipeline (primus_pipeline.yaml @1c75f984) and of its copy of zero-bubble's.
void give_schedule(const std::vector<Entry>& entries, PrimusArguments& out) {
  constexpr Texts algorithms[] = {{"zero-bubble", "zb-h1"}, {"zbv-formatted", "zb-v"}, {"zbv-greedy", "zb-v"}};
  std::string kind;
  const Entry* algorithm = find_entry(entries, "pp_algorithm");
  for (const auto& [name, schedule] : algorithms)
    if (is_switched_on(entries, "patch_primus_pipeline") && algorithm != nullptr && algorithm->value == name)
      kind = schedule;
  if (is_switched_on(entries, "patch_zero_bubble"))
    kind = is_switched_on(entries, "zero_bubble_v_schedule") ? "zb-v"
           : is_switched_on(entries, "enable_zero_bubble")   ? "zb-h1"
                                                             : kind;
  if (whole_number(entries, "pipeline_model_parallel_size").value_or(1) < 2) return;
  if (!kind.empty()) out.settings.push_back(fmt::format("schedule.kind=\"{}\"", kind));
  const Entry* split = find_entry(entries, "decoder_pipeline_manual_split_list");
  if (split != nullptr && !split->items.empty())
    out.settings.push_back(fmt::format("schedule.layers_per_stage=[{}]", fmt::join(split->items, ", ")));
}

// Gives as many layers that are computed again as are listed, spread over the stages: which ones they are decides
// nothing here.
void give_recomputation(const std::vector<Entry>& entries, PrimusArguments& out) {
  const Entry* listed = find_entry(entries, "recompute_layer_ids");
  const Entry* granularity = find_entry(entries, "recompute_granularity");
  if (listed == nullptr || granularity == nullptr || granularity->value != "full") return;
  const auto count =
      static_cast<std::int64_t>(listed->is_list ? listed->items.size() : split_at(listed->value, ',').size());
  const std::int64_t ranks =
      std::max<std::int64_t>(1, whole_number(entries, "pipeline_model_parallel_size").value_or(1));
  out.arguments.push_back({"--recompute-method", {"block"}, listed->line});
  out.arguments.push_back({"--recompute-num-layers", {std::to_string(ceil_div(count, ranks))}, listed->line});
  out.unread.emplace_back(listed->line,
                          fmt::format("recompute_layer_ids: {} layers, {} of a rank: the first ones are computed again",
                                      count, ceil_div(count, ranks)));
}

// Reads the experiment of a source for torchtitan, whose keys its entries have.
Result<Configuration> read_titan_experiment(const Source& source) {
  const auto experiment = TRY(read_primus(source.text, source.path, {}));
  if (experiment.framework != kTitan)
    return wrong_input_at(source.path, 0, "", fmt::format("is of {}", experiment.framework));
  Configuration read{.file = source.path, .entries = experiment.entries};
  for (Entry& entry : read.entries) entry.key = with_renames(without_indices(entry.written), source.renames);
  return read;
}

// Keys that Primus adds to torchtitan's (primus/configs/modules/torchtitan/pre_trainer.yaml @04aa8ac4).
constexpr KeyRow titan_keys[] = {
    {"primus_turbo.enable_attention_float8", rule, "precision.attention", "fp8"},
    {"primus_turbo.use_moe_fp8 primus_turbo.use_turbo_grouped_mm", not_modeled, "", "set precision.experts"},
    {"primus_turbo.use_turbo_async_tp", not_modeled, "", "overlap.tensor"},
    {"primus_turbo.* training.mock_data sink_level file_sink_level stderr_sink_level trainable", no_cost, "", ""}};

void titan_rules(const RuleInput& in) {
  static const ConfigurationFormat format = torchtitan();
  constexpr std::int64_t node = 8;  // examples/run_pretrain.sh @0121ab7d: GPUS_PER_NODE, and one of NNODES
  Draft& draft = in.draft;
  if (draft.integer("parallelism.data_parallel_shard_degree").value_or(-1) < 0)
    draft.assume("cluster.gpus", node, "one node, as Primus starts without NNODES; --gpus states others");
  if (!draft.given("cluster.topology"))
    draft.assume("cluster.topology", primus_topology(draft.configuration().file),
                 "the folder of the file, else MI300X; --topology names another one");
  if (draft.flag("primus_turbo.enable_attention_float8").value_or(false))
    draft.set("precision.attention", "fp8", "primus_turbo.enable_attention_float8");
  format.rules(in);
  draft.set("stack.name", "primus-torchtitan-2026", "Primus runs torchtitan on ROCm");
}

std::vector<Entry> preset_entries(std::span<const Texts> values, int line) {
  std::vector<Entry> entries;
  for (const auto& [key, value] : values)
    entries.push_back({std::string(key), std::string(key), std::string(value), {}, line});
  return entries;
}

// What an experiment names: entries of the file.
struct Named {
  const Entry *framework, *model, *module;

  int module_line() const { return (module == nullptr ? framework : module)->line; }
};

// Returns the experiment with the names of its framework and its model.
Result<PrimusExperiment> named_experiment(const Named& named, const std::string& path) {
  if (named.framework == nullptr || named.model == nullptr)
    return wrong_input_at(path, 0, "modules.pre_trainer", "has no framework and model, as experiments of Primus do",
                          "modules.pre_trainer and modules.post_trainer are read");
  PrimusExperiment out;
  const std::string& framework = named.framework->value;
  out.framework = framework == "light-megatron" ? std::string(kMegatron) : framework;
  if (out.framework != kMegatron && out.framework != kTitan)
    return wrong_input_at(path, named.framework->line, named.framework->written,
                          fmt::format("'{}' is not read", framework), "known: megatron, torchtitan");
  out.model = named.model->value.substr(0, named.model->value.rfind(".yaml"));
  const std::string plain =
      lower_case(out.model.substr(0, out.model.size() - (out.model.ends_with(kQuantized) ? kQuantized.size() : 0)));
  for (const ShippedModel& one : shipped_models)
    for (const std::string_view preset : split_at(one.presets, ' '))
      if (preset == plain && !plain.empty()) out.shipped = one.name;
  return out;
}

// Returns what every preset of the framework's models has, and of torchtitan's the model's name.
std::vector<Entry> silent_model(const PrimusExperiment& experiment, int line) {
  if (experiment.framework == kMegatron) return preset_entries(model_defaults, line);
  const auto flavor = titan_flavor(experiment.shipped);
  if (!flavor) return {};
  const Texts names[] = {{"model.name", flavor->first}, {"model.flavor", flavor->second}};
  std::vector<Entry> entries = preset_entries(names, line);
  if (experiment.model.ends_with(kQuantized))
    entries.push_back({"model.converters", "model.converters", "", {"quantize.linear.float8"}, line, true});
  return entries;
}

// Takes the overrides out of the entries of a file, under their own names.
std::vector<Entry> take_overrides(std::vector<Entry>& all) {
  const std::string section = fmt::format("{}overrides.", kTrainer);
  std::vector<Entry> own;
  for (Entry& entry : all) {
    if (!entry.written.starts_with(section)) continue;
    entry.written.erase(0, section.size());
    entry.key = without_indices(entry.written);
    own.push_back(std::move(entry));
  }
  return own;
}

}  // namespace

Result<PrimusExperiment> read_primus(std::string_view text, const std::string& path,
                                     const megatron::Definitions& environment) {
  std::vector<std::string> defaults, of_presets;
  std::error_code ignored;
  const fs::path file = fs::absolute(path, ignored).lexically_normal();
  auto all = TRY(PresetReader(environment, defaults).text(text, path, 0));
  // Post-training on Megatron-LM is a training of all weights with the same arguments.
  constexpr std::string_view post = "modules.post_trainer.";
  if (find_entry(all, fmt::format("{}framework", kTrainer)) == nullptr)
    for (Entry& entry : all)
      if (entry.written.starts_with(post)) {
        entry.written.replace(0, post.size(), kTrainer);
        entry.key = without_indices(entry.written);
      }
  const auto setting = [&all](std::string_view name) { return find_entry(all, fmt::format("{}{}", kTrainer, name)); };
  const Named named{setting("framework"), setting("model"), setting("config")};
  PrimusExperiment out = TRY(named_experiment(named, path));
  out.defaults = std::move(defaults);
  PresetReader presets(environment, of_presets);
  const auto read_preset = [&presets](const fs::path& preset, int line) -> Result<std::vector<Entry>> {
    auto entries = TRY(presets.file(preset, 1));
    for (Entry& entry : entries) entry.line = line;
    return entries;
  };
  const fs::path module =
      named.module == nullptr ? fs::path() : preset_file(file, "modules", out.framework, named.module->value);
  const std::span<const Texts> silent =
      out.framework == kMegatron ? std::span<const Texts>(module_defaults) : std::span<const Texts>(titan_defaults);
  out.entries =
      module.empty() ? preset_entries(silent, named.module_line()) : TRY(read_preset(module, named.module_line()));
  const fs::path model = preset_file(file, "models", out.framework, named.model->value);
  out.has_model = !model.empty();
  PresetReader::merge(out.has_model ? TRY(read_preset(model, named.model->line)) : silent_model(out, named.model->line),
                      out.entries);
  std::vector<Entry> own = take_overrides(all);
  out.overrides = own.size();
  PresetReader::merge(std::move(own), out.entries);
  return out;
}

PrimusArguments megatron_arguments(const PrimusExperiment& experiment) {
  PrimusArguments out;
  const std::size_t presets = experiment.entries.size() - experiment.overrides;
  for (std::size_t i = 0; i < experiment.entries.size(); ++i) give_entry(experiment.entries[i], i < presets, out);
  give_experts(experiment.entries, out);
  give_schedule(experiment.entries, out);
  give_recomputation(experiment.entries, out);
  if (is_switched_on(experiment.entries, "enable_primus_turbo") &&
      is_switched_on(experiment.entries, "enable_turbo_attention_float8"))
    out.settings.emplace_back("precision.attention=\"fp8\"");
  std::ranges::stable_sort(out.arguments, {}, &MegatronArgument::line);
  return out;
}

std::string primus_topology(const std::string& path) {
  std::error_code ignored;
  for (const fs::path& part : fs::absolute(path, ignored).lexically_normal())
    for (const std::string_view name : {"mi300x", "mi325x", "mi350x", "mi355x"})
      if (lower_case(part.string()) == name) return std::string(name);
  return "mi300x";
}

ConfigurationFormat primus() {
  ConfigurationFormat format = torchtitan();
  const std::vector<KeyRow> more = megatron::table_of(titan_keys);
  format.name = "primus";
  format.program = "Primus";
  format.read = &read_titan_experiment;
  format.keys.insert(format.keys.end(), more.begin(), more.end());
  format.rules = &titan_rules;
  return format;
}

}  // namespace plumbline::model::configurations
