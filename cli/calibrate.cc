// plumbline calibrate: makes a profile from measurements of a host or a GPU.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "calibrate/chunk/chunk.h"
#include "calibrate/fit/profile_fit.h"
#include "calibrate/fit/refinement.h"
#include "calibrate/import/kernel_classes.h"
#include "calibrate/import/printed_files.h"
#include "calibrate/match/trace_comparison.h"
#include "calibrate/measurement/csv_table.h"
#include "calibrate/measurement/measurement.h"
#include "calibrate/validate/step_case.h"
#include "cli/data.h"
#include "cli/detail/foreign_file.h"
#include "cli/inputs.h"
#include "cli/make_profiles.h"
#include "cli/outputs.h"
#include "cli/verb.h"
#include "model/base/text.h"
#include "model/base/text_file.h"
#include "reports/text/compare/validation_report.h"
#include "reports/text/inputs/measurements_text.h"
#include "topologies/topology.h"

namespace plumbline::cli {
namespace {

using calibrate::FitRecords;
using model::Result;

const std::string host_base = "host-datasheet", other_base = "generic-datasheet";

struct CalibrateArguments {
  std::vector<std::string> measurements;
  std::string out, csv, clock, extends;
  std::string refine;       // a profile whose constants the records move, in place of a fit from nothing
  std::string profile;      // to make by its recipe, in place of measurements
  std::string stack;        // to make of measured steps
  std::string trace, plan;  // a trace, and the plan that ran
  std::optional<std::int32_t> rank;
};

// Returns the error of a .json file, which holds no measurements.
model::Failure not_measurements(const std::string& path, const std::string& text) {
  if (path.ends_with(".gz") || text.find("traceEvents") != std::string::npos)
    return model::wrong_input_at(path, 0, "", "is a trace of the PyTorch profiler as it was recorded",
                                 "--trace FILE --plan PLAN, which gives its kernels the shapes of the plan");
  return model::wrong_input_at(path, 0, "", "is the result of a step; no constant is ever fitted to one",
                               "plumbline compare PLAN FILE --profile PROFILE shows how well a profile predicts it");
}

// Reads records of `measure`, output of nccl-tests, or a kernel trace that was imported.
Result<calibrate::Measurements> load_any(const std::string& path, const std::vector<topologies::KnownDevice>& devices) {
  const bool lines = path.ends_with(".jsonl"), table = path.ends_with(".csv");
  if (lines) return calibrate::load_measurements(path, devices);
  const auto text = TRY(model::read_file(path));
  if (path.ends_with(".json") || path.ends_with(".json.gz")) return not_measurements(path, text);
  if (!table && text.find("# ") != std::string::npos && text.find("algbw") != std::string::npos)
    return calibrate::parse_nccl_tests(text, path);
  if (!table) TRY(refuse_foreign(path, "file of measurements"));
  TRY(model::check_utf8(text, path));
  if (table && calibrate::is_chunk(text)) {
    const auto classes = TRY(kernel_classes_file("").and_then(calibrate::load_kernel_classes));
    return calibrate::parse_chunk_records(text, path, classes);
  }
  return calibrate::parse_measurements(text, path, devices);
}

// Matches a trace with the plan that ran, whose shapes its records have.
Result<calibrate::Measurements> load_trace(const CalibrateArguments& arguments) {
  const auto trace = TRY(read_kernel_trace(arguments.trace, ""));
  if (trace.device.empty() || trace.device == "not named")
    return model::wrong_input_at(trace.path, 0, "", "does not name the device",
                                 "plumbline import kineto TRACE -o trace.csv, and write the line '# device: NAME'");
  const auto inputs = TRY(load_inputs(arguments.plan, {}));
  calibrate::TraceOrigin origin = trace.origin;
  origin.pipeline_rank = arguments.rank;
  const auto comparison = TRY(calibrate::compare_trace(trace.timeline, inputs, origin));
  auto found = calibrate::trace_records(trace.timeline, comparison, trace.device, trace.path);
  found.notes.insert(found.notes.begin(),
                     fmt::format("{:.1f} % of the kernel time is matched with pipeline rank {} ({})",
                                 100 * comparison.match.share(), comparison.rank, comparison.rank_source));
  found.notes.insert(found.notes.end(), comparison.notes.begin(), comparison.notes.end());
  return found;
}

// Prints the notes of a file. A record of a known device that does not state its SMs was taken on all of them.
Result<void> complete(calibrate::Measurements& file, const std::vector<topologies::KnownDevice>& devices) {
  for (const std::string& note : file.notes) fmt::print(stderr, "note: {}: {}\n", file.path, model::printable(note));
  for (calibrate::Measurement& m : file.values) {
    if (auto named = calibrate::check_name(file.path, m.device, devices); !named)
      return model::wrong_input_at(file.path, m.line, named.error().key, named.error().message, named.error().hint);
    const model::Device* device = topologies::find_device(devices, m.device);
    if (device != nullptr && !m.sms) m.sms = device->sms;
  }
  return {};
}

// Reads all files, and the trace.
Result<std::vector<calibrate::Measurements>> load_all(const CalibrateArguments& arguments,
                                                      const std::vector<topologies::KnownDevice>& devices) {
  std::vector<calibrate::Measurements> files;
  for (const std::string& path : arguments.measurements) {
    files.push_back(TRY(load_any(path, devices)));
    files.back().path = path;
  }
  if (!arguments.trace.empty()) files.push_back(TRY(load_trace(arguments)));
  for (calibrate::Measurements& file : files) TRY(complete(file, devices));
  TRY(calibrate::check_repeats(files));
  return files;
}

// Returns the word that profiles of the device begin with: "h100" of an h100-sxm.
std::string family(const model::Device& device) { return device.name.substr(0, device.name.find('-')); }

// Returns the profile with the constants that no record determines: the datasheet profile of the device's family
// ("a100-datasheet" for an a100-sxm) where one is shipped.
Result<model::Profile> base_of(const FitRecords& records, const std::string& wanted, const model::Device* device) {
  if (!wanted.empty()) {
    auto base = TRY(find_profile(wanted));
    // Results stream concurrent with the tiles where a kind of GEMM states memory_bandwidth; the fit adds them to the
    // time.
    const bool streams = std::ranges::any_of(base.parameters(), [](const model::Parameter& constant) {
      return constant.name.starts_with("gemm.") && constant.name.ends_with(".memory_bandwidth");
    });
    if (streams && !records.gemms.empty())
      return model::wrong_input("--extends", fmt::format("GEMMs of profile '{}' have another form", base.name()),
                                "--refine moves its constants; to fit new ones, name a datasheet profile");
    return base;
  }
  if (records.machine == calibrate::MachineKind::host) return find_profile(host_base);
  if (device == nullptr)
    return model::wrong_input("--extends", fmt::format("no datasheet of '{}' is known", records.device),
                              "name the profile whose constants hold where no record measures them");
  auto own = find_profile(family(*device) + "-datasheet");
  return own ? own : find_profile(other_base);
}

// Returns the shipped profile of measurements of the device's kind, or nullopt.
std::optional<model::Profile> shipped_of_kind(const model::Device* device) {
  if (device == nullptr) return std::nullopt;
  for (const char* suffix : {"", "-public"})
    if (auto found = find_profile(family(*device) + suffix)) return std::move(*found);
  return std::nullopt;
}

// Names the families of a GPU's constants that no record determines.
void note_missing(const FitRecords& records, const std::string& base) {
  if (records.machine == calibrate::MachineKind::host) return;
  std::vector<std::string> missing;
  const auto need = [&](const char* what, bool there) {
    if (!there) missing.emplace_back(what);
  };
  need("GEMMs", !records.gemms.empty());
  need("attention", !records.attention.empty());
  need("memory-bound kernels", !records.memory.empty());
  need("routers", !records.routers.empty());
  need("gaps between kernels", records.holds_gaps || !records.launches.empty());
  const auto of_plan = [&](model::OperatorClass type) {
    const auto is = [type](const calibrate::FitRecord& record) { return record.type == type; };
    return std::ranges::any_of(records.together, is) || std::ranges::any_of(records.together_overlapped, is);
  };
  const bool all_to_alls = of_plan(model::OperatorClass::exchange) || !records.all_to_alls.empty();
  const bool collectives = of_plan(model::OperatorClass::collective) || !records.collectives.empty();
  need("expert all-to-alls", all_to_alls);
  need("collectives", collectives);
  if (!missing.empty())
    fmt::print(stderr, "note: no record of {}: their constants are those of {}\n", fmt::join(missing, ", "), base);
}

// Prints how the GPU compares to others of its kind, where a profile of their measurements is shipped.
Result<void> print_comparison(const FitRecords& records, const model::Device* device, std::FILE* out) {
  if (records.machine == calibrate::MachineKind::host || device == nullptr) return {};
  const auto shipped = shipped_of_kind(device);
  if (!shipped) {
    fmt::print(out, "\nIs this GPU normal? No shipped profile rests on measurements of {} to compare it with.\n",
               device->name);
    return {};
  }
  const auto comparison = TRY(calibrate::compare_gpu(records, *shipped, *device));
  fmt::print(out, "\n{}", reports::gpu_text(comparison));
  return {};
}

std::string file_names(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  for (const std::string& path : paths) names.push_back(std::filesystem::path(path).filename().string());
  return fmt::format("{}", fmt::join(names, ", "));
}

// A profile finds what it extends in its own folder, or where plumbline's lie.
Result<void> check_folder(const std::string& base, const std::string& out) {
  namespace fs = std::filesystem;
  if (out == "-" || !model::is_file(base)) return {};
  const auto folder_of = [](const std::string& file) {
    std::error_code ignored;
    return fs::weakly_canonical(fs::absolute(file, ignored), ignored).parent_path();
  };
  const fs::path own = folder_of(base);
  if (own == folder_of(out) || own == folder_of(TRY(data_folder()) + "/profiles/any")) return {};
  return model::wrong_input("--output",
                            fmt::format("'{}' lies in another folder than '{}', which extends it", base, out),
                            "choose one next to it");
}

// Everything that profiles are made of.
struct Machine {
  FitRecords records;
  const model::Device* device = nullptr;
  std::string source;  // of the records
};

// Returns the heading of the profile, named after its file.
calibrate::ProfileHeading heading_of(const CalibrateArguments& arguments, const FitRecords& records,
                                     const std::string& extends) {
  const bool host = !records.clock.empty();
  return {
      .name = arguments.out != "-" ? std::filesystem::path(arguments.out).stem().string()
              : host               ? "host"
                                   : "gpu",
      .description = fmt::format("measured on one {}: {}", host ? "computer" : "GPU", reports::machine_text(records)),
      .extends = extends};
}

Result<void> refine(const CalibrateArguments& arguments, const Machine& machine, std::FILE* out) {
  if (machine.records.machine == calibrate::MachineKind::host)
    return model::wrong_input("--refine", "records of a host", "--refine moves the profile of a GPU; leave it out");
  if (machine.device == nullptr)
    return model::wrong_input("--refine", fmt::format("no datasheet of '{}' is known", machine.records.device),
                              "its SMs and limits are part of every prediction: see topologies/devices");
  const auto base = TRY(find_profile(arguments.refine));
  const bool named = std::ranges::find(base.devices(), machine.device->name) != base.devices().end();
  if (!base.devices().empty() && !named)
    fmt::print(stderr, "note: profile {} is of {}, the records of {}: what they do not move is that of {}\n",
               base.name(), fmt::join(base.devices(), ", "), machine.device->name, base.name());
  TRY(check_folder(arguments.refine, arguments.out));
  calibrate::ProfileHeading heading = heading_of(arguments, machine.records, base.name());
  if (heading.name == base.name())
    return model::wrong_input("--output", fmt::format("the name of the profile '{}', which it extends", base.name()),
                              "choose another");
  const auto refined = TRY(calibrate::refine_profile(machine.records, base, *machine.device, machine.source));
  for (const std::string& note : machine.records.notes) fmt::print(stderr, "note: {}\n", note);
  for (const std::string& note : refined.notes) fmt::print(stderr, "note: {}\n", note);
  heading.description = fmt::format("{}, moved by records of one GPU: {}", base.name(), machine.records.device);
  if (!named) heading.devices = {machine.device->name};
  std::vector<model::Parameter> constants;
  for (const calibrate::RefinedConstant& one : refined.constants) constants.push_back(one.constant);
  TRY(write_output(arguments.out, calibrate::profile_text(heading, std::move(constants), refined.fits)));
  if (!arguments.csv.empty()) TRY(write_output(arguments.csv, reports::refinement_csv(refined)));
  fmt::print(out, "{}", reports::refinement_text(refined, machine.records, base.name()));
  return {};
}

Result<void> fit(const CalibrateArguments& arguments, const Machine& machine, std::FILE* out) {
  const FitRecords& records = machine.records;
  const auto base = TRY(base_of(records, arguments.extends, machine.device));
  TRY(check_folder(arguments.extends, arguments.out));
  const calibrate::ProfileFit fit = calibrate::fit_profile(records, base, machine.source);
  for (const std::string& note : fit.notes) fmt::print(stderr, "note: {}\n", note);
  note_missing(records, base.name());
  TRY(write_output(arguments.out,
                   calibrate::profile_text(heading_of(arguments, records, base.name()), fit.parameters)));
  if (!arguments.csv.empty()) TRY(write_output(arguments.csv, reports::fit_csv(fit)));
  fmt::print(out, "{}", reports::fit_text(fit, records));
  return print_comparison(records, machine.device, out);
}

Result<void> run(const CalibrateArguments& arguments) {
  if (!arguments.profile.empty()) return make_profiles(arguments.profile, arguments.out);
  if (arguments.measurements.empty() && arguments.trace.empty())
    return model::wrong_input("MEASUREMENTS", "nothing to calibrate",
                              "name files of measurements, --trace FILE --plan PLAN, or --profile NAME");
  if (!arguments.stack.empty()) {
    if (arguments.measurements.size() > 1)
      return model::wrong_input("STEPS", "--stack takes one table of steps", "put the rows into one file");
    return make_stack(arguments.measurements.front(), arguments.stack, arguments.extends, arguments.csv);
  }
  if (arguments.out.empty())
    return model::wrong_input("--output", "required", "name the profile, a .toml; - is stdout");
  const auto devices = TRY(known_devices());
  const auto files = TRY(load_all(arguments, devices));
  Machine machine{.records = TRY(calibrate::fit_records(files, arguments.clock)), .device = nullptr, .source = ""};
  machine.device = topologies::find_device(devices, machine.records.device);
  std::vector<std::string> paths = arguments.measurements;
  if (!arguments.trace.empty()) paths.push_back(arguments.trace);
  machine.source = fmt::format("{}, {}{}", reports::machine_text(machine.records),
                               machine.records.date.empty() ? "" : machine.records.date + ", ", file_names(paths));
  std::FILE* out = arguments.out == "-" || arguments.csv == "-" ? stderr : stdout;
  return arguments.refine.empty() ? fit(arguments, machine, out) : refine(arguments, machine, out);
}

namespace fs = std::filesystem;

model::Result<void> make_one(calibrate::ProfileMaker& maker, const std::string& name, const std::string& out) {
  const calibrate::MadeProfile& made = *TRY(maker.make(name));
  TRY(write_output(out, made.text));
  FILE* stream = out == "-" ? stderr : stdout;
  fmt::print(stream, "{}: {} constants, {}\n", name, made.constants.size(), out);
  for (const std::string& note : made.notes) fmt::print(stream, "  {}\n", note);
  fmt::print(stream, "{}", reports::held_out_text(name, made.held_out));
  return {};
}

using calibrate::MeasuredStep;
using calibrate::PublishedStep;

// Returns the hardware that a cell names: "h100-dgx" or "h100-dgx:h100-torch".
calibrate::StepHardware hardware_of(const std::string& cell) {
  const std::size_t colon = cell.find(':');
  return {cell, cell.substr(0, colon), colon == std::string::npos ? "" : cell.substr(colon + 1), "", {}};
}

model::Result<MeasuredStep> measured_step(const PublishedStep& step, const std::string& extends, InputsReader& reader) {
  if (const auto lacking = step.lacking(); !lacking.empty() || !step.seconds)
    return model::wrong_input(step.id, fmt::format("the row lacks {}", fmt::join(lacking, ", ")), "fill in its cells");
  calibrate::StepCase definition;
  definition.hardware = {hardware_of(step.hardware)};
  auto made = TRY(calibrate::step_plan(step, definition));
  if (!extends.empty()) made.plan.stack.name = extends;
  auto inputs = TRY(reader.of_plan(made.plan));
  return MeasuredStep{step.id, step.set, std::move(inputs), *step.seconds};
}

// Reads a table of published steps, or one whose columns are a plan, by path or name, and its measured step.
model::Result<std::vector<MeasuredStep>> measured_steps(const std::string& path, const std::string& extends) {
  InputsReader reader;
  std::vector<MeasuredStep> rows;
  const auto table = TRY(calibrate::CsvTable::read(path, {}));
  if (table.has("id") || !table.has("plan")) {
    const auto steps = TRY(calibrate::read_published_steps(path));
    for (const PublishedStep& step : steps) rows.push_back(TRY(measured_step(step, extends, reader)));
    return rows;
  }
  TRY(calibrate::CsvTable::read(path, {"plan", "step_s"}));
  std::vector<std::string> changes;
  if (!extends.empty()) changes.push_back("stack.name=" + model::toml_string(extends));
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const std::string& plan = table.text(row, "plan");
    const double seconds = TRY(table.positive(row, "step_s"));
    rows.push_back({plan, "own", TRY(reader.load(plan, changes)), seconds});
  }
  return rows;
}

}  // namespace

