#include "model/architecture/config_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "model/base/text_file.h"

namespace plumbline::model {
namespace {

using nlohmann::json;

// The limit is far above published dimensions; products of three dimensions below it fit 64 bits.
constexpr std::int64_t largest_dimension = 1'000'000;
constexpr std::int64_t most_positions = 1'000'000'000;
constexpr std::int64_t most_layers = 1'000;  // a step's program numbers the segments of a stage with 16 bits

// Returns the line of a key. The JSON library keeps no positions, so the key is searched in the text, in quotes before
// a colon; of a dotted key the last part.
int line_of_key(const std::string& text, std::string_view key) {
  const std::string quoted = fmt::format("\"{}\"", key.substr(key.rfind('.') + 1));
  for (std::size_t at = text.find(quoted); at != std::string::npos; at = text.find(quoted, at + 1)) {
    const std::size_t next = text.find_first_not_of(" \t\r\n", at + quoted.size());
    if (next != std::string::npos && text[next] == ':') return line_of_offset(text, at);
  }
  return 0;
}

// Returns a short rendering of a value for an error message, valid for any bytes in the file.
std::string shown(const json& value) {
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() <= 40 ? text : text.substr(0, 37) + "...";
}

}  // namespace

struct ConfigReader::Contents {
  std::string path;
  std::string text;
  json object = json::object();
  ConfigOverrides overrides;
  std::vector<std::string> asked;
  std::optional<Error> error;

  static const json* lookup(const json& where, std::string_view key) {
    const auto found = where.find(std::string(key));
    if (found != where.end() && !found->is_null()) return &*found;
    const std::size_t dot = key.find('.');
    const json* inner = dot == std::string_view::npos ? nullptr : lookup(where, key.substr(0, dot));
    return inner == nullptr || !inner->is_object() ? nullptr : lookup(*inner, key.substr(dot + 1));
  }

  std::vector<std::string> unread() const {
    std::vector<std::string> names;
    for (const auto& [name, value] : object.items())
      if (std::ranges::find(asked, name) == asked.end()) names.push_back(name);
    return names;
  }

  // Suggests a key of the file that no reader uses, which may be a misspelling of this one.
  std::string hint_for_missing(std::string_view key) const {
    const std::string nearest = nearest_name(key, unread());
    return nearest.empty() ? "add it as Hugging Face names it" : fmt::format("is '{}' meant to be it?", nearest);
  }

