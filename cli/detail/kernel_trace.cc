#include "cli/detail/kernel_trace.h"

#include <fstream>
#include <utility>

#include "calibrate/chunk/chunk.h"
#include "calibrate/import/kernel_classes.h"
#include "calibrate/import/kineto/import.h"
#include "cli/data.h"
#include "cli/progress.h"
#include "model/base/text.h"
#include "model/base/text_file.h"

namespace plumbline::cli {
namespace {

model::Result<KernelTrace> read_profile(const std::string& path, const calibrate::KernelClasses& classes) {
  ProgressBar bar("reading " + path);
  auto imported = TRY(
      calibrate::import_kineto(path, classes, {.progress = [&](auto done, auto total) { bar.update(done, total); }}));
  return KernelTrace{std::move(imported.timeline),
                     {.rank = imported.rank,
                      .world_size = imported.world_size,
                      .of_pipeline = imported.of_pipeline,
                      .plan_gpus = imported.plan_gpus,
                      .whole_step = imported.whole_step},
                     path,
                     imported.device_name};
}

model::Result<KernelTrace> read_table(const std::string& path, const calibrate::KernelClasses& classes) {
  const auto text = TRY(model::read_text_file(path));
  auto timeline = TRY(calibrate::parse_chunk(text, path, classes));
  const auto number = [&](std::string_view key) {
    return model::parse_number<int>(calibrate::chunk_comment(text, key));
  };
  return KernelTrace{std::move(timeline),
                     {.rank = number("rank").value_or(-1),
                      .world_size = number("world size").value_or(0),
                      .of_pipeline = calibrate::chunk_comment(text, "ranks") == "of the pipeline",
                      .plan_gpus = number("GPUs of the plan").value_or(0),
                      .whole_step = calibrate::chunk_comment(text, "step") == "whole"},
                     path,
                     calibrate::chunk_comment(text, "device")};
}

}  // namespace

bool is_profiler_trace(const std::string& path) {
  if (path.ends_with(".json.gz")) return true;
  if (!path.ends_with(".json")) return false;
  constexpr std::size_t beginning = 1 << 16;
  std::string text(beginning, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return false;
  return text[first] == '[' || text.find("\"traceEvents\"") != std::string::npos ||
         text.find("\"schemaVersion\"") != std::string::npos;
}

model::Result<KernelTrace> read_kernel_trace(const std::string& path_or_name, const std::string& classes) {
  const auto loaded = TRY(kernel_classes_file(classes).and_then(calibrate::load_kernel_classes));
  if (is_profiler_trace(path_or_name)) return read_profile(path_or_name, loaded);
  return read_table(TRY(resolve(Shipped::published, path_or_name)), loaded);
}

}  // namespace plumbline::cli
