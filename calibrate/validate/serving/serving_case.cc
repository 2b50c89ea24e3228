#include "calibrate/validate/serving/serving_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "calibrate/measurement/csv_table.h"
#include "calibrate/validate/detail/case_rows.h"
#include "model/architecture/metrics.h"
#include "model/base/decimal.h"
#include "model/base/distinct.h"
#include "model/base/table_reader.h"
#include "model/base/text.h"
#include "sim/interval/interval.h"
#include "sim/serving/serving.h"

namespace plumbline::calibrate {
namespace {

constexpr const char* serving_numbers[] = {"gpus",        "tensor",       "attention_data", "expert",
                                           "concurrency", "input_tokens", "output_tokens"};
constexpr double milliseconds = 1e-3;
constexpr std::string_view of_profiles = "profile.";  // before the name of a constant that a row states

ServingDemand read_serving_demand(model::TableReader& table) {
  ServingDemand demand;
  READ_REQUIRED(table, demand, name, figure);
  if (demand.figure != "step" && demand.figure != "TPOT" && demand.figure != "TTFT" && demand.figure != "tokens/s")
    table.fail("figure", table.line_of("figure"), fmt::format("unknown figure '{}'", demand.figure),
               "known: step, TPOT, TTFT, tokens/s");
  READ_OPTIONAL(table, demand, rows, sets, models, limit, aim);
  return demand;
}

model::Result<void> read_phase(const CsvTable& table, std::size_t row, PublishedServing& serving) {
  std::string phase = table.text(row, "phase");
  serving.average = phase.starts_with("average ") || phase.starts_with("unlike ");
  if (serving.average) phase = phase.substr(phase.find(' ') + 1);
  serving.as_many_as_fit = phase == "offline";
  if (phase == "prefill") serving.phase = ServingPhase::prefill;
  if (phase == "decode") serving.phase = ServingPhase::decode;
  if (phase == "prefill" || phase == "decode" || phase == "mixed" || phase == "offline") return {};
  return table.wrong(row, "phase", fmt::format("'{}' is none of prefill, decode, mixed, offline", phase));
}

model::Result<void> read_figures(const CsvTable& table, std::size_t row, PublishedServing& serving) {
  serving.step_s = TRY(table.optional_positive(row, "step_ms", milliseconds));
  serving.tpot_s = TRY(table.optional_positive(row, "tpot_ms", milliseconds));
  serving.tokens_per_s_per_gpu = TRY(table.optional_positive(row, "tokens_per_s_per_gpu"));
  if (table.has("ttft_ms")) serving.ttft_s = TRY(table.optional_positive(row, "ttft_ms", milliseconds));
  return {};
}

constexpr std::size_t serving_draws = 64;

const model::ServingPool& pool_of(const model::ServingResult& result, ServingPhase phase) {
  return phase == ServingPhase::prefill ? result.pools.front() : result.pools.back();
}

// Returns the seconds in which the memory reads weights and cache once.
double roofline_step(const sim::Inputs& inputs, const model::ServingResult& result, const model::ServingPool& pool) {
  const auto& keys = inputs.plan.inference;
  const double tokens = static_cast<double>(keys.input_tokens) + static_cast<double>(keys.output_tokens) / 2;
  const double cache = result.batch_per_gpu * tokens * result.kv_bytes_per_token;
  return (pool.weights_bytes + cache) / inputs.cluster.device.memory_bandwidth.value();
}

// Returns the tokens of a prompt per second and GPU at the peak of the weights' format.
double roofline_prefill(const sim::Inputs& inputs) {
  const model::Device& device = inputs.cluster.device;
  const bool narrow = model::is_quantized(inputs.plan.inference.weights) && device.fp8_peak.value() > 0;
  const double peak = (narrow ? device.fp8_peak : device.bf16_peak).value();
  return peak / (2 * model_metrics(inputs.architecture, inputs.plan.inference.input_tokens).active_parameters);
}

// Gives a figure the range of one of the result that it is uncertain like.
void add_range(const model::Quantiles& quantiles, double of, const sim::DrawnSpread& drawn, ComparedFigure& figure) {
  const double factor = figure.predicted / of;
  figure.range = {quantiles.scaled(factor), figure.published};
  figure.drawn = drawn;
}

// Adds the range of each figure of tokens that users wait for.
void add_ranges(const PublishedServing& row, const model::ServingResult& result, const sim::DrawnServing& drawn,
                std::vector<ComparedFigure>& figures) {
  if (row.phase == ServingPhase::prefill || row.average) return;
  const model::ServingInterval& interval = drawn.interval;
  for (ComparedFigure& figure : figures)
    if (figure.name == "TTFT")
      add_range(*interval.ttft_s, result.ttft_s, drawn.drawn.ttft, figure);
    else if (figure.name != "tokens/s")
      add_range(*interval.tpot_s, result.tpot_s, drawn.drawn.tpot, figure);
    else
      add_range(*interval.output_tokens_per_s_per_gpu, result.output_tokens_per_s_per_gpu, drawn.drawn.rate, figure);
}

// A decode row is one step, without prefill; of other rows TPOT and rate hold what prefill takes.
std::vector<ComparedFigure> figures_of(const PublishedServing& row, const sim::Inputs& inputs,
                                       const model::ServingResult& result) {
  const bool decodes = row.phase == ServingPhase::decode;
  const double step = result.decode_step_s, tpot = decodes ? step / result.tokens_per_step : result.tpot_s;
  const double read = roofline_step(inputs, result, pool_of(result, row.phase));
  const double pool_rate = result.batch_per_gpu * result.tokens_per_step;
  std::vector<ComparedFigure> figures;
  if (row.step_s) figures.push_back({"step", *row.step_s, step, read, {}});
  if (row.tpot_s) figures.push_back({"TPOT", *row.tpot_s, tpot, read / result.tokens_per_step, {}});
  if (row.ttft_s && row.phase == ServingPhase::mixed) {
    const double instance = roofline_prefill(inputs) * static_cast<double>(result.pools.front().gpus_per_instance);
    figures.push_back(
        {"TTFT", *row.ttft_s, result.ttft_s, static_cast<double>(inputs.plan.inference.input_tokens) / instance, {}});
  }
  if (!row.tokens_per_s_per_gpu) return figures;
  ComparedFigure rate{"tokens/s", *row.tokens_per_s_per_gpu, result.output_tokens_per_s_per_gpu, pool_rate / read, {}};
  if (row.phase == ServingPhase::prefill) {
    rate.predicted = result.prefill_tokens_per_s_per_gpu / (1 - inputs.plan.inference.prefix_hit_rate);
    rate.roofline = roofline_prefill(inputs);
  } else if (decodes) {
    rate.predicted = pool_rate / step;
  }
  figures.push_back(std::move(rate));
  return figures;
}

ComparedServing compare_row(const PublishedServing& row, const ServingCase& definition,
                            const ServingInputsOf& inputs_of, std::mutex& reads, bool ranges) {
  ComparedServing compared{.row = row, .lacking = row.lacking()};
  if (!compared.lacking.empty()) return compared;
  const auto plan = serving_plan(row, definition);
  if (!plan) return compared.error = plan.error(), compared;
  auto inputs = [&] {
    const std::scoped_lock lock(reads);
    return inputs_of(plan->plan, plan->profile, row.set);
  }();
  if (!inputs) return compared.error = inputs.error(), compared;
  if (!plan->constants.empty()) {
    auto profile = inputs->profile.with_changes(plan->constants);
    if (!profile) {
      model::Error error = profile.error();
      error.key.insert(0, of_profiles);
      return compared.error = about_row(row.id, error), compared;
    }
    inputs->profile = std::move(*profile);
  }
  compared.kind = serving_kind(*inputs);
  const auto result = sim::ServingPredictor(*inputs).predict(inputs->plan);
  if (!result) return compared.error = result.error(), compared;
  compared.figures = figures_of(row, *inputs, *result);
  if (!ranges) return compared;
  const auto drawn =
      sim::draw_serving_interval(*inputs, *result, {.draws = serving_draws, .threads = 1, .parts = false});
  if (!drawn) return compared.error = drawn.error(), compared;
  add_ranges(row, *result, *drawn, compared.figures);
  return compared;
}

// Returns the compared rows in their order, on all cores.
std::vector<ComparedServing> compare_rows(const ServingCase& definition, const std::vector<PublishedServing>& rows,
                                          const ServingInputsOf& inputs_of, bool ranges, const sim::Watch& watch) {
  std::vector<ComparedServing> compared(rows.size());
  std::mutex reads;
  sim::for_each_index(rows.size(), watch,
                      [&](std::size_t i) { compared[i] = compare_row(rows[i], definition, inputs_of, reads, ranges); });
  return compared;
}

const ComparedFigure* figure_of(const ComparedServing& row, const std::string& name) {
  const auto found = std::ranges::find(row.figures, name, &ComparedFigure::name);
  return found == row.figures.end() ? nullptr : &*found;
}

template <class Which>
ServingSummary summarize_figure(std::string name, const std::string& figure, const std::vector<ComparedServing>& rows,
                                const Which& which) {
  std::vector<double> predictions, rooflines;
  std::vector<PredictedRange> ranges;
  for (const ComparedServing& row : rows) {
    const ComparedFigure* found = which(row.row) ? figure_of(row, figure) : nullptr;
    if (found == nullptr) continue;
    predictions.push_back(found->error());
    rooflines.push_back(found->roofline / found->published - 1);
    if (found->range) ranges.push_back(*found->range);
  }
  return {std::move(name), figure, errors_of(predictions), errors_of(rooflines), score_of(ranges)};
}

std::vector<ServingSummary> summaries_of_sets(const std::vector<ComparedServing>& rows) {
  std::vector<ServingSummary> summaries;
  std::vector<std::string> sets;
  for (const ComparedServing& row : rows)
    if (!row.row.average) model::add_distinct(sets, row.row.set);
  for (const std::string& set : sets) {
    for (const char* figure : {"step", "TPOT", "TTFT", "tokens/s"}) {
      ServingSummary summary = summarize_figure(
          set, figure, rows, [&](const PublishedServing& other) { return other.set == set && !other.average; });
      if (summary.prediction.rows > 0) summaries.push_back(std::move(summary));
    }
  }
  return summaries;
}

bool wanted_by(const ServingDemand& demand, const PublishedServing& row) {
  const auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  };
  return !row.average && (has(demand.rows, row.id) ||
                          (has(demand.sets, row.set) && (demand.models.empty() || has(demand.models, row.model))));
}

// Returns what rows share that differ in tensor degree or concurrency alone.
std::string load_of(const PublishedServing& row) {
  return fmt::format("{} {} {} {} {}", row.model, row.hardware, row.weights, row.numbers.at("input_tokens"),
                     row.numbers.at("output_tokens"));
}

std::vector<PlanOrder> orders_of(const std::vector<ComparedServing>& rows) {
  std::vector<OrderedRow> ordered;
  for (const ComparedServing& row : rows)
    if (const ComparedFigure* tpot = figure_of(row, "TPOT"); tpot != nullptr && row.row.phase == ServingPhase::mixed)
      ordered.push_back({row.row.set, load_of(row.row),
                         fmt::format("TP{} C{}", row.row.numbers.at("tensor"), row.row.numbers.at("concurrency")),
                         false, tpot->published, tpot->predicted});
  return ordered.empty() ? std::vector<PlanOrder>{} : plan_orders(ordered);
}

std::vector<TensorRatios> ratios_of(const std::vector<ComparedServing>& rows) {
  struct Base {
    std::int64_t tensor;
    const ComparedFigure* tpot;
  };
  const auto key = [](const PublishedServing& row) {
    return fmt::format("{} {} C{}", row.set, load_of(row), row.numbers.at("concurrency"));
  };
  std::map<std::string, Base> bases;
  for (const ComparedServing& row : rows) {
    const ComparedFigure* tpot = figure_of(row, "TPOT");
    if (tpot == nullptr || row.row.phase != ServingPhase::mixed) continue;
    const Base own{row.row.numbers.at("tensor"), tpot};
    const auto [at, added] = bases.try_emplace(key(row.row), own);
    if (!added && own.tensor < at->second.tensor) at->second = own;
  }
  std::map<std::string, std::vector<double>> errors;
  for (const ComparedServing& row : rows) {
    const ComparedFigure* tpot = figure_of(row, "TPOT");
    if (tpot == nullptr || row.row.phase != ServingPhase::mixed) continue;
    const Base& base = bases.at(key(row.row));
    if (base.tensor == row.row.numbers.at("tensor")) continue;
    errors[row.row.set].push_back(tpot->predicted / base.tpot->predicted / (tpot->published / base.tpot->published) -
                                  1);
  }
  std::vector<TensorRatios> ratios;
  for (const auto& [set, of] : errors) ratios.push_back({set, of.size(), errors_of(of).median_absolute});
  return ratios;
}

// The line a + P x through points of x = 1 / OSL.
struct SplitTime {
  double decode = 0, prompts = 0;
};

template <class Time>
SplitTime split_of(const std::map<std::int64_t, const ComparedFigure*>& by_output, const Time& time) {
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [output, figure] : by_output) {
    const double inverse = 1 / static_cast<double>(output);
    x += inverse, y += time(*figure), xx += inverse * inverse, xy += inverse * time(*figure);
  }
  const auto points = static_cast<double>(by_output.size());
  const double prompts = (points * xy - x * y) / (points * xx - x * x);
  return {(y - prompts * x) / points, prompts};
}