  // Returns nullptr when the key is missing or null.
  const json* find(std::string_view key) {
    if (std::ranges::find(asked, key) == asked.end()) asked.emplace_back(key);
    return lookup(object, key);
  }
};

ConfigReader::ConfigReader(std::unique_ptr<Contents> contents) : contents_(std::move(contents)) {}
ConfigReader::~ConfigReader() = default;
ConfigReader::ConfigReader(ConfigReader&&) noexcept = default;
ConfigReader& ConfigReader::operator=(ConfigReader&&) noexcept = default;

Result<ConfigReader> ConfigReader::open(const std::string& path, const ConfigOverrides& overrides) {
  return parse(TRY(read_text_file(path)), path, overrides);
}

Result<ConfigReader> ConfigReader::parse(std::string text, const std::string& path, const ConfigOverrides& overrides) {
  TRY(check_nesting(text, path));
  auto contents = std::make_unique<Contents>();
  contents->path = path;
  contents->text = std::move(text);
  Error error;
  error.file = path;
  error.hint = "a model is described by a Hugging Face config.json";
  try {
    contents->object = json::parse(contents->text);
  } catch (const json::exception& failure) {
    const auto* syntax = dynamic_cast<const json::parse_error*>(&failure);
    const std::size_t byte = syntax != nullptr && syntax->byte > 0 ? syntax->byte - 1 : 0;
    error.line = line_of_offset(contents->text, byte);
    error.message = "not valid JSON";
    return tl::unexpected(error);
  }
  if (!contents->object.is_object()) {
    error.line = 1;
    error.message = "expected a JSON object";
    return tl::unexpected(error);
  }
  for (const auto& [key, value] : overrides) {
    json& entry = contents->object[key];
    std::visit([&entry](const auto& alternative) { entry = alternative; }, value);
  }
  contents->overrides = overrides;
  return ConfigReader(std::move(contents));
}

ConfigReader ConfigReader::empty() { return ConfigReader(std::make_unique<Contents>()); }

std::int64_t ConfigReader::integer(std::string_view key, std::int64_t minimum, std::int64_t maximum,
                                   std::optional<std::int64_t> missing) {
  const json* value = contents_->find(key);
  if (value == nullptr) {
    if (!missing) fail(key, "required dimension is missing", contents_->hint_for_missing(key));
    return missing.value_or(minimum);
  }
  const std::string wanted = fmt::format("expected an integer from {} to {}", minimum, maximum);
  // The value is compared as a double first, because JSON integers may exceed 64 bits.
  const bool fits = value->is_number_integer() && value->get<double>() >= static_cast<double>(minimum) &&
                    value->get<double>() <= static_cast<double>(maximum);
  if (!fits) {
    fail(key, fmt::format("{}, found {}", wanted, shown(*value)), "");
    return minimum;
  }
  return value->get<std::int64_t>();
}

std::int64_t ConfigReader::dimension(std::string_view key) { return integer(key, 1, largest_dimension, std::nullopt); }
std::int64_t ConfigReader::dimension(std::string_view key, std::int64_t missing) {
  return integer(key, 1, largest_dimension, missing);
}
std::int64_t ConfigReader::layers(std::string_view key) { return integer(key, 1, most_layers, std::nullopt); }
std::int64_t ConfigReader::layers(std::string_view key, std::int64_t missing) {
  const std::int64_t found = integer(key, 0, most_layers, missing);
  if (found > most_layers) fail(key, fmt::format("{} layers are more than {}", found, most_layers), "");
  return std::min(found, most_layers);
}
std::int64_t ConfigReader::count(std::string_view key, std::int64_t missing) {
  return integer(key, 0, largest_dimension, missing);
}
std::int64_t ConfigReader::positions(std::string_view key) { return integer(key, 0, most_positions, 0); }

double ConfigReader::number(std::string_view key, double missing) {
  const json* value = contents_->find(key);
  if (value == nullptr) return missing;
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    fail(key, fmt::format("expected a number, found {}", shown(*value)), "");
    return missing;
  }
  return value->get<double>();
}

double ConfigReader::probability(std::string_view key, double missing) {
  const double value = number(key, missing);
  if (value >= 0 && value < 1) return value;
  fail(key, fmt::format("expected a probability from 0 to below 1, found {}", value), "0 switches it off");
  return missing;
}

std::vector<std::int64_t> ConfigReader::counts(std::string_view key) {
  const json* value = contents_->find(key);
  if (value == nullptr) return {};
  std::vector<std::int64_t> result;
  const auto is_count = [](const json& entry) {
    return entry.is_number_integer() && entry.get<double>() >= 0 && entry.get<double>() <= largest_dimension;
  };
  if (!value->is_array() || !std::ranges::all_of(*value, is_count)) {
    fail(key, fmt::format("expected a list of integers from 0 to {}, found {}", largest_dimension, shown(*value)), "");
    return {};
  }
  for (const json& entry : *value) result.push_back(entry.get<std::int64_t>());
  return result;
}

std::int64_t ConfigReader::common_count(std::string_view key, std::int64_t missing) {
  const json* value = contents_->find(key);
  if (value == nullptr || !value->is_array()) return count(key, missing);
  const std::vector<std::int64_t> each = counts(key);
  if (each.empty()) return missing;
  if (std::ranges::any_of(each, [&](std::int64_t one) { return one != each.front(); }))
    fail(key, "layers differ", "only models with one number for all layers are predicted");
  return each.front();
}

