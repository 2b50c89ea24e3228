#include "calibrate/validate/step_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "calibrate/measurement/csv_table.h"
#include "model/base/table_reader.h"

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

model::Result<PublishedStep> step_of(const CsvTable& table, std::size_t row) {
  PublishedStep step;
  const std::pair<const char*, std::string*> texts[] = {{"id", &step.id},
                                                        {"set", &step.set},
                                                        {"variant", &step.variant},
                                                        {"model", &step.model},
                                                        {"model_type", &step.model_type},
                                                        {"hardware", &step.hardware},
                                                        {"recompute", &step.recompute},
                                                        {"schedule", &step.schedule},
                                                        {"gemm", &step.gemm},
                                                        {"time", &step.time},
                                                        {"status", &step.status},
                                                        {"source", &step.source}};
  for (const auto& [column, text] : texts) *text = table.text(row, column);
  step.sequence_parallel = table.text(row, "sequence_parallel") == "yes";
  step.assumed = table.parts(row, "assumed", '+');
  step.plan = table.parts(row, "plan", ';');
  TRY(read_numbers(table, row, step));
  TRY(check_degrees(table, row, step));
  step.seconds = TRY(table.optional_positive(row, "step_s"));
  step.memory_bytes = TRY(table.optional_positive(row, "memory_gib", bytes_per_gib));
  return step;
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
  const std::pair<const char*, const std::string*> texts[] = {
      {"gemm", &gemm}, {"recompute", &recompute}, {"schedule", &schedule}};
  for (const auto& [column, text] : texts)
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
  std::vector<std::string_view> needed = {
      "id",         "set",    "variant",   "model",    "model_type", "hardware", "sequence_parallel",
      "zero_stage", "gemm",   "recompute", "schedule", "step_s",     "time",     "memory_gib",
      "assumed",    "status", "source"};
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

}  // namespace plumbline::calibrate
