// The model of a NeMo recipe: a class of NeMo, or the fields of Megatron-Core's TransformerConfig.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "model/base/integers.h"
#include "model/configurations/detail/shared.h"
#include "model/megatron/hybrid.h"
#include "model/megatron/model_shape.h"

namespace plumbline::model::configurations {
namespace {

// A class of NeMo 2, and its model; those of Megatron-Bridge are called Llama3ModelProvider8B.
struct ConfigClass {
  std::string_view name;
  const ShippedModel* model;
};

// Returns "llama38b" of Llama3Config8B and Llama3ModelProvider8B.
std::string plain_name(std::string_view name) {
  std::string plain = lower_case(name);
  std::erase(plain, '_');
  for (const std::string_view word : {"modelprovider", "provider", "config"})
    if (const std::size_t at = plain.find(word); at != std::string::npos) plain.erase(at, word.size());
  return plain;
}

// Returns the class, or that of a recipe such as llama3_8b_pretrain_config(), by the longest name with which it begins.
std::optional<ConfigClass> class_of(std::string_view target) {
  std::optional<ConfigClass> best;
  std::size_t length = 0;
  const std::string name = plain_name(target.substr(target.rfind('.') + 1));
  for (const ShippedModel& model : shipped_models) {
    for (const std::string_view one : split_at(model.classes, ' ')) {
      const std::string plain = plain_name(one);
      if (!name.starts_with(plain) || plain.size() <= length) continue;
      // A size behind the name is that of another model: nemotron_3_nano_4b.
      const std::size_t end = std::min(name.find_first_not_of("0123456789", plain.size()), name.size());
      if (end > plain.size() && name.substr(end, 1) == "b") continue;
      best = {one, &model};
      length = plain.size();
    }
  }
  return best;
}

// Keys of a config.json that a recipe changes of its class.
constexpr std::pair<std::string_view, std::string_view> config_keys_of_shape[] = {
    {"shape.layers", "num_hidden_layers"},  {"shape.hidden_size", "hidden_size"},
    {"shape.heads", "num_attention_heads"}, {"shape.query_groups", "num_key_value_heads"},
    {"shape.vocabulary", "vocab_size"},     {"shape.ffn_hidden_size", "intermediate_size"}};

void use_shipped(const RuleInput& in, NamedModel named) {
  const std::string name = named.shipped;
  named.layers = in.draft.integer("model.num_layers").value_or(named.layers);
  in.use_model(std::move(named));
  for (const Entry& entry : in.draft.configuration().entries) {
    const KeyRow* row = nemo_row(entry.key);
    if (row == nullptr || !row->key.starts_with("shape.") || row->meaning == Meaning::rule || !in.draft.text(entry.key))
      continue;
    const auto* key =
        std::ranges::find(config_keys_of_shape, row->key, &std::pair<std::string_view, std::string_view>::first);
    const auto number = key == std::end(config_keys_of_shape) ? std::nullopt : in.draft.integer(entry.key);
    if (number)
      in.draft.set(fmt::format("model.{}", key->second), *number, entry.key);
    else
      in.draft.not_modeled(entry.key, fmt::format("the model is that of {}", name));
  }
}

template <class Field>
void set_shape(Draft& draft, std::string_view key, Field& field) {
  if constexpr (requires { field.has_value(); }) {
    if (draft.text(key)) set_shape(draft, key, field.emplace());
  } else if constexpr (std::is_same_v<Field, bool>) {
    field = draft.flag(key).value_or(field);
  } else if constexpr (std::is_same_v<Field, std::int64_t>) {
    field = draft.integer(key).value_or(field);
  } else if constexpr (std::is_same_v<Field, double>) {
    field = draft.number(key).value_or(field);
  } else {
    const auto items = draft.list(key);
    field = draft.text(key).value_or(items.empty() ? field : fmt::format("[{}]", fmt::join(items, ",")));
  }
}

// Sets the vocabulary as Megatron pads it.
void pad_vocabulary(Draft& draft, megatron::ModelShape& shape) {
  if (!shape.vocabulary) shape.vocabulary = draft.value("model.vocab_size");
  if (!shape.vocabulary && draft.text("model.tokenizer.type") == "GPT2BPETokenizer") {
    shape.vocabulary = 50257;
    draft.note(Note::Kind::assumed, "model.tokenizer.type", "assumed: a vocabulary of 50257: GPT2BPETokenizer");
  }
  const std::int64_t multiple =
      bounded_product({draft.integer("model.make_vocab_size_divisible_by").value_or(128), draft.degree("tensor")});
  if (shape.vocabulary && *shape.vocabulary > 0 && multiple > 0)
    shape.vocabulary = bounded_product({(*shape.vocabulary - 1) / multiple + 1, multiple});
}

// Sets the layers of a hybrid model's pattern, which has the older name in recipes of 2025.
void take_pattern(Draft& draft, megatron::ModelShape& shape) {
  for (const char* key : {"model.hybrid_layer_pattern", "model.hybrid_override_pattern"}) {
    const auto text = draft.text(key);
    if (!text) continue;
    const auto pattern = megatron::parse_hybrid_pattern(*text);
    if (!pattern) return draft.fail(key, fmt::format("'{}' is no pattern of layers", *text), "M, G, *, +, D, - and E");
    if (const auto taken = megatron::take_hybrid_layers(*pattern, shape); !taken)
      return draft.fail(key, taken.error().message, "--model names a model");
    if (pattern->predictions > 0 && !shape.prediction_layers)
      draft.not_modeled(key, fmt::format("prediction modules '{}' are left out", pattern->prediction));
    return;
  }
}

}  // namespace

void read_nemo_model(const RuleInput& in) {
  Draft& draft = in.draft;
  if (draft.given("model.config")) return;
  std::optional<ConfigClass> named;
  for (const char* key : {"config_class", "model._target_"})
    if (const auto target = draft.text(key); target && !named) named = class_of(*target);
  for (const Entry& entry : draft.configuration().entries)
    if (!named && entry.key.ends_with("()")) named = class_of(entry.key);
  const bool described = draft.text("model.num_layers") && draft.text("model.hidden_size");  // in a dump, whole
  if (named && !described) return use_shipped(in, {std::string(named->model->name), "", named->model->layers});
  if (const std::string_view key = "hf_model"; draft.text(key) && !described) {
    if (auto model = named_model(in, key)) return use_shipped(in, std::move(*model));
    return draft.fail(key, fmt::format("no shipped model has the name '{}'", *draft.text(key)),
                      "--model names one, or a config.json");
  }
  if (!draft.text("model.num_layers") && !draft.text("model.hidden_size")) return;  // named with what else is missing
  megatron::ModelShape shape;
  for (const Entry& entry : draft.configuration().entries)
    if (const KeyRow* row = nemo_row(entry.key); row != nullptr && row->meaning != Meaning::rule)
      megatron::visit_shape(shape, [&](std::string_view name, auto& field) {
        if (name == row->key) set_shape(draft, entry.key, field);
      });
  // Bridge's HybridModelProvider has other defaults than Megatron (models/hybrid/hybrid_provider.py).
  const bool hybrid = draft.text("model.hybrid_layer_pattern") || draft.text("model.hybrid_override_pattern");
  if (hybrid && !draft.text("model.position_embedding_type")) shape.position = "none";
  if (const Entry* activation = draft.configuration().find("model.activation_func"))
    shape.squared_relu = activation->value.ends_with("squared_relu");
  shape.grouped_query = draft.text("model.num_query_groups").has_value();
  std::string norm = draft.text("model.normalization").value_or(hybrid ? "RMSNorm" : "LayerNorm");
  shape.normalization = norm.starts_with("rms") || norm.starts_with("RMS") ? "RMSNorm" : "LayerNorm";
  if (const auto activation = draft.text("model.activation")) shape.gated = activation->ends_with("swiglu");
  shape.untied = !draft.flag("model.share_embeddings_and_output_weights").value_or(!hybrid);
  shape.no_linear_bias = !draft.flag("model.add_bias_linear").value_or(draft.flag("model.bias").value_or(!hybrid));
  take_pattern(draft, shape);
  pad_vocabulary(draft, shape);
  for (const auto& [key, number] : {std::pair{"model.num_layers", shape.layers},
                                    {"model.hidden_size", shape.hidden_size},
                                    {"model.num_attention_heads", shape.heads},
                                    {"model.vocab_size", shape.vocabulary.value_or(0)}})
    if (number < 1 || number > 1'000'000'000)
      return draft.fail(key, "is missing or out of range",
                        "--model names a model, --set model.vocab_size=N the vocabulary");
  const auto config = megatron::config_of(shape);
  if (!config) return draft.fail(config.error());
  for (const std::string& note : config->notes) draft.note(Note::Kind::assumed, "", note);
  in.use_model({"", config->json, shape.layers});
}

}  // namespace plumbline::model::configurations
