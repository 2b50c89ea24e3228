#include "model/configurations/draft.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "model/plan/alternative.h"

namespace plumbline::model::configurations {
namespace {

struct Required {
  std::string_view key, what, option;
};
constexpr Required required_keys[] = {
    {"model.config", "the model", "--model NAME"},
    {"cluster.gpus", "the number of GPUs", "--gpus N"},
    {"batch.sequence_length", "the sequence length", "--set batch.sequence_length=N"},
    {"batch.micro_batch_size", "the micro-batch", "--set batch.micro_batch_size=N"},
    {"batch.global_batch_size", "the global batch", "--set batch.global_batch_size=N"},
};

constexpr std::string_view kAnyPlan =
    "[model]\nconfig = \"any\"\n[cluster]\ntopology = \"any\"\ngpus = 1\n"
    "[batch]\nsequence_length = 1\nmicro_batch_size = 1\nglobal_batch_size = 1\n";

}  // namespace

Draft::Draft(const Configuration& configuration, std::string_view program, const std::vector<std::string>& overrides)
    : configuration_(configuration), program_(program), overrides_(overrides) {
  for (const std::string& text : overrides) {
    // The plan's reader gives the key of a word such as parallelism.tp. What it refuses, it refuses at the end again.
    const auto alone = read_plan(kAnyPlan, "", {text});
    const auto values = alone ? plan_values(*alone) : std::map<std::string, std::string, std::less<>>();
    for (const auto& [key, place] : alone ? alone->places : Plan().places)
      if (place.file == "--set") settings_[key] = {values.contains(key) ? values.at(key) : "", "--set", 0, true};
    const std::size_t equals = text.find('=');
    if (!alone && equals != std::string::npos)
      settings_[text.substr(0, equals)] = {text.substr(equals + 1), "--set", 0, true};
  }
}

std::optional<std::string> Draft::text(std::string_view key) const {
  const Entry* entry = configuration_.find(key);
  if (entry == nullptr || entry->is_list || entry->unread || entry->value.empty() || entry->value == "auto")
    return std::nullopt;
  return entry->value;
}

std::optional<double> Draft::number(std::string_view key) {
  const auto written = text(key);
  if (!written) return std::nullopt;
  const auto parsed = parse_number<double>(*written);
  if (!parsed || !std::isfinite(*parsed)) fail(key, fmt::format("'{}' is no number", *written));
  return parsed;
}

std::optional<std::int64_t> Draft::integer(std::string_view key) {
  const auto parsed = number(key);
  constexpr double largest = 1e9;  // products of two are numbers, too
  if (!parsed) return std::nullopt;
  if (std::abs(*parsed) > largest || *parsed != std::floor(*parsed)) {
    fail(key, fmt::format("'{}' is no whole number in range", *text(key)));
    return std::nullopt;
  }
  return static_cast<std::int64_t>(*parsed);
}

std::optional<bool> Draft::flag(std::string_view key) {
  const auto written = text(key);
  if (!written) return std::nullopt;
  const std::string word = lower_case(*written);
  if (word == "true" || word == "yes" || word == "on" || word == "1") return true;
  if (word != "false" && word != "no" && word != "off" && word != "0")
    fail(key, fmt::format("'{}' is neither true nor false", *written));
  return false;
}

std::vector<std::string> Draft::list(std::string_view key) const {
  const Entry* entry = configuration_.find(key);
  if (entry == nullptr || entry->is_list || entry->unread)
    return entry == nullptr ? std::vector<std::string>() : entry->items;
  std::vector<std::string> items;
  for (const std::string_view item : split_at(entry->value, ','))
    if (!trimmed(item).empty()) items.emplace_back(trimmed(item));
  return items;
}

void Draft::put(std::string_view plan_key, std::string value, std::string_view origin) {
  const auto found = settings_.find(plan_key);
  if (found != settings_.end() && found->second.of_user) return;
  const Entry* entry = configuration_.find(origin);
  // An origin is a key of the file, a sentence, or a key that the file lacks.
  const bool silent = entry == nullptr && origin != "assumed" && origin.find_first_of("._") != std::string_view::npos &&
                      origin.find(' ') == std::string_view::npos;
  settings_[std::string(plan_key)] = {std::move(value),
                                      entry != nullptr ? entry->written
                                      : silent         ? fmt::format("{}'s default", program_)
                                                       : std::string(origin),
                                      entry == nullptr ? 0 : entry->line};
}

std::optional<std::int64_t> Draft::value(std::string_view plan_key) const {
  const auto found = settings_.find(plan_key);
  return found == settings_.end() ? std::nullopt : parse_number<std::int64_t>(found->second.value);
}

std::optional<std::string> Draft::word(std::string_view plan_key) const {
  const auto found = settings_.find(plan_key);
  if (found == settings_.end()) return std::nullopt;
  std::string value = found->second.value;
  if (value.size() > 1 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
  return value;
}

std::optional<std::int64_t> Draft::data_parallel() const {
  const auto gpus = value("cluster.gpus");
  std::int64_t rest = gpus.value_or(0);
  for (const char* leaf : {"tensor", "context", "pipeline"}) {
    const std::int64_t by = degree(leaf);
    if (rest < 1 || rest % by != 0) return std::nullopt;
    rest /= by;
  }
  return rest;
}

void Draft::note(Note::Kind kind, std::string_view key, std::string text) {
  const Entry* entry = configuration_.find(key);
  notes_.push_back({kind, entry == nullptr ? 0 : entry->line, std::move(text)});
}

void Draft::note_unknown(const Entry& entry, const std::string& text) {
  notes_.push_back({Note::Kind::unknown, entry.line, entry.written + text});
}

void Draft::not_modeled(std::string_view key, std::string_view what) {
  const Entry* entry = configuration_.find(key);
  const std::string value = entry == nullptr ? ""
                            : entry->is_list ? fmt::format("[{}]", fmt::join(entry->items, ", "))
                                             : entry->value;
  note(Note::Kind::not_modeled, key,
       fmt::format("{} = {}: not modelled; it can change the cost{}{}", entry == nullptr ? key : entry->written, value,
                   what.empty() ? "" : ": ", what));
}

void Draft::fail(std::string_view key, std::string message, std::string hint) {
  if (error_) return;
  const Entry* entry = configuration_.find(key);
  error_ = Error{ErrorKind::input,
                 std::move(message),
                 configuration_.file,
                 entry == nullptr ? 0 : entry->line,
                 entry == nullptr ? std::string(key) : entry->written,
                 std::move(hint)};
}

void Draft::note_defaults() {
  const std::string origin = fmt::format("{}'s default", program_);
  std::string defaults;
  for (const auto& [key, setting] : settings_)
    if (setting.origin == origin)
      defaults += fmt::format("{}{} = {}", defaults.empty() ? "" : ", ", key, setting.value);
  if (!defaults.empty()) note(Note::Kind::assumed, "", fmt::format("assumed: {}s: {}", origin, defaults));
}

Result<Plan> Draft::plan() const {
  if (error_) return tl::unexpected(*error_);
  std::vector<std::string_view> missing, options;
  for (const Required& one : required_keys) {
    const bool follows = one.key == "batch.global_batch_size" && given("rollout.prompts");
    if (given(one.key) || follows) continue;
    missing.push_back(one.what);
    options.push_back(one.option);
  }
  if (!missing.empty()) {
    return wrong_input_at(configuration_.file, 0, "", fmt::format("does not state {}", fmt::join(missing, ", ")),
                          fmt::format("add {}", fmt::join(options, " ")));
  }
  std::string text;
  for (const auto& [key, setting] : settings_) {
    if (setting.of_user) continue;
    const std::string_view section = plan_section(key);
    text += fmt::format("{}.{} = {}\n", section, std::string_view(key).substr(section.size() + 1), setting.value);
  }
  const auto layers = settings_.find("schedule.layers_per_stage");
  const bool stated = layers != settings_.end() && !layers->second.of_user;
  auto plan =
      read_plan(text, configuration_.file, with_layers_of_launch({}, overrides_, stated ? layers->second.value : ""));
  if (plan) return plan;
  Error error = plan.error();
  const auto place = settings_.find(error.key);
  if (error.file != configuration_.file) return tl::unexpected(error);
  error.line = place == settings_.end() ? 0 : place->second.line;
  if (place != settings_.end() && !place->second.origin.empty())
    error.message += fmt::format(" (from {})", place->second.origin);
  return tl::unexpected(error);
}

std::string Draft::toml(const Plan& plan) const {
  std::string out =
      fmt::format("# Made from {}, a configuration of {}. Keys that are missing have plumbline's defaults.\n",
                  configuration_.file, program_);
  std::string section, header;
  const std::string all = to_toml(plan);
  for (const std::string_view line : lines_of(all)) {
    if (line.starts_with('[')) {
      section = std::string(line.substr(1, line.size() - 2));
      header = fmt::format("\n{}\n", line);
      continue;
    }
    const std::string key = fmt::format("{}.{}", section, line.substr(0, line.find(" = ")));
    if (line.empty() || line.starts_with('#') || !plan.places.contains(key)) continue;
    const auto setting = settings_.find(key);
    const std::string origin = setting == settings_.end() ? "" : setting->second.origin;
    out += header + fmt::format("{}{}{}\n", line, origin.empty() ? "" : "  # ", origin);
    header.clear();
  }
  return out;
}

}  // namespace plumbline::model::configurations
