// A plan as it is drafted from a configuration, with what is noted of it, and the formats that are read.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/configurations/detail/shared.h"
#include "model/configurations/import.h"

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
    const bool serves = one.key.starts_with("batch.") && given("inference.output_tokens");  // requests, no batches
    if (given(one.key) || follows || serves) continue;
    missing.push_back(one.what);
    options.push_back(one.option);
  }
  if (!missing.empty()) {
    // What is missing may be there under a misspelled name.
    const auto meant = std::ranges::find_if(notes_, [](const Note& note) {
      return note.kind == Note::Kind::unknown && contains(note.text, "did you mean");
    });
    std::string hint = fmt::format("add {}", fmt::join(options, " "));
    if (meant != notes_.end()) hint += fmt::format("; line {} has {}", meant->line, meant->text);
    return wrong_input_at(configuration_.file, 0, "", fmt::format("does not state {}", fmt::join(missing, ", ")),
                          std::move(hint));
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

void RuleInput::use_model(NamedModel named) const {
  if (draft.given("model.config")) return;
  if (!named.shipped.empty()) {
    draft.set("model.config", named.shipped, "");
  } else if (options.adjacent_config.empty()) {
    return draft.fail("", "the model of the file needs a file next to the plan",
                      "name the plan's file with -o, or a model with --model");
  } else {
    draft.set("model.config", options.adjacent_config, "");
  }
  model = std::move(named);
}

const KeyRow* ConfigurationFormat::row(std::string_view key) const {
  const KeyRow* best = nullptr;
  for (const KeyRow& row : keys) {
    const std::string_view section = row.name.ends_with(".*") ? row.name.substr(0, row.name.size() - 2) : "";
    const bool below = !section.empty() && key.starts_with(section) && key.substr(section.size()).starts_with('.');
    if (row.name == key) return &row;
    if ((section == key || below) && (best == nullptr || row.name.size() > best->name.size())) best = &row;
  }
  const KeyRow* other = others == nullptr ? nullptr : others(key);
  return other == nullptr ? best : other;
}

std::optional<Architecture> RuleInput::architecture() const {
  const auto config = draft.word("model.config");
  if (!config || draft.error() || (model && model->shipped.empty())) return std::nullopt;
  auto loaded = options.load_model(*config);
  if (!loaded) draft.fail(loaded.error());
  return loaded ? std::optional(std::move(*loaded)) : std::nullopt;
}

bool RuleInput::has_experts() const {
  if (model && !model->config_json.empty()) return model->config_json.find("_experts\"") != std::string::npos;
  const auto loaded = architecture();
  return loaded && loaded->experts.routed_experts > 0;
}

std::optional<std::int64_t> RuleInput::layers() const {
  if (model) return model->layers;
  const auto loaded = architecture();
  return loaded ? std::optional(loaded->layers) : std::nullopt;
}

namespace {

constexpr std::string_view kTopology = "h100-dgx";
constexpr std::size_t kLargestFile = 8 << 20;

std::string_view leaf(std::string_view key) { return key.substr(key.rfind('.') + 1); }

// Returns the keys of rows that are about one key each.
std::vector<std::string> single_keys(std::span<const KeyRow> rows) {
  std::vector<std::string> names;
  for (const KeyRow& row : rows)
    if (!row.name.ends_with(".*")) names.emplace_back(row.name);
  return names;
}

// Returns a question about the nearest name: of the whole key, else of its last part in another section.
std::string nearest(const std::vector<std::string>& names, std::string_view key) {
  std::string name = nearest_name(key, names);
  for (const std::string& other : names)
    if (leaf(other) == leaf(key)) name = other;
  return name.empty() ? "" : fmt::format(" (did you mean '{}'?)", name);
}

// Whether a name is another one with a letter too many or too few, or with two of them swapped.
bool is_slip(std::string_view name, std::string_view meant) {
  const auto before = static_cast<std::size_t>(std::ranges::mismatch(name, meant).in1 - name.begin());
  name.remove_prefix(before);
  meant.remove_prefix(before);
  const auto [shorter, longer] = std::minmax(name, meant, [](auto a, auto b) { return a.size() < b.size(); });
  if (shorter.size() == longer.size())
    return shorter.size() > 1 && shorter[0] == longer[1] && shorter[1] == longer[0] &&
           shorter.substr(2) == longer.substr(2);
  return longer.substr(1) == shorter;
}

// Returns the key that a misspelled one means which only a section's row covers: where the keys without a cost are not
// listed, it would pass for one of them.
std::string meant_key(const ConfigurationFormat& format, const std::vector<std::string>& names, const Entry& entry) {
  constexpr std::size_t shortest = 5;  // shorter names are often one letter apart
  if (leaf(entry.key).size() < shortest) return "";
  const auto costs = [&format](std::string_view key) {
    const KeyRow* row = format.row(key);
    return row != nullptr && row->meaning != Meaning::no_cost;
  };
  for (const std::string& name : names)
    if (is_slip(entry.key, name) && costs(name)) return name;
  for (const auto& [written, key] : format.renames)
    if (is_slip(entry.key, written) && costs(key)) return std::string(written);
  return "";
}

bool is_off(const Entry& entry) {
  static constexpr std::string_view words[] = {"",  "false", "False", "no",       "none", "None",   "auto",
                                               "0", "0.0",   "null",  "disabled", "NO",   "default"};
  return entry.items.empty() && std::ranges::find(words, entry.value) != std::end(words);
}

void copy_value(const Entry& entry, const KeyRow& row, Draft& draft) {
  if (!entry.is_null() && draft.text(entry.key)) {
    if (const auto count = parse_number<std::int64_t>(entry.value))
      draft.set(row.key, *count, entry.key);
    else if (const auto number = parse_number<double>(entry.value); number && std::isfinite(*number))
      draft.set(row.key, *number, entry.key);
    else if (const auto flag = entry.value == "true" || entry.value == "True";
             flag || entry.value == "false" || entry.value == "False")
      draft.set(row.key, flag, entry.key);
    else
      draft.set(row.key, entry.value, entry.key);
  }
}

// Refuses a value that decides the plan and is not read: of a script, one with a variable that nothing there sets, or
// behind a file that is not read; of Python, an expression.
void refuse_unread(Draft& draft, const Entry& entry, std::string_view key) {
  if (entry.value.find('$') != std::string::npos)
    return draft.fail(entry.key, fmt::format("'{}' is not known", entry.value),
                      fmt::format("--define NAME=VALUE of its variable, or --set {}=VALUE", key));
  draft.fail(entry.key, fmt::format("'{}' is an expression, which is not run", entry.value),
             fmt::format("write its value in its place, or state --set {}=VALUE", key));
}

// Sets what rows copy, notes what is unknown or not modelled, and returns how many keys change no cost.
std::int64_t read_rows(const ConfigurationFormat& format, Draft& draft) {
  std::int64_t no_cost = 0;
  const bool whole = draft.configuration().find("_target_") != nullptr;  // a dump states what is off, too
  const std::vector<std::string> names = single_keys(format.keys);
  std::map<std::string, std::string, std::less<>> questions;  // by key: elements of a list have one
  std::map<std::string_view, const Entry*> last;              // of each key, which holds
  for (const Entry& entry : draft.configuration().entries)
    if (!entry.is_null()) last[entry.key] = &entry;
  for (const Entry& entry : draft.configuration().entries) {
    const KeyRow* row = format.row(entry.key);
    const bool costs = row != nullptr && row->meaning != Meaning::no_cost && !entry.key.ends_with("[]");
    if (const Entry& held = costs && !entry.is_null() ? *last.at(entry.key) : entry;
        held.value != entry.value || held.items != entry.items) {
      draft.note_unknown(entry,
                         fmt::format(" = {}: not read; {} (line {}) holds", entry.value, held.written, held.line));
      continue;
    }
    if (row == nullptr || (row->meaning == Meaning::no_cost && row->name.ends_with(".*"))) {
      const auto [question, fresh] = questions.try_emplace(entry.key);
      if (fresh) question->second = meant_key(format, names, entry);
      if (!question->second.empty()) {
        draft.note_unknown(entry,
                           fmt::format(": unknown; did you mean '{}', which decides the plan?", question->second));
        continue;
      }
    }
    const bool unset = !entry.is_list && (whole ? is_off(entry) : entry.value.empty());  // null
    const auto asks_nothing = [&] {
      return is_off(entry) || (!entry.unread && megatron::is_priced(row->name, {&entry.value, 1}));
    };
    const bool free =
        row == nullptr ? unset
                       : row->meaning == Meaning::no_cost || (row->meaning == Meaning::not_modeled && asks_nothing());
    if (free) {
      ++no_cost;
    } else if (row == nullptr) {
      draft.note_unknown(entry, ": unknown; it may change the cost" + nearest(names, entry.key));
    } else if (row->meaning == Meaning::not_modeled) {
      draft.not_modeled(entry.key, row->note);
    } else if (entry.unread && row->key.empty()) {
      draft.not_modeled(entry.key, "an expression, which is not run");
    } else if (entry.unread && !draft.given(row->key)) {
      refuse_unread(draft, entry, row->key);
    } else if (row->meaning != Meaning::rule && !row->key.starts_with("shape.")) {
      copy_value(entry, *row, draft);
    }
  }
  return no_cost;
}

// Keys of a plan as KEY=VALUE, with the lines of those that comments state.
struct StatedKeys {
  std::vector<std::string> overrides;
  std::map<std::string, int, std::less<>> lines;
};

// Returns the keys of the plan that comments state, but for those of the options, and the options.
StatedKeys with_comments(std::string_view text, const std::vector<std::string>& options) {
  StatedKeys all;
  int number = 0;
  for (const std::string_view line : lines_of(text)) {
    ++number;
    const std::size_t equals = line.find(" = ");
    if (!line.starts_with(kPlumblineComment) || equals == std::string_view::npos) continue;
    const std::string key(line.substr(kPlumblineComment.size(), equals - kPlumblineComment.size()));
    const bool of_options =
        std::ranges::any_of(options, [&key](const std::string& one) { return one.starts_with(key + "="); });
    if (of_options) continue;
    all.overrides.push_back(fmt::format("{}={}", key, line.substr(equals + 3)));
    all.lines.insert_or_assign(key, number);
  }
  all.overrides.insert(all.overrides.end(), options.begin(), options.end());
  return all;
}

// A reading of a file, and what else its assumptions may be.
struct Read {
  ImportedConfiguration imported;
  std::vector<std::string> open_choices;  // KEY=VALUE
};

Result<Read> read_configuration(const ConfigurationFormat& format, const Configuration& configuration,
                                const std::vector<std::string>& overrides, const ConfigurationImport& options) {
  Draft draft(configuration, format.program, overrides);
  ImportedConfiguration out;
  out.no_cost = read_rows(format, draft);
  std::optional<NamedModel> model;
  format.rules({draft, options, model});
  if (!draft.given("cluster.topology"))
    draft.assume("cluster.topology", kTopology, "the file does not name its cluster, --topology does");
  draft.note_defaults();
  out.plan = TRY(draft.plan());
  out.toml = draft.toml(out.plan);
  if (model && !model->config_json.empty()) out.config_json = model->config_json;
  out.notes = std::move(draft.notes());
  std::ranges::stable_sort(out.notes, {}, [](const Note& note) { return std::pair(note.kind, note.line); });
  return Read{std::move(out), draft.open_choices()};
}

// Adds the plans that the file would give without each of its keys, and with the other values of what was assumed.
void add_alternatives(const ConfigurationFormat& format, const Configuration& configuration,
                      std::vector<std::string> overrides, const ConfigurationImport& options, Read& read) {
  overrides.push_back(fmt::format("cluster.gpus={}", read.imported.plan.cluster.gpus));  // they are compared on as many
  const auto values = plan_values(read.imported.plan);
  const auto add = [&](int line, const std::string& text, const Result<Read>& other) {
    const bool again = std::ranges::any_of(read.imported.alternatives, [&](const auto& one) {
      return one.line == line && one.text == text;  // words that stand for several keys
    });
    if (!again && other && plan_values(other->imported.plan) != values)
      read.imported.alternatives.push_back({line, text, other->imported.plan});
  };
  // Keys without a row have notes alone, and a file can have many of them.
  Configuration known = configuration;
  std::erase_if(known.entries, [&](const Entry& entry) { return format.row(entry.key) == nullptr; });
  for (const Entry& entry : known.entries) {
    if (!decides_step(*format.row(entry.key))) continue;
    Configuration without = known;
    const bool recomputes = entry.key.ends_with("recompute_granularity");  // its method alone means full
    std::erase_if(without.entries, [&](const Entry& one) {
      return one.written == entry.written || (recomputes && one.key.ends_with("recompute_method"));
    });
    add(entry.line, "without " + entry.written, read_configuration(format, without, overrides, options));
  }
  for (const std::string& choice : read.open_choices) {
    std::vector<std::string> more = overrides;
    more.push_back(choice);
    add(0, "with " + choice, read_configuration(format, known, more, options));
  }
}

// Sets what a command line gives over the file: --training.local-batch-size 4, --compile.enable, --compile.no-enable.
Result<void> take_arguments(const std::vector<std::string>& arguments, const std::vector<Rename>& renames,
                            Configuration& configuration) {
  const auto refused = [](std::string_view argument) {
    return wrong_input(
        "--", fmt::format("'{}' is no --SECTION.KEY of the configuration", argument),
        "for example -- --training.local-batch-size 4; --config stands before --, and the file is that of --module");
  };
  megatron::Command words;
  for (const std::string& argument : arguments) words.push_back({argument});
  if (!arguments.empty() && !arguments.front().starts_with("--")) return refused(arguments.front());
  for (Entry& entry : options_of(words, 0, renames)) {
    if (entry.is_list) return refused(entry.items[1]);
    if (entry.key.empty() || entry.key == "config" || entry.key == "module") return refused(entry.written);
    std::erase_if(configuration.entries, [&entry](const Entry& one) { return one.key == entry.key; });
    configuration.entries.push_back(std::move(entry));
  }
  return {};
}

}  // namespace

const std::vector<ConfigurationFormat>& configuration_formats() {
  static const std::vector<ConfigurationFormat> formats = {
      torchtitan(), deepspeed(), accelerate(), nemo(),    llama_factory(), axolotl(), ms_swift(), primus(),
      automodel(),  nanotron(),  verl(),       nemo_rl(), openrlhf(),      vllm(),    sglang(),   tensorrt_llm()};
  return formats;
}

Result<ImportedConfiguration> import_configuration(const ConfigurationFormat& format, std::string_view text,
                                                   const std::string& path, const ConfigurationImport& options) {
  if (text.size() > kLargestFile)
    return wrong_input_at(path, 0, "", fmt::format("is larger than {} MiB", kLargestFile >> 20),
                          "a configuration is a short text");
  if (!options.function.empty() && !is_python(text))
    return wrong_input_at(path, 0, "", "is no file of Python, of which --config names a function",
                          "leave --config out");
  auto configuration = TRY(format.read({text, path, format.renames, options.function, {{}}, options.definitions}));
  TRY(take_arguments(options.arguments, format.renames, configuration));
  const StatedKeys stated = with_comments(text, options.overrides);
  auto read = read_configuration(format, configuration, stated.overrides, options);
  if (!read) {
    Error error = read.error();
    if (const auto line = stated.lines.find(error.key); line != stated.lines.end() && error.file == "--set") {
      error.file = path;
      error.line = line->second;
    }
    return tl::unexpected(error);
  }
  add_alternatives(format, configuration, stated.overrides, options, *read);
  return std::move(read->imported);
}

namespace {

struct Layout {
  std::int64_t tensor;
  std::string_view recompute;
};
// Where memory decides, what costs least comes first.
constexpr Layout layouts[] = {{1, "none"}, {1, "full"}, {8, "full"}};

void assume_batch(Draft& draft, const Architecture& architecture) {
  constexpr std::int64_t usual_length = 4096, usual_tokens = 4'194'304;
  const std::int64_t table = architecture.position_table > 0 ? architecture.position_table : usual_length;
  draft.assume("batch.sequence_length", std::min(usual_length, table), "usual in pretraining");
  draft.assume("batch.micro_batch_size", std::int64_t{1}, "the least memory");
  const auto length = draft.value("batch.sequence_length"), micro = draft.value("batch.micro_batch_size");
  const auto data = draft.data_parallel();
  if (!length || !micro || !data || *length < 1 || *micro < 1) return;
  const std::int64_t once = bounded_product({*micro, *data});
  const std::int64_t steps = std::max<std::int64_t>(1, usual_tokens / *length / once);
  draft.assume("batch.global_batch_size", bounded_product({once, steps}),
               "4 million tokens, or one micro-batch a rank if that is more");
}

void assume_layout(Draft& draft, const Architecture& architecture, const Layout& layout) {
  if (layout.tensor > 1) {
    draft.assume("parallelism.tensor", layout.tensor, "it does not fit with less");
    draft.assume("parallelism.sequence", true, "with tensor parallelism");
  }
  draft.assume("parallelism.zero_stage", std::int64_t{3}, "FSDP: the least memory");
  draft.assume("recompute.policy", layout.recompute,
               layout.recompute == "none" ? "it fits" : "it does not fit without");
  draft.assume("stack.name", "pytorch-fsdp-eager", "FSDP of eager PyTorch");
  const std::int64_t experts = architecture.experts.routed_experts, gpus = draft.value("cluster.gpus").value_or(1);
  constexpr std::int64_t node = 8;
  if (experts > 0 && gpus > 0)
    draft.assume("parallelism.expert", std::gcd(std::gcd(experts, node), gpus), "experts over the GPUs of a node");
}

}  // namespace

Result<ImportedConfiguration> starting_plan(const std::string& model, const std::string& path,
                                            const Architecture& architecture, const std::vector<std::string>& overrides,
                                            const std::function<Result<bool>(const Plan& plan)>& fits) {
  const Configuration nothing{path, {}};
  ImportedConfiguration out;
  for (const Layout& layout : layouts) {
    Draft draft(nothing, "Hugging Face", overrides);
    draft.set("model.config", model, "");
    draft.assume("cluster.topology", "h100-dgx", "--topology names another");
    if (layout.tensor > 1 && draft.value("cluster.gpus").value_or(0) % layout.tensor != 0) break;
    assume_layout(draft, architecture, layout);
    assume_batch(draft, architecture);
    out.plan = TRY(draft.plan());
    out.toml = draft.toml(out.plan);
    out.notes = draft.notes();
    if (TRY(fits(out.plan))) return out;
  }
  out.notes.push_back(
      {Note::Kind::assumed, 0, "none of the first layouts fits: take more GPUs, or search with plumbline plan"});
  return out;
}

}  // namespace plumbline::model::configurations
