#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/measure_cases.h"
#include "cli/measure_host.h"
#include "cli/measure_stages.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "real/cuda/measure/case_machine.h"
#include "real/measure/kernel_case/budget.h"

namespace plumbline::cli {
namespace {

using model::Error;
using model::ErrorKind;
using model::Result;

struct Arguments {
  std::string backend = "cuda", cases, out, budget, device = "h200", clock = "cpu", plan, only;
  std::vector<std::string> overrides, library_folders;
  std::int64_t rounds = 15;
  std::uint64_t seed = 1;
  int samples = 30;
  bool dry_run = false, retry = false, strict = false, list_libraries = false;
};

tl::unexpected<Error> wrong(std::string key, std::string message, std::string hint) {
  return tl::unexpected(Error{ErrorKind::input, std::move(message), "", 0, std::move(key), std::move(hint)});
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
  if (!arguments.budget.empty() && !real::parse_duration(arguments.budget))
    return wrong("--budget", fmt::format("'{}' is not a time", arguments.budget), "write 90s, 8m or 1h");
  if (arguments.dry_run) return {};
  if (arguments.out.empty()) return wrong("-o", "where the measurements go is missing", "-o FILE, or --dry-run");
  if (!arguments.out.ends_with(".jsonl") && !arguments.out.ends_with(".csv"))
    return wrong("-o", fmt::format("'{}' tells no form", arguments.out), "its name ends in .jsonl or .csv");
  return {};
}

Result<int> run(const Arguments& arguments, const World& world) {
  if (arguments.list_libraries)
    return real::cuda::list_libraries(arguments.library_folders).and_then([](const std::string& text) {
      return write_output("-", text).map([] { return 0; });
    });
  if (const auto valid = check(arguments); !valid) return tl::unexpected(valid.error());
  const std::optional<double> budget_s = real::parse_duration(arguments.budget);
  if (arguments.backend == "host")
    return measure_on_host({arguments.cases, arguments.out, arguments.clock, budget_s, arguments.rounds, arguments.seed,
                            arguments.dry_run},
                           world)
        .map([] { return 0; });
  if (!arguments.plan.empty())
    return measure_stages({arguments.plan, arguments.overrides, arguments.out, arguments.library_folders, budget_s,
                           arguments.rounds, arguments.seed, arguments.dry_run});
  return measure_cases({arguments.cases, arguments.out, arguments.device, arguments.only, arguments.library_folders,
                        budget_s, arguments.samples, arguments.dry_run, arguments.retry, arguments.strict},
                       world);
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
  verb->add_option("--lib-dir", arguments->library_folders,
                   "On a GPU: where to look for libraries first (repeatable; as PLUMBLINE_LIBDIR=A:B)")
      ->allow_extra_args(false);
  verb->add_flag("--list-libraries", arguments->list_libraries, "Say which libraries of a GPU are found, and where");
  verb->add_option("--backend", arguments->backend, "cuda | host")->capture_default_str();
  verb->add_option("-o,--output", arguments->out,
                   "The measurements, .jsonl or .csv; of a GPU, what is there already is not measured again");
  verb->add_option("--budget", arguments->budget,
                   "Stop in time: 90s, 8m, 1h; of a GPU the most valuable cases come first");
  verb->add_flag("--dry-run", arguments->dry_run,
                 "List the cases with FLOPs and bytes, of a GPU with floor times; needs no GPU");
  verb->add_option("--device", arguments->device, "Whose datasheet rates the floor times of --dry-run use")
      ->capture_default_str();
  verb->add_option("--only", arguments->only, "On a GPU: only cases of this operation (gemm, copy, all_reduce, ...)");
  constexpr int least_samples = 20, most_samples = 10000;
  verb->add_option("--samples", arguments->samples, "On a GPU: samples of every variant of a case")
      ->check(CLI::Range(least_samples, most_samples))
      ->capture_default_str();
  verb->add_flag("--retry", arguments->retry, "On a GPU: measure again what failed before");
  verb->add_flag("--strict", arguments->strict, "On a GPU: exit code 1 where a case failed");
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
