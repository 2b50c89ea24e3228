// Measurements, topologies and component tables of other programs.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "calibrate/chunk/chunk.h"
#include "calibrate/components/load.h"
#include "calibrate/import/components/import.h"
#include "calibrate/import/kernel_classes.h"
#include "calibrate/import/kineto/import.h"
#include "calibrate/import/printed_files.h"
#include "calibrate/measurement/measurement_file.h"
#include "cli/data.h"
#include "cli/import/import.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "model/base/text_file.h"
#include "reports/text/table.h"
#include "topologies/nccl_topology.h"

namespace plumbline::cli {

// Writes JSON Lines to a .jsonl file, else CSV.
model::Result<void> import_nccl_tests(const ImportArguments& arguments) {
  const auto text = TRY(model::read_file(arguments.file));
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

namespace {

void print_what_was_taken(const calibrate::ImportedChunk& imported) {
  const auto pieces = imported.kernels + imported.copies;
  fmt::print(stderr, "device {}: kernels {}, copies and memory sets {}; with a phase {} of {}\n", imported.device,
             imported.kernels, imported.copies, imported.with_phase, pieces);
  for (const std::string& finding : imported.findings) fmt::print(stderr, "{}\n", finding);
  if (imported.with_phase == 0)
    fmt::print(stderr, "no kernel has a phase: record with torch.profiler.record_function around the passes\n");
  if (imported.found.size() < 2) return;
  fmt::print(stderr, "kernels by device (--device takes another one): {}\n",
             calibrate::describe_devices(imported.found));
}

void list_unknown(const calibrate::ImportedChunk& imported, const std::string& classes) {
  constexpr std::size_t most_listed = 10, widest_name = 100;
  constexpr double percent = 100, ps_per_s = 1e12;
  const std::vector<calibrate::UnknownKernel>& unknown = imported.unknown;
  if (unknown.empty()) return;
  double seconds = 0, all = 0;
  for (const calibrate::UnknownKernel& kernel : unknown) seconds += kernel.seconds;
  for (const model::Span& span : imported.timeline.spans)
    if (span.kernel >= 0) all += static_cast<double>(span.duration_ps) / ps_per_s;
  fmt::print(stderr, "kernel names without a class: {}, {} in all, {:.1f} % of the kernels' time; the longest:\n",
             unknown.size(), reports::duration(seconds), all > 0 ? percent * seconds / all : 0);
  reports::Table table(">time | >count | kernel");
  for (std::size_t i = 0; i < std::min(unknown.size(), most_listed); ++i)
    table.add({reports::duration(unknown[i].seconds), std::to_string(unknown[i].count),
               unknown[i].name.substr(0, widest_name)});
  fmt::print(stderr, "{}add a pattern for them to a copy of {} and pass it with --classes\n", table.to_string(),
             classes);
}

}  // namespace

// Prints to stderr the selected kernels, and those without a class.
model::Result<void> import_kineto_trace(const ImportArguments& arguments) {
  const auto classes = TRY(kernel_classes_file(arguments.classes).and_then(calibrate::load_kernel_classes));
  const auto imported = TRY([&] {
    ProgressBar bar("reading " + arguments.file);
    return calibrate::import_kineto(
        arguments.file, classes,
        {arguments.device, [&](auto done, auto total) { bar.update(done, total); }, arguments.step});
  }());
  TRY(write_output(arguments.out, calibrate::to_csv(imported.timeline, imported.comments)));
  print_what_was_taken(imported);
  list_unknown(imported, arguments.classes.empty() ? "share/plumbline/kernels.toml" : arguments.classes);
  return {};
}

}  // namespace plumbline::cli
