#include "calibrate/validate/step_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "calibrate/measurement/csv_table.h"
#include "calibrate/validate/case_evaluation.h"
#include "calibrate/validate/detail/case_rows.h"
#include "model/base/distinct.h"
#include "model/base/table_reader.h"
#include "model/base/text.h"
#include "model/result/comparison.h"
#include "model/result/result.h"
#include "sim/interval/interval.h"
#include "sim/predict/inputs.h"
#include "sim/predict/predictor.h"

namespace plumbline::calibrate {
namespace {

using model::TableReader;

StepHardware read_hardware(TableReader& reader) {
  StepHardware hardware;
  READ_REQUIRED(reader, hardware, name, topology);
  hardware.device = reader.optional_text("device");
  hardware.profile = reader.text("profile");
  hardware.plan = reader.optional_texts("plan");
  return hardware;
}

StepReading read_reading(TableReader& reader) {
  StepReading reading;
  reading.set = reader.text("set");
  READ_OPTIONAL(reader, reading, variant, hardware, cluster, profile, stack, plan, missing, missing_tensors, memory);
  if (!reading.memory.empty() && reading.memory != "device" && reading.memory != "reserved" &&
      reading.memory != "allocated")
    reader.fail("memory", reader.line_of("memory"), fmt::format("unknown memory '{}'", reading.memory),
                "known: device, reserved, allocated");
  reading.source = reader.text("source");
  return reading;
}

StepDemand read_demand(TableReader& reader) {
  StepDemand demand;
  demand.name = reader.text("name");
  READ_OPTIONAL(reader, demand, hardware, sets);
  READ_REQUIRED(reader, demand, mean_absolute_error, bias);
  READ_OPTIONAL(reader, demand, aim_mean_absolute_error, aim_bias);
  return demand;
}

IntervalDemand read_interval(TableReader& reader) {
  IntervalDemand demand;
  reader.require("coverage");
  demand.coverage = reader.optional_shares("coverage").value_or(demand.coverage);
  demand.aim_coverage = reader.optional_shares("aim_coverage");
  READ_OPTIONAL(reader, demand, aim_set_coverage, aim_half_width, aim_mean_absolute_error, aim_bias);
  return demand;
}

void read_case(TableReader& reader, StepCase& definition) {
  definition.name = reader.text("name");
  definition.tables = reader.text_or_texts("steps");
  if (const std::string fidelity = reader.optional_text("fidelity"); !fidelity.empty()) {
    const auto parsed = sim::parse_fidelity(fidelity);
    if (parsed) definition.fidelity = *parsed;
    if (!parsed) reader.fail("fidelity", reader.line_of("fidelity"), parsed.error().message, parsed.error().hint);
  }
  READ_OPTIONAL(reader, definition, residuals, intervals);
  reader.require("naive");
  reader.optional_table("naive", [&](TableReader& table) {
    definition.naive_mfu = table.positive("mfu");
    definition.naive_source = table.text("source");
  });
  reader.require("hardware");
  reader.optional_tables("hardware", [&](TableReader& table) { definition.hardware.push_back(read_hardware(table)); });
  reader.optional_tables("reading", [&](TableReader& table) { definition.readings.push_back(read_reading(table)); });
  reader.optional_tables("demand", [&](TableReader& table) { definition.demands.push_back(read_demand(table)); });
  reader.optional_table("interval", [&](TableReader& table) { definition.interval = read_interval(table); });
}

constexpr double bytes_per_gib = 1024.0 * 1024 * 1024;

// Returns the columns of whole numbers above 0.
std::vector<const char*> number_columns() {
  std::vector<const char*> columns = {"layers", "hidden", "heads", "kv_heads", "ffn", "vocabulary", "gpus"};
  for (const model::Degree& degree : model::parallel_degrees) columns.push_back(degree.name);
  columns.insert(columns.end(), {"virtual_stages", "data", "micro_batch", "global_batch", "sequence"});
  return columns;
}

// Columns that a table may have in addition.
constexpr const char* expert_columns[] = {"experts", "experts_per_token", "expert_ffn"};

model::Result<void> read_numbers(const CsvTable& table, std::size_t row, PublishedStep& step) {
  const auto read = [&](const char* column) -> model::Result<void> {
    if (!table.stated(row, column).empty()) step.numbers[column] = TRY(table.whole(row, column));
    return {};
  };
  for (const char* column : number_columns()) TRY(read(column));
  for (const char* column : expert_columns) TRY(read(column));
  const std::string& zero = table.text(row, "zero_stage");
  if (zero.empty()) return {};
  if (zero.size() != 1 || zero < "0" || zero > "3")
    return table.wrong(row, "zero_stage", fmt::format("'{}' is no stage from 0 to 3", zero));
  step.numbers["zero_stage"] = zero[0] - '0';
  return {};
}

// Checks that the product of the degrees, where all are stated, is the number of GPUs.
model::Result<void> check_degrees(const CsvTable& table, std::size_t row, const PublishedStep& step) {
  std::int64_t product = 1;
  for (const char* column : {"tensor", "context", "pipeline", "data"}) {
    const auto found = step.numbers.find(column);
    if (found == step.numbers.end()) return {};
    product *= found->second;
  }
  const auto gpus = step.numbers.find("gpus");
  if (gpus == step.numbers.end() || gpus->second == product) return {};
  return table.wrong(row, "gpus",
                     fmt::format("tensor * context * pipeline * data is {}, not {}", product, gpus->second));
}

#define TEXT(column) \
  std::pair { #column, &PublishedStep::column }
constexpr std::pair<const char*, std::string PublishedStep::*> step_texts[] = {
    TEXT(id),   TEXT(set),       TEXT(variant),  TEXT(model), TEXT(model_type), TEXT(hardware),
    TEXT(gemm), TEXT(recompute), TEXT(schedule), TEXT(time),  TEXT(status),     TEXT(source)};
#undef TEXT

model::Result<PublishedStep> step_of(const CsvTable& table, std::size_t row) {
  PublishedStep step;
  for (const auto& [column, text] : step_texts) step.*text = table.text(row, column);
  step.sequence_parallel = table.text(row, "sequence_parallel") == "yes";
  step.assumed = table.parts(row, "assumed", '+');
  step.plan = table.parts(row, "plan", ';');
  TRY(read_numbers(table, row, step));
  TRY(check_degrees(table, row, step));
  step.seconds = TRY(table.optional_positive(row, "step_s"));
  step.memory_bytes = TRY(table.optional_positive(row, "memory_gib", bytes_per_gib));
  return step;
}

using Changes = std::vector<std::string>;

// Returns columns with their keys, of "COLUMN=KEY COLUMN=KEY".
std::vector<std::pair<std::string_view, std::string_view>> columns_with_keys(std::string_view text) {
  std::vector<std::pair<std::string_view, std::string_view>> columns;
  for (const std::string_view word : model::split_at(text, ' ')) {
    const std::size_t equals = word.find('=');
    columns.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  return columns;
}

// A shipped model of the type, and its keys of the dimensions that the row gives.
struct ModelWords {
  std::string_view type, config;
  std::string dimensions;
};

// Returns the types in alphabetical order.
const std::vector<ModelWords>& known_models() {
  static const std::string dense =
      "layers=num_hidden_layers hidden=hidden_size heads=num_attention_heads kv_heads=num_key_value_heads "
      "ffn=intermediate_size vocabulary=vocab_size";
  static const std::string experts = " experts_per_token=num_experts_per_tok expert_ffn=moe_intermediate_size";
  static const std::string routed = dense + " experts=n_routed_experts" + experts;
  static const std::string qwen = dense + " experts=num_experts" + experts;
  static const std::vector<ModelWords> known = {
      {"deepseek_v2", "models/deepseek-v2.json", routed},
      {"deepseek_v3", "models/deepseek-v3.json", routed},
      {"gpt2", "models/gpt3-175b.json",
       "layers=n_layer hidden=n_embd heads=n_head ffn=n_inner vocabulary=vocab_size sequence=n_positions"},
      {"llama", "models/llama-3-8b.json", dense},
      // An expert's width is the key that dense models of this family use.
      {"mixtral", "models/mixtral-8x22b.json",
       "layers=num_hidden_layers hidden=hidden_size heads=num_attention_heads kv_heads=num_key_value_heads "
       "vocabulary=vocab_size experts=num_local_experts experts_per_token=num_experts_per_tok "
       "expert_ffn=intermediate_size"},
      {"mpt", "models/mpt-7b.json",
       "layers=n_layers hidden=d_model heads=n_heads vocabulary=vocab_size sequence=max_seq_len"},
      {"qwen2_moe", "models/qwen2-57b-a14b.json", qwen},
      {"qwen3_moe", "models/qwen3-235b-a22b.json", qwen},
  };
  return known;
}

constexpr std::string_view plan_keys =
    "gpus=cluster.gpus zero_stage=parallelism.zero_stage sequence=batch.sequence_length "
    "micro_batch=batch.micro_batch_size global_batch=batch.global_batch_size virtual_stages=schedule.virtual_stages";

// Adds the changes for a cell: "full", "none", or groups of operators joined by '+'.
void add_recompute(const std::string& cell, Changes& changes) {
  if (cell == "full" || cell == "none") return changes.push_back("recompute.policy=" + model::toml_string(cell));
  changes.emplace_back("recompute.policy=\"selective\"");
  std::string list = model::toml_string(cell);
  for (std::size_t at = list.find('+'); at != std::string::npos; at = list.find('+', at)) list.replace(at, 1, "\", \"");
  changes.push_back(fmt::format("recompute.operators=[{}]", list));
}

// Returns the model that the row starts from, whose dimensions the row gives.
model::Result<const ModelWords*> words_of(const PublishedStep& step) {
  const auto& known = known_models();
  const auto found = std::ranges::find(known, step.model_type, &ModelWords::type);
  if (found == known.end()) {
    std::vector<std::string> names;
    for (const ModelWords& words : known) names.emplace_back(words.type);
    return tl::unexpected(about_row(step.id, fmt::format("no shipped model to start a '{}' from", step.model_type),
                                    fmt::format("known: {}", fmt::join(names, ", "))));
  }
  for (const auto& [column, key] : columns_with_keys(found->dimensions))
    if (!step.numbers.contains(column))
      return tl::unexpected(about_row(step.id, fmt::format("a {} has a '{}', which the row lacks", found->type, column),
                                      "fill in the cell"));
  return &*found;
}

bool matches(const StepReading& reading, const PublishedStep& step) {
  return reading.set == step.set && step.variant.find(reading.variant) != std::string::npos &&
         (reading.hardware.empty() || reading.hardware == step.hardware);
}

Changes layout_changes(const PublishedStep& step, const StepHardware& hardware, const ModelWords& words) {
  // The frameworks of these steps spread layers evenly; a row with another split states it.
  Changes changes = {"model.config=" + model::toml_string(words.config),
                     "cluster.topology=" + model::toml_string(hardware.topology),
                     "schedule.kind=" + model::toml_string(step.schedule),
                     "schedule.layers_per_stage=\"even\"",
                     "precision.gemm=" + model::toml_string(step.gemm),
                     fmt::format("parallelism.sequence={}", step.sequence_parallel)};
  if (!hardware.device.empty()) changes.push_back("cluster.device=" + model::toml_string(hardware.device));
  changes.insert(changes.end(), hardware.plan.begin(), hardware.plan.end());
  for (const auto& [column, key] : columns_with_keys(words.dimensions))
    changes.push_back(fmt::format("model.{}={}", key, step.numbers.at(std::string(column))));
  for (const model::Degree& degree : model::parallel_degrees)
    changes.push_back(fmt::format("parallelism.{}={}", degree.name, step.numbers.at(degree.name)));
  for (const auto& [column, key] : columns_with_keys(plan_keys))
    changes.push_back(fmt::format("{}={}", key, step.numbers.at(std::string(column))));
  add_recompute(step.recompute, changes);
  return changes;
}

// Quantiles need no more, since ln(step) is nearly linear in what is drawn.
constexpr std::size_t draws_of_row = 32;

// Returns the ranges of a row but the baseline's, from the interval of its predicted result; `peak` is what the row's
// memory is of. Errors: those of sim::draw_interval().
model::Result<RowRanges> row_ranges(const sim::Inputs& inputs, const model::StepResult& result,
                                    const PublishedStep& step, sim::PeakOf peak) {
  const auto [interval, draws] =
      TRY(sim::draw_interval(inputs, result, {.draws = draws_of_row, .threads = 1, .peak = peak, .parts = false}));
  RowRanges ranges;
  if (step.seconds) ranges.step = {interval.time_s, *step.seconds};
  // A full device shows its capacity, whatever more an allocator would hold.
  const double room = peak == sim::PeakOf::device ? result.memory.capacity_bytes : INFINITY;
  if (step.memory_bytes) ranges.memory = {interval.peak_bytes.at_most(room), *step.memory_bytes};
  ranges.fits_probability = interval.fits_probability;
  ranges.ran = step.ran();
  ranges.drawn = sim::drawn_spread(draws.time_ratio);
  return ranges;
}

// Returns the names of the constants that rest on steps of the set.
std::vector<std::string> resting_on(const std::string& set, const model::Profile& profile) {
  std::vector<std::string> names;
  for (const model::Parameter& constant : profile.parameters())
    if (std::ranges::find(constant.rows, set) != constant.rows.end()) names.push_back(constant.name);
  return names;
}

// An empty list has everything.
bool among(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::ranges::find(names, name) != names.end();
}

bool matches(const StepDemand& demand, const PublishedStep& step) {
  return among(demand.hardware, step.hardware) && among(demand.sets, step.set);
}

// Reads StepReading::memory.
sim::PeakOf peak_of(std::string_view kind) {
  if (kind == "device") return sim::PeakOf::device;
  return kind == "reserved" ? sim::PeakOf::reserved : sim::PeakOf::allocated;
}

// Loads the inputs of rows, one row at a time.
struct RowInputs {
  const InputsOf& of_plan;
  std::mutex mutex = {};

  model::Result<sim::Inputs> of(const StepPlan& plan, const std::string& held_out) {
    const std::scoped_lock lock(mutex);
    return of_plan(plan.plan, plan.profile, held_out);
  }
};

ComparedStep compare(const PublishedStep& step, const StepCase& definition, bool ranges, RowInputs& row_inputs,
                     sim::PredictorPool& predictors) {
  ComparedStep compared;
  compared.step = step;
  compared.lacking = step.lacking();
  if (!compared.lacking.empty()) return compared;
  const auto plan = step_plan(step, definition);
  if (!plan) return compared.error = plan.error(), compared;
  compared.missing = plan->missing;
  compared.missing_tensors = plan->missing_tensors;
  compared.profile = plan->profile;
  const auto full = row_inputs.of(*plan, "");
  if (!full) return compared.error = full.error(), compared;
  compared.held_out = resting_on(step.set, full->profile);
  const auto inputs = row_inputs.of(*plan, step.set);
  if (!inputs) return compared.error = inputs.error(), compared;
  compared.kind = step_kind(*inputs);
  const auto simulation = predictors.with(*inputs, [&](sim::Predictor& predictor) {
    return predictor.simulate(inputs->plan, {.fidelity = definition.fidelity});
  });
  if (!simulation) return compared.error = simulation.error(), compared;
  compared.predicted = simulation->result.step.time_s;
  compared.peak_bytes = simulation->result.memory.peak_bytes;
  compared.comparable_bytes = sim::fullest_bytes(simulation->result.memory, peak_of(plan->memory));
  compared.capacity_bytes = simulation->result.memory.capacity_bytes;
  if (definition.residuals && step.seconds) {
    auto shares = step_shares(*inputs, predictors);
    if (!shares) return compared.error = shares.error(), compared;
    compared.shares = *shares;
  }
  const Naive naive = naive_prediction(inputs->plan, inputs->architecture, inputs->cluster, definition.naive_mfu);
  compared.baseline = naive.step.step.time_s;
  if (!ranges || !definition.intervals) return compared;
  auto likely = row_ranges(*inputs, simulation->result, step, peak_of(plan->memory));
  if (!likely) return compared.error = likely.error(), compared;
  compared.ranges = *likely;
  return compared;
}

// Returns the compared rows in their order.
std::vector<ComparedStep> compare_all(const StepCase& definition, const std::vector<PublishedStep>& steps,
                                      const InputsOf& inputs_of, bool ranges, const sim::Watch& watch) {
  std::vector<ComparedStep> compared(steps.size());
  RowInputs inputs{inputs_of};
  sim::PredictorPool predictors;
  sim::for_each_index(steps.size(), watch,
                      [&](std::size_t i) { compared[i] = compare(steps[i], definition, ranges, inputs, predictors); });
  return compared;
}

// Adds the range of each row's baseline by the location and spread of ln(measured / baseline) on the other sets, each
// of which counts the same; nothing to rows of a single set.
void add_baselines(std::vector<ComparedStep>& steps) {
  std::map<std::string, std::vector<double>> logarithms;  // by set
  for (const ComparedStep& row : steps)
    if (row.ranges.step) logarithms[row.step.set].push_back(std::log(*row.step.seconds / *row.baseline));
  if (logarithms.size() < 2) return;
  for (ComparedStep& row : steps) {
    if (!row.ranges.step) continue;
    double mean = 0, square = 0;
    for (const auto& [set, values] : logarithms) {
      if (set == row.step.set) continue;
      const auto all = static_cast<double>(values.size() * (logarithms.size() - 1));
      for (const double value : values) mean += value / all, square += value * value / all;
    }
    const double deviation = std::sqrt(std::max(square - mean * mean, 1e-12));
    row.ranges.baseline = lognormal_range(*row.baseline * std::exp(mean), deviation, *row.step.seconds);
  }
}

// Summarizes the predicted rows that `which` accepts.
template <class Which>
StepSummary summarize(std::string name, const std::vector<ComparedStep>& steps, const Which& which) {
  StepSummary summary;
  summary.name = std::move(name);
  std::vector<double> predictions, baselines, memory;
  for (const ComparedStep& step : steps) {
    if (!which(step.step)) continue;
    if (const auto error = step.prediction_error()) {
      predictions.push_back(*error);
      baselines.push_back(step.baseline_error().value_or(0));
    }
    if (const auto error = step.memory_error()) memory.push_back(*error);
    const auto right = step.right_about_fit();
    summary.stated_fits += right.has_value();
    summary.right_fits += right.value_or(false);
  }
  summary.prediction = errors_of(predictions);
  summary.baseline = errors_of(baselines);
  summary.memory = errors_of(memory);
  return summary;
}

const std::string& set_of(const ComparedStep& row) { return row.step.set; }

std::vector<StepSummary> summaries_of(const std::vector<ComparedStep>& steps) {
  std::vector<StepSummary> summaries;
  for (const std::string& set : model::distinct(steps, set_of)) {
    StepSummary summary = summarize(set, steps, [&](const PublishedStep& row) { return row.set == set; });
    if (summary.prediction.rows > 0) summaries.push_back(std::move(summary));
  }
  summaries.push_back(summarize("all", steps, [](const PublishedStep&) { return true; }));
  return summaries;
}

// Returns "column value" of the columns that the row states.
std::string stated(const PublishedStep& step, std::initializer_list<const char*> columns) {
  std::string out;
  for (const char* column : columns)
    if (const auto found = step.numbers.find(column); found != step.numbers.end())
      out += fmt::format("{} {} ", column, found->second);
  return out;
}

std::string run_of(const PublishedStep& step) {
  return fmt::format("{} {} {}", step.hardware, step.gemm,
                     stated(step, {"layers", "hidden", "heads", "ffn", "experts", "expert_ffn", "vocabulary", "gpus",
                                   "global_batch", "sequence"}));
}

std::string degrees_of(const PublishedStep& step) {
  return stated(step,
                {"tensor", "context", "pipeline", "expert", "expert_tensor", "data", "zero_stage", "micro_batch"});
}

// Returns the predicted rows as plans of their runs.
std::vector<OrderedRow> ordered_rows(const std::vector<ComparedStep>& steps) {
  std::vector<OrderedRow> rows;
  std::map<std::string, std::set<std::string>> degrees;
  for (const ComparedStep& compared : steps)
    if (compared.prediction_error())
      degrees[compared.step.set + run_of(compared.step)].insert(degrees_of(compared.step) + compared.step.recompute);
  for (const ComparedStep& compared : steps) {
    if (!compared.prediction_error()) continue;
    const PublishedStep& step = compared.step;
    const std::string run = run_of(step);
    const std::string plan =
        fmt::format("{}{} {} {} {} {}", degrees_of(step), stated(step, {"virtual_stages"}), step.sequence_parallel,
                    step.schedule, step.recompute, fmt::join(step.plan, " "));
    rows.push_back({step.set, run, plan, degrees[step.set + run].size() == 1, *step.seconds, *compared.predicted});
  }
  return rows;
}

std::vector<ResidualRow> residual_rows(const std::vector<ComparedStep>& steps) {
  std::vector<ResidualRow> rows;
  for (const ComparedStep& compared : steps)
    if (compared.prediction_error() && compared.shares)
      rows.push_back({compared.step.set, *compared.step.seconds, *compared.predicted, *compared.shares});
  return rows;
}

}  // namespace

bool is_step_case(const std::string& path) { return model::table_file_has(path, "steps"); }

model::Result<StepCase> load_step_case(const std::string& path) {
  StepCase definition;
  TRY(model::read_table_file(path, [&definition](TableReader& reader) { read_case(reader, definition); }));
  return definition;
}

std::vector<std::string> PublishedStep::lacking() const {
  std::vector<std::string> columns;
  for (const char* column : number_columns())
    if (!numbers.contains(column)) columns.emplace_back(column);
  if (!numbers.contains("zero_stage")) columns.emplace_back("zero_stage");
  for (const auto& [column, text] : {std::pair("gemm", &gemm), {"recompute", &recompute}, {"schedule", &schedule}})
    if (text->empty()) columns.emplace_back(column);
  if (!seconds && !out_of_memory()) columns.emplace_back("step_s");
  return columns;
}

std::optional<bool> PublishedStep::ran() const {
  if ((!seconds && !out_of_memory()) || std::ranges::find(assumed, "recompute") != assumed.end()) return std::nullopt;
  return !out_of_memory();
}

std::string PublishedStep::layout() const {
  std::string out;
  const auto add = [&](std::string_view column, std::string_view short_name, bool always = false) {
    const auto found = numbers.find(column);
    if (found != numbers.end() && (always || found->second > 1))
      out += fmt::format("{}{}{}", out.empty() ? "" : " ", short_name, found->second);
  };
  add("tensor", sequence_parallel ? "TP+SP" : "TP");
  add("context", "CP");
  add("pipeline", "PP");
  if (const auto found = numbers.find("virtual_stages"); found != numbers.end() && found->second > 1)
    out += fmt::format("x{}", found->second);
  add("expert", "EP");
  add("data", "DP");
  if (const auto found = numbers.find("zero_stage"); found != numbers.end() && found->second > 0)
    add("zero_stage", "ZeRO-", true);
  return out.empty() ? "-" : out;
}

model::Result<std::vector<PublishedStep>> read_published_steps(const std::string& path) {
  std::vector<std::string_view> needed = {"sequence_parallel", "zero_stage", "step_s", "memory_gib", "assumed"};
  for (const auto& [column, text] : step_texts) needed.emplace_back(column);
  for (const char* column : number_columns()) needed.emplace_back(column);
  const auto table = TRY(CsvTable::read(path, needed));
  std::vector<PublishedStep> steps;
  std::set<std::string> ids;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    auto step = TRY(step_of(table, row));
    if (!ids.insert(step.id).second) return table.wrong(row, "id", fmt::format("'{}' names two rows", step.id));
    steps.push_back(std::move(step));
  }
  return steps;
}

model::Result<StepPlan> step_plan(const PublishedStep& step, const StepCase& definition) {
  const StepHardware* hardware =
      TRY(named_by_case(definition.hardware, &StepHardware::name, step.hardware, step.id, "hardware"));
  const ModelWords& words = *TRY(words_of(step));
  StepPlan made{{}, hardware->profile, "device", {}};
  Changes changes = layout_changes(step, *hardware, words);
  for (const StepReading& reading : definition.readings) {
    if (!matches(reading, step)) continue;
    changes.insert(changes.end(), reading.plan.begin(), reading.plan.end());
    made.missing.insert(made.missing.end(), reading.missing.begin(), reading.missing.end());
    made.missing_tensors = made.missing_tensors || reading.missing_tensors;
    if (!reading.cluster.empty()) changes.push_back("cluster.topology=" + model::toml_string(reading.cluster));
    if (!reading.stack.empty()) changes.push_back("stack.name=" + model::toml_string(reading.stack));
    if (!reading.profile.empty()) made.profile = reading.profile;
    if (!reading.memory.empty()) made.memory = reading.memory;
  }
  changes.insert(changes.end(), step.plan.begin(), step.plan.end());
  if (!made.profile.empty()) changes.push_back("cluster.profile=" + model::toml_string(made.profile));
  made.plan = TRY(plan_of_row(step.id, changes));
  return made;
}

std::optional<double> ComparedStep::prediction_error() const { return model::relative_error(predicted, step.seconds); }

std::optional<double> ComparedStep::memory_error() const {
  return model::relative_error(comparable_bytes, step.memory_bytes);
}

std::optional<bool> ComparedStep::right_about_fit() const {
  const auto ran = step.ran();
  if (!peak_bytes || !ran) return std::nullopt;
  return (*peak_bytes <= capacity_bytes) == *ran;
}

std::optional<double> ComparedStep::baseline_error() const {
  return predicted ? model::relative_error(baseline, step.seconds) : std::nullopt;
}

bool ComparedDemand::holds() const {
  const ErrorStatistics& errors = summary.prediction;
  return errors.rows > 0 && errors.mean_absolute <= demand.mean_absolute_error &&
         std::abs(errors.bias) <= demand.bias && errors.mean_absolute < summary.baseline.mean_absolute;
}

bool ComparedDemand::reaches_aim() const {
  const ErrorStatistics& errors = summary.prediction;
  return errors.mean_absolute <= demand.aim_mean_absolute_error.value_or(INFINITY) &&
         std::abs(errors.bias) <= demand.aim_bias.value_or(INFINITY);
}

bool StepComparison::holds() const { return std::ranges::all_of(demands, &ComparedDemand::holds); }

bool IntervalScores::holds() const {
  return !demand || scores.empty() || demand->holds(scores.back().second.step.coverage);
}

IntervalScores interval_scores(const std::vector<StepComparison>& comparisons) {
  IntervalScores result;
  std::vector<ComparedStep> steps;
  std::vector<StepDemand> demands;  // on some hardware
  for (const StepComparison& comparison : comparisons) {
    if (!result.demand) result.demand = comparison.definition.interval;
    std::ranges::copy_if(comparison.steps, std::back_inserter(steps),
                         [](const ComparedStep& step) { return step.ranges.fits_probability.has_value(); });
    std::ranges::copy_if(comparison.definition.demands, std::back_inserter(demands),
                         [](const StepDemand& demand) { return !demand.hardware.empty(); });
  }
  if (steps.empty()) return result;
  add_baselines(steps);
  const auto add = [&](const std::string& name, const auto& which) {
    std::vector<RowRanges> ranges;
    for (const ComparedStep& step : steps)
      if (which(step.step)) ranges.push_back(step.ranges);
    result.scores.emplace_back(name, scores_of(ranges));
  };
  for (const std::string& set : model::distinct(steps, set_of))
    add(set, [&](const PublishedStep& step) { return step.set == set; });
  for (const StepDemand& demand : demands)
    add(demand.name, [&](const PublishedStep& step) { return matches(demand, step); });
  add("all", [](const PublishedStep&) { return true; });
  return result;
}

StepComparison compare_steps(const StepCase& definition, const std::vector<PublishedStep>& steps,
                             const InputsOf& inputs_of, bool ranges, const sim::Watch& watch) {
  StepComparison comparison;
  comparison.definition = definition;
  comparison.steps = compare_all(definition, steps, inputs_of, ranges, watch);
  comparison.summaries = summaries_of(comparison.steps);
  for (const StepDemand& demand : definition.demands) {
    const auto wanted = [&](const PublishedStep& row) { return matches(demand, row); };
    comparison.demands.push_back({demand, summarize(demand.name, comparison.steps, wanted)});
  }
  const std::vector<OrderedRow> ordered = ordered_rows(comparison.steps);
  comparison.orders = plan_orders(ordered);
  comparison.scatter = cluster_scatter(ordered);
  if (definition.residuals) comparison.residuals = residual_regressions(residual_rows(comparison.steps));
  return comparison;
}

}  // namespace plumbline::calibrate
