// Recipes of NeMo 2 and Megatron-Bridge as YAML and of Bridge as Python, and megatron_gpt_config.yaml of NeMo 1. Fields
// that have the name of an argument of Megatron are read as that; the table has the others.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/text.h"
#include "model/configurations/detail/shared.h"

namespace plumbline::model::configurations {
namespace {

using enum Meaning;

constexpr KeyRow nemo_rows[] = {
#include "model/configurations/detail/keys/nemo.def"
};

// Returns the module that a file of Python imports a function from; those of which it imports all where it names none.
std::string module_of(std::string_view text, std::string_view function) {
  std::string all, module;
  bool open = false;  // names in parentheses go on in the next line
  for (std::string_view names : lines_of(text)) {
    names = trimmed(names);
    if (!open) {
      const std::size_t import = names.find(" import ");
      if (!names.starts_with("from ") || import == std::string_view::npos) continue;
      module = trimmed(names.substr(5, import - 5));
      names = trimmed(names.substr(import + 8));
    }
    open = (open || names.starts_with('(')) && names.find(')') == std::string_view::npos;
    if (names.find(function) != std::string_view::npos) return module;
    if (names == "*") all += (all.empty() ? "" : " or ") + module;
  }
  return all.empty() ? "another file" : all;
}

// A recipe of another file has degrees that this one may leave to it.
void require_degrees_of_base(Draft& draft) {
  for (const Entry& entry : draft.configuration().entries) {
    if (!entry.key.ends_with("_config()") || entry.key.find('.') != std::string::npos) continue;
    std::string open;
    for (const std::string_view part : {"moe", "_a3b", "_a22b", "deepseek", "kimi", "gpt_oss", "mixtral", "glm",
                                        "moonlight", "minimax", "nemotron_3"})
      if (open.empty() && entry.key.find(part) != std::string::npos && !draft.given("parallelism.expert"))
        open = "parallelism.expert";
    for (const std::string degree : {"parallelism.context", "parallelism.pipeline", "parallelism.tensor"})
      if (!draft.given(degree)) open = degree;
    if (!open.empty())
      draft.fail(entry.key,
                 fmt::format("sets {}, which this file leaves to it, and is defined in {}, which is not read", open,
                             entry.value),
                 fmt::format("--set {}=N states what it sets", open));
  }
}

// Names the model of Bridge's AutoBridge.from_hf_pretrained("NAME").to_megatron_provider(), which has no other words.
void name_hf_model(Entry& entry) {
  constexpr std::string_view call = "AutoBridge.from_hf_pretrained(";
  const std::size_t begin = entry.value.find(call);
  if (begin == std::string::npos) return;
  const std::size_t quote = begin + call.size();
  if (quote >= entry.value.size() || (entry.value[quote] != '"' && entry.value[quote] != '\'')) return;
  const std::size_t end = entry.value.find(entry.value[quote], quote + 1);
  if (end == std::string::npos) return;
  entry.key = "hf_model";
  entry.value = entry.value.substr(quote + 1, end - quote - 1);
  entry.unread = false;
}

// Does what a recipe's call of apply_flex_dispatcher_backend() does on the GPUs that it is for (Bridge
// training/flex_dispatcher_backend.py @183c5c02).
void apply_flex_dispatcher(Configuration& read) {
  const auto call = std::ranges::find_if(
      read.entries, [](const Entry& one) { return one.value.starts_with("apply_flex_dispatcher_backend("); });
  if (call == read.entries.end()) return;
  const std::string key = "model.moe_flex_dispatcher_backend";
  const Entry* stated = read.find(key);
  std::string backend = stated == nullptr ? "" : stated->value;
  for (const char* name : {"deepep", "hybridep"})
    if (call->value.find(name) != std::string::npos) backend = name;
  if (backend != "deepep" && backend != "hybridep") return;
  const int line = call->line;
  read.entries.erase(call);
  const std::pair<std::string, std::string> applied[] = {
      {key, backend}, {"model.moe_token_dispatcher_type", "flex"}, {"model.moe_shared_expert_overlap", "false"}};
  for (const auto& [name, value] : applied) {
    std::erase_if(read.entries, [&name](const Entry& one) { return one.key == name; });
    read.entries.push_back({name, name, value, {}, line});
  }
}

Result<Configuration> read_nemo(const Source& source) {
  auto read = TRY(is_python(source.text) ? read_bridge(source) : read_yaml(source));
  resolve_references(read.entries);
  apply_flex_dispatcher(read);
  for (Entry& entry : read.entries) {
    if (entry.value == "???") entry.value.clear();
    if (entry.key == "model" && entry.unread) name_hf_model(entry);
    // A type of PyTorch is a word in YAML, and a name that Python is not run for.
    if (entry.value.starts_with("torch.") && entry.value.find_first_of("([ ") == std::string::npos)
      entry.unread = false;
    if (entry.key.ends_with("_config()"))
      entry.value = module_of(source.text, std::string_view(entry.key).substr(0, entry.key.size() - 2));
    if (entry.key == "mixed_precision" && !entry.items.empty()) entry.value = entry.items.front();  // of a function
  }
  return read;
}

// Takes the cluster of the GPU that a recipe's name goes on with: h100_bf16_config.
void assume_cluster(Draft& draft, std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> clusters[] = {
      {"h100", "h100-dgx"},     {"h200", "h200-hgx"},     {"b200", "b200-hgx"}, {"b300", "b300-hgx"},
      {"gb200", "gb200-nvl72"}, {"gb300", "gb300-nvl72"}, {"vr200", ""},        {"r100", ""}};
  const std::string_view gpu = name.substr(0, name.find('_'));
  const auto* found = std::ranges::find(clusters, gpu, &std::pair<std::string_view, std::string_view>::first);
  if (found == std::end(clusters) || draft.given("cluster.topology")) return;
  if (found->second.empty())
    return draft.fail("def", fmt::format("is for the GPU {}, of which no cluster is known here", gpu),
                      "--topology names one of another GPU, or a file");
  draft.assume("cluster.topology", found->second, "the recipe's name has its GPU");
}

void read_nemo_degrees(const RuleInput& in) {
  Draft& draft = in.draft;
  const auto nodes = draft.integer("trainer.num_nodes").value_or(1);
  const std::int64_t devices = draft.integer("trainer.devices").value_or(0);  // -1: all that there are
  if (devices > 0) draft.set("cluster.gpus", nodes * devices, "trainer.devices x trainer.num_nodes");
  const std::string recipe = draft.text("def").value_or("");
  if (const std::size_t end = recipe.find("gpu_"); end != std::string::npos && end > 0) {
    const std::size_t begin = recipe.find_last_not_of("0123456789", end - 1) + 1;
    if (const auto gpus = parse_number<std::int64_t>(std::string_view(recipe).substr(begin, end - begin)))
      draft.set("cluster.gpus", *gpus, "def");
    assume_cluster(draft, std::string_view(recipe).substr(end + std::string_view("gpu_").size()));
  }
  if (draft.degree("tensor") > 1 && draft.flag("model.sequence_parallel").value_or(false))
    draft.set("parallelism.sequence", true, "model.sequence_parallel");
}

void nemo_rules(const RuleInput& in) {
  Draft& draft = in.draft;
  constexpr std::string_view of_automodel = "step_scheduler.local_batch_size";
  if (draft.configuration().find(of_automodel) != nullptr)
    return draft.fail(of_automodel, "is a key of NeMo AutoModel", "import automodel reads it");
  for (const Entry& entry : draft.configuration().entries) {
    const bool adapts = entry.key == "peft" || entry.key.starts_with("peft.") || entry.key.ends_with("peft_scheme");
    if (adapts && !(entry.value.empty() && entry.items.empty()) &&
        refuse_adapter(draft, entry.key, entry.value.empty() ? "an adapter" : entry.value))
      return;
  }
  for (const Entry& entry : draft.configuration().entries)  // recipes of Python that begin as Bridge's for adapters
    if ((entry.key.ends_with("_peft_config()") || entry.key.ends_with("_peft_common()")) &&
        refuse_adapter(draft, entry.key, "an adapter"))
      return;
  if (const auto length = draft.integer("model.seq_length"); length && !draft.given("batch.sequence_length"))
    draft.set("batch.sequence_length", *length, "model.seq_length");
  read_nemo_model(in);
  read_nemo_degrees(in);
  require_degrees_of_base(draft);
  read_nemo_training(in);
}

}  // namespace

const KeyRow* nemo_row(std::string_view key) {
  static const ConfigurationFormat format = nemo();
  return format.row(key);
}

ConfigurationFormat nemo() {
  return {"nemo",
          "NeMo",
          &read_nemo,
          {{"model.config._target_", "config_class"},
           {"model.config.", "model."},
           {"model_config.", "model."},
           {"trainer.strategy.ddp.", "ddp."},
           {"trainer.strategy.", "model."},
           {"trainer.plugins.", "precision."},
           {"ddp_config.", "ddp."},
           {"train_config.", "train."},
           {"data.", "train."},
           {"dataset.sequence_length", "train.seq_length"},
           {"dataset.", "train."},
           {"dataset_config.", "train."},
           {"optim.config.", "optimizer."},
           {"optimizer_config.", "optimizer."},
           {"comm_overlap_config.", "comm_overlap."},
           {"mixed_precision.", "precision."}},
          table_of(nemo_rows),
          &nemo_rules,
          &megatron_row};
}

}  // namespace plumbline::model::configurations
