#include "calibrate/validate/serving/serving_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "calibrate/measurement/csv_table.h"
#include "calibrate/validate/detail/case_rows.h"
#include "model/base/table_reader.h"
#include "model/base/text.h"

namespace plumbline::calibrate {
namespace {

constexpr const char* serving_numbers[] = {"gpus",        "tensor",       "attention_data", "expert",
                                           "concurrency", "input_tokens", "output_tokens"};
constexpr double milliseconds = 1e-3;

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
  const auto hardware = std::ranges::find(definition.hardware, row.hardware, &ServingHardware::name);
  if (hardware == definition.hardware.end())
    return tl::unexpected(about_row(row.id, fmt::format("the case has no hardware '{}'", row.hardware),
                                    "add a [[hardware]] table with this name"));
  const auto served = std::ranges::find(definition.models, row.model, &std::pair<std::string, std::string>::first);
  if (served == definition.models.end())
    return tl::unexpected(about_row(row.id, fmt::format("the case has no model '{}'", row.model),
                                    "add a [[model]] table with this name"));
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
  changes.insert(changes.end(), row.plan.begin(), row.plan.end());
  return ServingPlan{TRY(plan_of_row(row.id, changes)), hardware->profile};
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

}  // namespace plumbline::calibrate
