#include "cli/inputs.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <utility>

#include "calibrate/chunk/chunk.h"
#include "calibrate/import/kernel_classes.h"
#include "calibrate/import/kineto/import.h"
#include "calibrate/measurement/measurement.h"
#include "calibrate/validate/component_case.h"
#include "calibrate/validate/serving/serving_case.h"
#include "calibrate/validate/step_case.h"
#include "cli/data.h"
#include "cli/progress.h"
#include "model/base/text.h"
#include "model/base/text_file.h"

namespace plumbline::cli {
namespace {

using model::Result;
namespace fs = std::filesystem;

// Returns the recipe of a shipped model, or one of its config.json; nullopt when no model has that name.
std::optional<Result<sim::Recipe>> from_model(const std::string& name, const std::vector<std::int64_t>& gpus,
                                              std::optional<double> tokens) {
  const auto config = resolve_model("", name);
  if (!config) return std::nullopt;
  const auto root = TRY(data_folder());
  const std::string stem = fs::path(*config).stem().string();
  const std::string published = (fs::path(root) / "examples/recipes" / (stem + ".toml")).string();
  return model::is_file(published) ? sim::recipe_of_plan(published)
                                   : sim::recipe_of_model(*config, "models/" + stem + ".json", gpus, tokens);
}

Result<sim::Recipe> unknown(const std::string& wanted) {
  std::error_code ignored;
  if (fs::exists(wanted, ignored)) TRY(resolve(Shipped::plan, wanted));  // a folder, or a pipe
  const fs::path examples = fs::path(TRY(data_folder())) / "examples";
  const auto models = model::names_in_folder((examples / "models").string(), ".json");
  const auto plans = model::names_in_folder(examples.string(), ".toml");
  std::vector<std::string> all = models;
  all.insert(all.end(), plans.begin(), plans.end());
  const std::string known = fmt::format("models: {}; plans: {}", fmt::join(models, ", "), fmt::join(plans, ", "));
  return model::wrong_input("", fmt::format("no file, no shipped model and no shipped plan named '{}'", wanted),
                            model::did_you_mean_before(wanted, all, known));
}

Result<std::string> measurement_of_case(const std::string& case_path, const std::string& name) {
  return resolve(Shipped::published, name, case_path);
}

Result<KernelTrace> read_profile(const std::string& path, const calibrate::KernelClasses& classes) {
  ProgressBar bar("reading " + path);
  auto imported = TRY(
      calibrate::import_kineto(path, classes, {.progress = [&](auto done, auto total) { bar.update(done, total); }}));
  return KernelTrace{std::move(imported.timeline), imported.origin, path, imported.device_name};
}

Result<KernelTrace> read_table(const std::string& path, const calibrate::KernelClasses& classes) {
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

// Reads every shipped case about figures, ordered by file name.
Result<std::vector<calibrate::ValidationCase>> shipped_cases() {
  std::vector<calibrate::ValidationCase> cases;
  for (const std::string& file : TRY(shipped_case_files()))
    if (!calibrate::is_step_case(file) && !calibrate::is_component_case(file) && !calibrate::is_serving_case(file))
      cases.push_back(TRY(read_case(file)));
  return cases;
}

// Reads the rows of the tables that a case names.
template <class Row>
Result<std::vector<Row>> rows_of_case(const std::string& case_path, const std::vector<std::string>& tables,
                                      Result<std::vector<Row>> (*read)(const std::string& path)) {
  std::vector<Row> rows;
  for (const std::string& name : tables) {
    const auto found = TRY(measurement_of_case(case_path, name).and_then(read));
    rows.insert(rows.end(), found.begin(), found.end());
  }
  return rows;
}

}  // namespace

Result<std::vector<topologies::KnownDevice>> known_devices() {
  return data_folder().and_then(
      [](const std::string& data) { return topologies::load_devices(data + "/topologies/devices"); });
}

Result<calibrate::Measurements> read_measurements(const std::string& path,
                                                  const std::vector<topologies::KnownDevice>& devices) {
  auto measurements = TRY(calibrate::load_measurements(path, devices));
  for (const std::string& note : measurements.notes) fmt::print(stderr, "note: {}: {}\n", path, model::printable(note));
  return measurements;
}

Result<sim::Recipe> find_recipe(const std::string& wanted, const std::vector<std::int64_t>& gpus,
                                std::optional<double> tokens) {
  const bool config = wanted.ends_with(".json");
  if (model::is_file(wanted) && config)
    return resolve(Shipped::model, wanted).and_then([&](const std::string& path) {
      return sim::recipe_of_model(wanted, fs::absolute(path).lexically_normal().string(), gpus, tokens);
    });
  const auto plan = resolve(Shipped::plan, wanted);
  if (model::is_file(wanted) || (plan && !config)) return plan.and_then(sim::recipe_of_plan);
  if (auto recipe = from_model(wanted, gpus, tokens)) return std::move(*recipe);
  return unknown(wanted);
}

model::Result<calibrate::ValidationCase> read_case(const std::string& path) {
  return calibrate::load_case(path, {measurement_of_case, TRY(kernel_classes_file(""))});
}

std::vector<reports::Comparison> published_of(const std::string& plan_file, const std::vector<std::string>& overrides,
                                              const model::StepResult& result) {
  if (!overrides.empty()) return {};
  const auto cases = shipped_cases();
  return cases ? reports::comparisons(*cases, plan_file, result) : std::vector<reports::Comparison>{};
}

model::Result<calibrate::StepComparison> compare_case_steps(const std::string& path, const sim::Watch& watch) {
  const auto definition = TRY(calibrate::load_step_case(path));
  const auto steps = TRY(rows_of_case(path, definition.tables, calibrate::read_published_steps));
  InputsReader reader;
  const auto inputs = [&](const model::Plan& plan, const std::string& profile, const std::string& held_out) {
    return reader.of_plan(plan, profile, {}, held_out);
  };
  auto comparison = calibrate::compare_steps(definition, steps, inputs, true, watch);
  if (watch.stops()) return model::interrupted("", "stopped before all rows were predicted");
  return comparison;
}

model::Result<calibrate::ServingComparison> compare_case_serving(const std::string& path, const sim::Watch& watch) {
  const auto definition = TRY(calibrate::load_serving_case(path));
  const auto rows = TRY(rows_of_case(path, definition.tables, calibrate::read_published_serving));
  InputsReader reader(Purpose::serving);
  const auto inputs = [&](const model::Plan& plan, const std::string& profile, const std::string& held_out) {
    return reader.of_plan(plan, profile.empty() ? std::nullopt : std::optional(profile), {}, held_out);
  };
  auto comparison = calibrate::compare_serving(definition, rows, inputs, true, watch);
  if (watch.stops()) return model::interrupted("", "stopped before all rows were predicted");
  return comparison;
}

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

Result<KernelTrace> read_kernel_trace(const std::string& path_or_name, const std::string& classes) {
  const auto loaded = TRY(kernel_classes_file(classes).and_then(calibrate::load_kernel_classes));
  if (is_profiler_trace(path_or_name)) return read_profile(path_or_name, loaded);
  return read_table(TRY(resolve(Shipped::published, path_or_name)), loaded);
}

}  // namespace plumbline::cli