std::vector<TokenTimeSplit> splits_of(const std::vector<ComparedServing>& rows) {
  std::map<std::string, std::map<std::string, std::map<std::int64_t, const ComparedFigure*>>> sets;
  for (const ComparedServing& row : rows) {
    const ComparedFigure* tpot = figure_of(row, "TPOT");
    if (tpot == nullptr || row.row.phase != ServingPhase::mixed || row.row.as_many_as_fit) continue;
    const auto number = [&](const char* column) { return row.row.numbers.at(column); };
    const std::string alike = fmt::format("{} {} {} {} {} {}", row.row.model, row.row.hardware, row.row.weights,
                                          number("tensor"), number("concurrency"), number("input_tokens"));
    sets[row.row.set][alike].try_emplace(number("output_tokens"), tpot);
  }
  std::vector<TokenTimeSplit> splits;
  for (const auto& [set, deployments] : sets) {
    std::vector<double> decode, prompts;
    for (const auto& [name, by_output] : deployments) {
      if (by_output.size() < 2) continue;
      const SplitTime published = split_of(by_output, [](const ComparedFigure& figure) { return figure.published; });
      const SplitTime predicted = split_of(by_output, [](const ComparedFigure& figure) { return figure.predicted; });
      const auto& [shortest, figure] = *by_output.begin();
      decode.push_back(predicted.decode / published.decode - 1);
      prompts.push_back((predicted.prompts - published.prompts) / static_cast<double>(shortest) / figure->published);
    }
    if (!decode.empty()) splits.push_back({set, errors_of(decode), errors_of(prompts)});
  }
  return splits;
}

