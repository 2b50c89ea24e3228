#include "calibrate/validate/step_case.h"

#include <fmt/format.h>

#include "calibrate/toml/table_reader.h"

namespace plumbline::calibrate {
namespace {

using detail::TableReader;

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

}  // namespace

bool is_step_case(const std::string& path) { return detail::table_file_has(path, "steps"); }

model::Result<StepCase> load_step_case(const std::string& path) {
  StepCase definition;
  TRY(detail::read_table_file(path, [&definition](TableReader& reader) { read_case(reader, definition); }));
  return definition;
}

}  // namespace plumbline::calibrate