void add_calibrate(CLI::App& root, int& exit_code) {
  CLI::App* verb = root.add_subcommand("calibrate", "Make a cost profile from measurements of the host or a GPU");
  const auto arguments = std::make_shared<CalibrateArguments>();
  verb->add_option("MEASUREMENTS", arguments->measurements,
                   "Of one device, in any mix: files of `plumbline measure` (.jsonl, .csv), output of nccl-tests, and "
                   "kernel traces from `import kineto` (.csv)");
  CLI::Option* trace = verb->add_option("--trace", arguments->trace,
                                        "A trace of the PyTorch profiler (.json, .json.gz, or .csv of `import kineto`) "
                                        "of one rank of --plan: the shapes of "
                                        "its kernels are the plan's");
  verb->add_option("--plan", arguments->plan, "The plan that ran when --trace was recorded")->needs(trace);
  trace->needs("--plan");
  verb->add_option("--rank", arguments->rank,
                   "The pipeline rank of --trace (default: by the trace's own rank, else the best match)")
      ->needs(trace);
  verb->add_option("-o,--output", arguments->out, "The profile, a .toml; - is stdout");
  verb->add_option("--profile", arguments->profile,
                   "Make a shipped profile, or all, from the data that ships with plumbline (docs/profiles.md)")
      ->excludes("MEASUREMENTS");
  verb->add_option(
          "--stack", arguments->stack,
          "Fit a software stack to your own measured steps, a .csv of plan,step_s (docs/stacks.md), and write it, a "
          ".toml; - is stdout. --extends names the stack that it extends (default: the profile's)")
      ->excludes("--output", "--profile");
  verb->add_option("--csv", arguments->csv,
                   "Write the errors of the fit, a row for each family, as CSV to a file, or - for stdout")
      ->excludes("--profile");
  verb->add_option("--clock", arguments->clock, "Use only the records of this clock: wall | cpu");
  verb->add_option(
      "--extends", arguments->extends,
      "The profile of the constants that no record determines (default: host-datasheet for a host, for a GPU the "
      "datasheet profile of its family)");
  verb->add_option("--refine", arguments->refine,
                   "A measured profile, such as h100: the records move its constants, each as far as its uncertainty "
                   "allows, and all others stay (docs/measuring.md)")
      ->excludes("--extends", "--profile", "--stack");
  verb->footer(
      "Examples:\n"
      "  plumbline measure -o gpu.jsonl --budget 8m && plumbline calibrate gpu.jsonl -o mine.toml\n"
      "  plumbline calibrate gpu.jsonl --refine h100 -o mine.toml\n"
      "  plumbline calibrate gpu.jsonl chunk.jsonl all_reduce.txt chunk.csv -o mine.toml\n"
      "  plumbline plan deepseek-v3 --gpus 2048 --cluster h100-dgx:mine.toml\n"
      "  plumbline measure --backend host -o here.jsonl\n"
      "  plumbline calibrate here.jsonl -o here.toml\n"
      "  plumbline simulate host-tiny-moe --set cluster.profile=here.toml\n"
      "  plumbline calibrate examples/steps.csv --stack mine.toml\n"
      "  plumbline measure --plan h100-chunk -o chunk.jsonl && plumbline calibrate chunk.jsonl -o h100.toml\n"
      "  plumbline calibrate --trace trace.json.gz --plan my-plan.toml -o mine.toml");
  verb->callback([arguments, &exit_code] { exit_code = exit_of(run(*arguments)); });
}