std::vector<ComparableRows> engines_of(const std::vector<ComparedServing>& rows) {
  std::map<std::string, ComparableRows> engines;
  for (const ComparedServing& row : rows) {
    ComparableRows& engine = engines[row.row.engine];
    engine.engine = row.row.engine;
    if (row.figures.empty() || row.row.average || !row.row.missing.empty()) continue;
    ++engine.rows;
    model::add_distinct(engine.sets, row.row.set);
  }
  std::vector<ComparableRows> all;
  for (auto& [name, engine] : engines) all.push_back(std::move(engine));
  return all;
}

}  // namespace

bool is_serving_case(const std::string& path) { return model::table_file_has(path, "deployments"); }

model::Result<ServingCase> load_serving_case(const std::string& path) {
  ServingCase definition;
  TRY(model::read_table_file(path, [&](model::TableReader& reader) {
    definition.name = reader.text("name");
    definition.tables = reader.text_or_texts("deployments");
    reader.optional_tables("hardware", [&](model::TableReader& table) {
      definition.hardware.push_back(
          {table.text("name"), table.text("topology"), table.optional_text("device"), table.optional_text("profile")});
    });
    reader.optional_tables("model", [&](model::TableReader& table) {
      definition.models.emplace_back(table.text("name"), table.text("config"));
    });
    reader.optional_tables(
        "demand", [&](model::TableReader& table) { definition.demands.push_back(read_serving_demand(table)); });
  }));
  return definition;
}

