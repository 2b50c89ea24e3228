// Measurements, topologies and component tables of other programs.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "calibrate/components/load.h"
#include "calibrate/import/components/import.h"
#include "calibrate/import/printed_files.h"
#include "calibrate/measurement/measurement_file.h"
#include "cli/import/import.h"
#include "cli/outputs.h"
#include "model/base/text_file.h"
#include "topologies/nccl_topology.h"

namespace plumbline::cli {

// Writes JSON Lines to a .jsonl file, else CSV.
model::Result<void> import_nccl_tests(const ImportArguments& arguments) {
  if (arguments.device || !arguments.classes.empty())
    return model::wrong_input(arguments.device ? "--device" : "--classes", "only for 'import kineto'");
  const auto text = TRY(model::read_text_file(arguments.file));
  const auto measurements = TRY(calibrate::parse_nccl_tests(text, arguments.file));
  const bool lines = arguments.out.ends_with(".jsonl");
  TRY(write_output(arguments.out, lines ? calibrate::to_jsonl(measurements) : calibrate::to_csv(measurements)));
  const calibrate::Measurement& first = measurements.values.front();
  fmt::print(stderr, "{} times of {} on {} x {}\n", measurements.values.size(), first.op, first.shape[1].second,
             first.device);
  return {};
}

// Prints to stderr what is assumed or left out.
model::Result<void> import_nccl_topology(const ImportArguments& arguments) {
  const auto imported = TRY(topologies::import_nccl_topology(arguments.file));
  TRY(write_output(arguments.out, imported.toml));
  for (const std::string& note : imported.notes) fmt::print(stderr, "{}\n", note);
  return {};
}

// Writes a file for each GPU and table below the folder, and reads it again as a fit does. Prints to stderr their rows.
model::Result<void> import_components(const ImportArguments& arguments) {
  if (arguments.out == "-") return model::wrong_input("--output", "component tables need a folder");
  const auto tables = TRY(calibrate::import_components(arguments.files, arguments.revision));
  for (const calibrate::ComponentFile& table : tables) {
    const std::filesystem::path path = std::filesystem::path(arguments.out) / table.path;
    TRY(write_output_in(arguments.out, table.path, table.text));
    const auto times = TRY(calibrate::check_component_table(path.string()));
    fmt::print(stderr, "{}: rows read {}, times written {}\n", path.string(), table.read, times);
  }
  return {};
}

}  // namespace plumbline::cli
