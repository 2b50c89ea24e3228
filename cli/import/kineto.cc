#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "calibrate/chunk/chunk.h"
#include "calibrate/import/kernel_classes.h"
#include "calibrate/import/kineto/import.h"
#include "cli/data.h"
#include "cli/import/import.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "reports/text/table.h"

namespace plumbline::cli {
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
  const auto imported = [&] {
    ProgressBar bar("reading " + arguments.file);
    return calibrate::import_kineto(
        arguments.file, classes,
        {arguments.device, [&](auto done, auto total) { bar.update(done, total); }, arguments.step});
  }();
  if (!imported) return tl::unexpected(imported.error());
  TRY(write_output(arguments.out, calibrate::to_csv(imported->timeline, imported->comments)));
  print_what_was_taken(*imported);
  list_unknown(*imported, arguments.classes.empty() ? "share/plumbline/kernels.toml" : arguments.classes);
  return {};
}

}  // namespace plumbline::cli