std::vector<std::string> PublishedServing::lacking() const {
  std::vector<std::string> names;
  for (const char* column : serving_numbers) {
    const bool needless =
        std::string_view(column) == "concurrency" && (as_many_as_fit || phase == ServingPhase::prefill);
    if (!needless && !numbers.contains(column)) names.emplace_back(column);
  }
  if (weights.empty()) names.emplace_back("weights");
  return names;
}

model::Result<std::vector<PublishedServing>> read_published_serving(const std::string& path) {
  const auto table = TRY(CsvTable::read(
      path, {"id",          "set",          "model",          "hardware", "phase",   "engine",
             "gpus",        "tensor",       "attention_data", "expert",   "weights", "kv_cache",
             "concurrency", "input_tokens", "output_tokens",  "step_ms",  "tpot_ms", "tokens_per_s_per_gpu",
             "plan",        "missing"}));
  std::vector<PublishedServing> rows;
  std::set<std::string> ids;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    PublishedServing serving{.id = table.text(row, "id"),
                             .set = table.text(row, "set"),
                             .model = table.text(row, "model"),
                             .hardware = table.text(row, "hardware"),
                             .engine = table.text(row, "engine"),
                             .weights = table.text(row, "weights"),
                             .kv_cache = table.text(row, "kv_cache")};
    if (!ids.insert(serving.id).second) return table.wrong(row, "id", "two rows have this id");
    TRY(read_phase(table, row, serving));
    for (const char* column : serving_numbers)
      if (!table.text(row, column).empty()) serving.numbers[column] = TRY(table.whole(row, column));
    TRY(read_figures(table, row, serving));
    serving.plan = table.parts(row, "plan", ';');
    serving.missing = table.parts(row, "missing", ';');
    rows.push_back(std::move(serving));
  }
  return rows;
}

