#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "calibrate/measurement/measurement.h"
#include "cli/case_file.h"
#include "cli/data.h"
#include "cli/measure_host.h"
#include "cli/measure_stages.h"
#include "cli/output.h"
#include "cli/process.h"
#include "cli/verb.h"
#include "real/cuda/probe/budget.h"
#include "real/cuda/probe/case.h"
#include "real/cuda/probe/dry_run.h"
#include "real/cuda/probe/sweep.h"
#include "real/cuda/probe/work.h"
#include "topologies/device.h"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;
using model::Error;
using model::ErrorKind;
using model::Result;

struct Arguments {
  std::string backend = "cuda", cases, out, budget, device = "h200", clock = "cpu", plan;
  std::vector<std::string> overrides, library_folders;
  std::int64_t rounds = 15;
  std::uint64_t seed = 1;
  bool dry_run = false;
};

tl::unexpected<Error> wrong(std::string key, std::string message, std::string hint) {
  return tl::unexpected(Error{ErrorKind::input, std::move(message), "", 0, std::move(key), std::move(hint)});
}

tl::unexpected<Error> infeasible(std::string message, std::string hint) {
  return tl::unexpected(Error{ErrorKind::infeasible, std::move(message), "", 0, "", std::move(hint)});
}

Result<void> check(const Arguments& arguments) {
  if (arguments.backend != "cuda" && arguments.backend != "host")
    return wrong("--backend", fmt::format("unknown backend '{}'", arguments.backend), "known: cuda, host");
  if (!arguments.plan.empty() && !arguments.cases.empty())
    return wrong("--plan", "a plan and a file of cases are measured one by one", "give one of them");
  if (!arguments.plan.empty() && arguments.backend == "host")
    return wrong("--plan", "measures a plan on a GPU", "of the host: a file with [[plan]] (docs/measuring.md)");
  if (arguments.plan.empty() && !arguments.overrides.empty())
    return wrong("--set", "there is no plan to change", "--plan PLAN");
  if (!arguments.budget.empty() && !real::cuda::parse_duration(arguments.budget))
    return wrong("--budget", fmt::format("'{}' is not a time", arguments.budget), "write 90s, 8m or 1h");
  if (real::cuda::find_peak(arguments.device) == nullptr) {
    std::vector<std::string> known;
    for (const auto& peak : real::cuda::device_peaks()) known.push_back(peak.name);
    return wrong("--device", fmt::format("no datasheet rates of '{}'", arguments.device),
                 fmt::format("known: {}", fmt::join(known, ", ")));
  }
  if (arguments.dry_run) return {};
  if (arguments.out.empty()) return wrong("-o", "where the measurements go is missing", "-o FILE, or --dry-run");
  if (!arguments.out.ends_with(".jsonl") && !arguments.out.ends_with(".csv"))
    return wrong("-o", fmt::format("'{}' tells no form", arguments.out), "its name ends in .jsonl or .csv");
  return {};
}

// A file for the probe that is gone when the verb ends.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& content) {
    path_ = (fs::temp_directory_path() / "plumbline-XXXXXX.cases").string();
    constexpr int suffix = 6;
    const int file = ::mkstemps(path_.data(), suffix);
    if (file < 0) return;
    ::close(file);
    written_ = write_output(path_, content).has_value();
  }
  ~TemporaryFile() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }
  bool written() const { return written_; }

 private:
  std::string path_;
  bool written_ = false;
};

Result<std::string> dry_run(const Arguments& arguments, const std::string& cases) {
  const real::cuda::DevicePeak& peak = *real::cuda::find_peak(arguments.device);
  if (arguments.cases.empty()) return real::cuda::dry_run_table(real::cuda::built_in_sweep(), peak);
  const real::cuda::ParsedCases parsed = real::cuda::parse_cases(cases, arguments.cases);
  if (!parsed.error.empty()) return wrong("CASES", parsed.error, "");
  return real::cuda::dry_run_table(parsed.values, peak);
}

// The probe appends JSON Lines, so that nothing is lost when it is killed; a table is made of them at the end.
std::string journal_of(const std::string& out) {
  return out.ends_with(".csv") ? out.substr(0, out.size() - std::string(".csv").size()) + ".jsonl" : out;
}

Result<void> write_table(const std::string& journal, const std::string& out) {
  const auto data = data_folder();
  if (!data) return tl::unexpected(data.error());
  const auto devices = topologies::load_devices(*data + "/topologies/devices");
  if (!devices) return tl::unexpected(devices.error());
  const auto measurements = calibrate::load_measurements(journal, *devices);
  if (!measurements) return tl::unexpected(measurements.error());
  return write_output(out, calibrate::to_csv(*measurements));
}

