#include "calibrate/validate/step_case.h"

#include <fmt/format.h>

#include "calibrate/toml/table_reader.h"

namespace plumbline::calibrate {
namespace {

using detail::TableReader;

StepHardware read_hardware(TableReader& reader) {
  StepHardware hardware;
  hardware.name = reader.text("name");
  hardware.topology = reader.text("topology");
  hardware.device = reader.optional_text("device");
  hardware.profile = reader.text("profile");
  hardware.plan = reader.optional_texts("plan");
  return hardware;
}

StepReading read_reading(TableReader& reader) {
  StepReading reading;
  reading.set = reader.text("set");
  reading.variant = reader.optional_text("variant");
  reading.hardware = reader.optional_text("hardware");
  reading.cluster = reader.optional_text("cluster");
  reading.profile = reader.optional_text("profile");
  reading.stack = reader.optional_text("stack");
  reading.plan = reader.optional_texts("plan");
  reading.missing = reader.optional_texts("missing");
  reading.missing_tensors = reader.flag("missing_tensors", false);
  reading.memory = reader.optional_text("memory");
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
  demand.hardware = reader.optional_texts("hardware");
  demand.sets = reader.optional_texts("sets");
  demand.mean_absolute_error = reader.positive("mean_absolute_error");
  demand.bias = reader.positive("bias");
  demand.aim_mean_absolute_error = reader.optional_positive("aim_mean_absolute_error");
  demand.aim_bias = reader.optional_positive("aim_bias");
  return demand;
}

IntervalDemand read_interval(TableReader& reader) {
  IntervalDemand demand;
  reader.require("coverage");
  demand.coverage = reader.optional_shares("coverage").value_or(demand.coverage);
  demand.aim_coverage = reader.optional_shares("aim_coverage");
  demand.aim_set_coverage = reader.optional_positive("aim_set_coverage");
  demand.aim_half_width = reader.optional_positive("aim_half_width");
  demand.aim_mean_absolute_error = reader.optional_positive("aim_mean_absolute_error");
  demand.aim_bias = reader.optional_positive("aim_bias");
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
  definition.residuals = reader.flag("residuals", false);
  definition.intervals = reader.flag("intervals", true);
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