model::Result<ServingPlan> serving_plan(const PublishedServing& row, const ServingCase& definition) {
  const ServingHardware* hardware =
      TRY(named_by_case(definition.hardware, &ServingHardware::name, row.hardware, row.id, "hardware"));
  using Model = std::pair<std::string, std::string>;
  const Model* served = TRY(named_by_case(definition.models, &Model::first, row.model, row.id, "model"));
  const auto number = [&](const char* column) { return row.numbers.at(column); };
  std::vector<std::string> changes = {"model.config=" + model::toml_string(served->second),
                                      "cluster.topology=" + model::toml_string(hardware->topology),
                                      fmt::format("cluster.gpus={}", number("gpus")),
                                      fmt::format("parallelism.tensor={}", number("tensor")),
                                      fmt::format("parallelism.expert={}", number("expert")),
                                      "inference.engine=" + model::toml_string(row.engine),
                                      fmt::format("inference.attention_data={}", number("attention_data")),
                                      fmt::format("inference.input_tokens={}", number("input_tokens")),
                                      fmt::format("inference.output_tokens={}", number("output_tokens")),
                                      "inference.weights=" + model::toml_string(row.weights)};
  if (!row.kv_cache.empty()) changes.push_back("inference.kv_cache=" + model::toml_string(row.kv_cache));
  if (!hardware->device.empty()) changes.push_back("cluster.device=" + model::toml_string(hardware->device));
  if (!hardware->profile.empty()) changes.push_back("cluster.profile=" + model::toml_string(hardware->profile));
  const auto concurrency = row.numbers.find("concurrency");
  changes.push_back(
      fmt::format("inference.concurrency={}", concurrency == row.numbers.end() ? 0 : concurrency->second));
  // The requests of such a row all decode: none of them waits for its first token.
  if (row.phase == ServingPhase::decode) changes.emplace_back("inference.arrivals=\"waves\"");
  std::vector<model::ConstantChange> constants;
  for (const std::string& change : row.plan) {
    if (!change.starts_with(of_profiles)) {
      changes.push_back(change);
      continue;
    }
    const std::size_t equals = std::min(change.find('='), change.size());
    const auto value = model::parse_decimal(std::string_view(change).substr(std::min(equals + 1, change.size())));
    if (!value) return tl::unexpected(about_row(row.id, fmt::format("'{}' has no number", change), "write KEY=NUMBER"));
    constants.push_back({change.substr(of_profiles.size(), equals - of_profiles.size()), value->value()});
  }
  return ServingPlan{TRY(plan_of_row(row.id, changes)), hardware->profile, std::move(constants)};
}

