#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "calibrate/chunk/chunk.h"
#include "calibrate/import/kernel_classes.h"
#include "calibrate/import/kineto/import.h"
#include "cli/data.h"
#include "cli/import.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "reports/text/format.h"
#include "reports/text/table.h"

namespace plumbline::cli {
namespace {

using calibrate::ImportedChunk;
using calibrate::UnknownKernel;

constexpr std::size_t most_listed = 10;
constexpr std::size_t widest_name = 100;

void say_what_was_taken(const ImportedChunk& imported) {
  const auto pieces = imported.kernels + imported.copies;
  fmt::print(stderr, "device {}: kernels {}, copies and memory sets {}; with a phase {} of {}\n", imported.device,
             imported.kernels, imported.copies, imported.with_phase, pieces);
  if (imported.with_phase == 0)
    fmt::print(stderr, "no annotation names a phase: record with torch.profiler.record_function around the passes\n");
  if (imported.found.size() < 2) return;
  fmt::print(stderr, "kernels by device (--device takes another one): {}\n",
             calibrate::describe_devices(imported.found));
}

void list_unknown(const std::vector<UnknownKernel>& unknown, const std::string& classes) {
  if (unknown.empty()) return;
  using reports::Align;
  double seconds = 0;
  for (const UnknownKernel& kernel : unknown) seconds += kernel.seconds;
  fmt::print(stderr, "kernel names without a class: {}, {} in all; the longest:\n", unknown.size(),
             reports::duration(seconds));
  reports::Table table({{"time", Align::right}, {"count", Align::right}, {"kernel"}});
  for (std::size_t i = 0; i < std::min(unknown.size(), most_listed); ++i)
    table.add({reports::duration(unknown[i].seconds), std::to_string(unknown[i].count),
               unknown[i].name.substr(0, widest_name)});
  fmt::print(stderr, "{}add a pattern for them to a copy of {} and pass it with --classes\n", table.to_string(),
             classes);
}

}  // namespace

model::Result<void> import_kineto_trace(const ImportArguments& arguments) {
  const auto file = kernel_classes_file(arguments.classes);
  if (!file) return tl::unexpected(file.error());
  const auto classes = calibrate::load_kernel_classes(*file);
  if (!classes) return tl::unexpected(classes.error());
  const auto imported = [&] {
    ProgressBar bar("reading " + arguments.file);
    return calibrate::import_kineto(arguments.file, *classes,
                                    {arguments.device, [&](auto done, auto total) { bar.update(done, total); }});
  }();
  if (!imported) return tl::unexpected(imported.error());
  auto written = write_output(arguments.out, calibrate::to_csv(imported->timeline, imported->comments));
  if (!written) return written;
  say_what_was_taken(*imported);
  list_unknown(imported->unknown, arguments.classes.empty() ? "share/plumbline/kernels.toml" : arguments.classes);
  return {};
}

}  // namespace plumbline::cli