// The probe's exit code.
Result<int> run_probe(const Arguments& arguments, const std::string& cases) {
  const auto probe = find_program("plumbline-probe");
  if (!probe)
    return infeasible("this build has no GPU probe",
                      "build it where the CUDA toolkit is (-D PLUMBLINE_CUDA=ON), or list the cases with --dry-run");
  const std::string journal = journal_of(arguments.out);
  std::vector<std::string> words = {"--out", journal};
  if (!arguments.budget.empty()) words.insert(words.end(), {"--budget", arguments.budget});
  const TemporaryFile file(cases);
  if (!arguments.cases.empty()) {
    if (!file.written()) return wrong("", fmt::format("cannot write {}", file.path()), "set TMPDIR");
    words.insert(words.end(), {"--cases", file.path()});
  }
  auto exit_code = run_program(*probe, words);
  if (!exit_code || *exit_code != 0 || journal == arguments.out) return exit_code;
  const auto written = write_table(journal, arguments.out);
  return written ? exit_code : tl::unexpected(written.error());
}

Result<int> run(const Arguments& arguments, const World& world) {
  if (const auto valid = check(arguments); !valid) return tl::unexpected(valid.error());
  if (arguments.backend == "host") {
    return measure_on_host(
               {arguments.cases, arguments.out, arguments.clock, real::cuda::parse_duration(arguments.budget),
                arguments.rounds, arguments.seed, arguments.dry_run},
               world)
        .map([] { return 0; });
  }
  if (!arguments.plan.empty())
    return measure_stages({arguments.plan, arguments.overrides, arguments.out, arguments.library_folders,
                           real::cuda::parse_duration(arguments.budget), arguments.rounds, arguments.seed,
                           arguments.dry_run});
  std::string cases;
  if (!arguments.cases.empty()) {
    auto lines = resolve_probe_cases(arguments.cases).and_then(read_case_file);
    if (!lines) return tl::unexpected(lines.error());
    cases = std::move(*lines);
  }
  if (!arguments.dry_run) return run_probe(arguments, cases);
  const auto table = dry_run(arguments, cases);
  if (!table) return tl::unexpected(table.error());
  return write_output("-", *table).map([] { return 0; });
}

}  // namespace

CLI::App* add_measure(CLI::App& root, int& exit_code, const World& world) {
  CLI::App* verb = root.add_subcommand("measure", "Measure the kernels of training on the GPU or the CPU at hand");
  const auto arguments = std::make_shared<Arguments>();
  verb->add_option("CASES", arguments->cases,
                   "A .toml file (of a GPU also .cases), or the name of a shipped one (default: the built-in sweep)");
  verb->add_option("--plan", arguments->plan,
                   "On a GPU: every operator and exchange of a plan's step as one rank runs it, alone and beside each\n"
                   "other; other ranks are stood in for");
  verb->add_option("--set", arguments->overrides, "Override a key of the plan (repeatable)")
      ->take_all()
      ->allow_extra_args(false);
  verb->add_option("--lib-dir", arguments->library_folders, "With --plan: where to look for libraries first")
      ->allow_extra_args(false);
  verb->add_option("--backend", arguments->backend, "cuda | host")->capture_default_str();
  verb->add_option("-o,--output", arguments->out,
                   "The measurements, .jsonl or .csv; of a GPU, what is there already is not measured again");
  verb->add_option("--budget", arguments->budget,
                   "Stop in time: 90s, 8m, 1h; of a GPU the most valuable cases come first");
  verb->add_flag("--dry-run", arguments->dry_run,
                 "List the cases with FLOPs and bytes, of a GPU with floor times; needs no GPU");
  verb->add_option("--device", arguments->device, "Whose datasheet rates the floor times of --dry-run use")
      ->capture_default_str();
  verb->add_option("--clock", arguments->clock,
                   "Host: cpu, the time that a thread was running, or wall; a loaded machine shows in wall alone")
      ->capture_default_str();
  verb->add_option("--rounds", arguments->rounds, "Host and --plan: how often every case is measured, in turns")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb->add_option("--seed", arguments->seed, "Host and --plan: of the order within a round")->capture_default_str();
  verb->footer(
      "Exit code 77 means that there is no GPU to measure; the reason is on stderr.\n\n"
      "Examples:\n"
      "  plumbline measure -o h200-2026-11-21.jsonl --budget 8m\n"
      "  plumbline measure deepseek-v3 -o deepseek.jsonl\n"
      "  plumbline measure --plan h100-chunk -o chunk.jsonl\n"
      "  plumbline measure --backend host quick -o host.jsonl\n"
      "  plumbline show model deepseek-v3-2048xh800 --shapes > mine.cases; plumbline measure mine.cases --dry-run");
  verb->callback([arguments, &exit_code, world] {
    const auto code = run(*arguments, world);
    exit_code = code ? *code : report(code.error());
  });
  return verb;
}

}  // namespace plumbline::cli