model::Result<std::vector<ExampleFigure>> load_example_figures(const std::string& path) {
  const auto table =
      TRY(CsvTable::read(path, {"plan", "quantity", "name", "value", "unit", "scale", "reason", "source"}));
  std::vector<ExampleFigure> figures;
  for (std::size_t row = 0; row < table.rows(); ++row)
    figures.push_back({table.text(row, "plan"), table.text(row, "quantity"), table.text(row, "name"),
                       TRY(table.positive(row, "value")), table.text(row, "unit"), TRY(table.positive(row, "scale")),
                       table.text(row, "reason"), table.text(row, "source")});
  return figures;
}

bool ComparedServingDemand::holds() const {
  return !demand.limit || (summary.prediction.rows > 0 && summary.prediction.median_absolute <= *demand.limit);
}

bool ComparedServingDemand::reaches_aim() const {
  return summary.prediction.rows > 0 && (!demand.aim || summary.prediction.median_absolute <= *demand.aim);
}

bool ServingComparison::holds() const { return std::ranges::all_of(demands, &ComparedServingDemand::holds); }

ServingComparison compare_serving(const ServingCase& definition, const std::vector<PublishedServing>& rows,
                                  const ServingInputsOf& inputs_of, bool ranges, const sim::Watch& watch) {
  ServingComparison comparison{.definition = definition};
  comparison.rows = compare_rows(definition, rows, inputs_of, ranges, watch);
  comparison.summaries = summaries_of_sets(comparison.rows);
  for (const ServingDemand& demand : definition.demands)
    comparison.demands.push_back(
        {demand, summarize_figure(demand.name, demand.figure, comparison.rows,
                                  [&](const PublishedServing& row) { return wanted_by(demand, row); })});
  comparison.orders = orders_of(comparison.rows);
  comparison.ratios = ratios_of(comparison.rows);
  comparison.splits = splits_of(comparison.rows);
  comparison.engines = engines_of(comparison.rows);
  return comparison;
}

}  // namespace plumbline::calibrate