model::Result<calibrate::RecipeFolders> recipe_folders() {
  const fs::path root = TRY(data_folder());
  return calibrate::RecipeFolders{.recipes = (root / "recipes").string(),
                                  .profiles = (root / "profiles").string(),
                                  .components = (root / "published/components").string(),
                                  .measured = (root / "measured").string(),
                                  .devices = (root / "topologies/devices").string()};
}

model::Result<void> make_profiles(const std::string& name, const std::string& out) {
  const auto folders = TRY(recipe_folders());
  calibrate::ProfileMaker maker(folders);
  if (name != "all") return make_one(maker, name, out.empty() ? folders.profiles + "/" + name + ".toml" : out);
  for (const std::string& each : maker.names())
    TRY(make_one(maker, each, (fs::path(out.empty() ? folders.profiles : out) / (each + ".toml")).string()));
  return {};
}

model::Result<void> make_stack(const std::string& steps, const std::string& out, const std::string& extends,
                               const std::string& csv) {
  const auto rows = TRY(measured_steps(steps, extends));
  const auto fit = TRY(calibrate::fit_stack(rows));
  const std::string base = rows.front().inputs.profile.stack();
  const std::string name = out == "-" ? "mine" : fs::path(out).stem().string();
  const std::string source = fs::path(steps).filename().string();
  TRY(write_output(out, calibrate::stack_text(name, base, fit, source)));
  if (!csv.empty()) TRY(write_output(csv, reports::stack_fit_csv(fit)));
  fmt::print(out == "-" || csv == "-" ? stderr : stdout, "{}", reports::stack_fit_text(fit, base));
  return {};
}

}  // namespace plumbline::cli