std::vector<std::string> ConfigReader::texts(std::string_view key) {
  const json* value = contents_->find(key);
  if (value == nullptr) return {};
  const auto is_repeated = [](const json& entry) {
    return entry.is_array() && entry.size() == 2 && entry[0].is_array() && entry[1].is_number_unsigned() &&
           entry[1].get<std::uint64_t>() <= std::uint64_t{most_layers};
  };
  json names = json::array();
  if (value->is_array() && std::ranges::all_of(*value, is_repeated)) {
    for (const json& entry : *value)
      for (std::int64_t times = entry[1].get<std::int64_t>(); times > 0; --times)
        names.insert(names.end(), entry[0].begin(), entry[0].end());
  } else {
    names = *value;
  }
  if (!names.is_array() || !std::ranges::all_of(names, [](const json& name) { return name.is_string(); })) {
    fail(key, fmt::format("expected a list of strings, found {}", shown(*value)), "");
    return {};
  }
  return names.get<std::vector<std::string>>();
}

bool ConfigReader::flag(std::string_view key, bool missing) {
  const json* value = contents_->find(key);
  if (value == nullptr) return missing;
  if (!value->is_boolean()) {
    fail(key, fmt::format("expected true or false, found {}", shown(*value)), "");
    return missing;
  }
  return value->get<bool>();
}

std::string ConfigReader::text(std::string_view key, std::string_view missing) {
  const json* value = contents_->find(key);
  if (value == nullptr) return std::string(missing);
  if (!value->is_string()) {
    fail(key, fmt::format("expected a string, found {}", shown(*value)), "");
    return std::string(missing);
  }
  return value->get<std::string>();
}

bool ConfigReader::is_null(std::string_view key) const {
  const std::size_t dot = key.rfind('.');
  const json* outer =
      dot == std::string_view::npos ? &contents_->object : Contents::lookup(contents_->object, key.substr(0, dot));
  if (outer == nullptr || !outer->is_object()) return false;
  const auto found = outer->find(std::string(key.substr(dot + 1)));  // npos + 1 is 0
  return found != outer->end() && found->is_null();
}

bool ConfigReader::is_text(std::string_view key, std::string_view text) {
  const json* value = contents_->find(key);
  return value != nullptr && value->is_string() && value->get<std::string>() == text;
}

bool ConfigReader::is_list(std::string_view key) {
  const json* value = contents_->find(key);
  return value != nullptr && value->is_array();
}

void ConfigReader::fail(std::string_view key, std::string message, std::string hint) {
  if (contents_->error) return;
  Error error;
  error.file = contents_->path;
  error.line = line_of_key(contents_->text, key);
  error.key = std::string(key);
  error.message = std::move(message);
  error.hint = std::move(hint);
  contents_->error = std::move(error);
}

void ConfigReader::conflict(std::string_view key, std::string message, std::string hint) {
  const bool first = !contents_->error;
  fail(key, std::move(message), std::move(hint));
  if (first && !contents_->overrides.empty()) contents_->error->kind = ErrorKind::infeasible;
}

void ConfigReader::read_inside(std::string_view object, const ModelSizes& missing) {
  const json* inner = Contents::lookup(contents_->object, object);
  if (inner == nullptr || !inner->is_object()) return;
  const json copy = *inner;
  for (const auto& [key, value] : copy.items())
    if (!contents_->overrides.contains(key)) contents_->object[key] = value;
  for (const auto& [key, size] : {std::pair{"num_hidden_layers", missing.layers},
                                  {"hidden_size", missing.hidden},
                                  {"num_attention_heads", missing.heads},
                                  {"intermediate_size", missing.intermediate},
                                  {"vocab_size", missing.vocabulary}})
    if (size > 0 && Contents::lookup(contents_->object, key) == nullptr) contents_->object[key] = size;
}

const std::vector<std::string>& ConfigReader::asked() const { return contents_->asked; }
std::vector<std::string> ConfigReader::unread() const { return contents_->unread(); }

const std::optional<Error>& ConfigReader::error() const { return contents_->error; }

}  // namespace plumbline::model
