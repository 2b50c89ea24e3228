#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/chunk.h"
#include "calibrate/chunk_comparison.h"
#include "calibrate/kernel_classes.h"
#include "cli/compare_output.h"
#include "cli/data.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/verb.h"

namespace plumbline::cli {

namespace {

using model::Error;
using model::ErrorKind;

struct Arguments {
  std::vector<std::string> subjects;
  std::vector<std::string> overrides;
  std::optional<std::string> profile;
  std::string classes, json;
  std::string waits = "measured";
};

// What can be compared. A new kind of subject is a word here, how it is recognised, and a comparison below.
enum class Kind { plan, chunk };

Kind kind_of(const std::string& subject) {
  if (subject.ends_with(".csv")) return Kind::chunk;
  return !resolve_plan(subject) && resolve_published(subject) ? Kind::chunk : Kind::plan;
}

model::Result<calibrate::Waits> waits_of(const std::string& word) {
  if (word == "measured") return calibrate::Waits::measured;
  if (word == "predicted") return calibrate::Waits::predicted;
  return tl::unexpected(
      Error{ErrorKind::input, fmt::format("'{}' is not known", word), "", 0, "--waits", "measured or predicted"});
}

model::Result<void> compare_plan_and_chunk(const Arguments& arguments, const std::string& plan,
                                           const std::string& chunk_name) {
  const auto waits = waits_of(arguments.waits);
  if (!waits) return tl::unexpected(waits.error());
  const auto inputs = load_inputs(plan, arguments.overrides, arguments.profile);
  if (!inputs) return tl::unexpected(inputs.error());
  const auto chunk = resolve_published(chunk_name).and_then(calibrate::read_chunk);
  if (!chunk) return tl::unexpected(chunk.error());
  const auto classes = kernel_classes_file(arguments.classes).and_then(calibrate::load_kernel_classes);
  if (!classes) return tl::unexpected(classes.error());
  const auto comparison = calibrate::compare_chunk(*chunk, *classes, *inputs, *waits);
  if (!comparison) return tl::unexpected(comparison.error());
  const ChunkComparisonOutput output{*comparison, inputs->plan,         plan, inputs->profile.name(),
                                     chunk_name,  chunk->kernels.size()};
  if (arguments.json != "-") fmt::print("{}", comparison_text(output));
  return arguments.json.empty() ? model::Result<void>() : write_output(arguments.json, comparison_json(output));
}

model::Result<void> compare(const Arguments& arguments) {
  std::vector<std::string> plans, chunks;
  for (const std::string& subject : arguments.subjects)
    (kind_of(subject) == Kind::plan ? plans : chunks).push_back(subject);
  if (plans.size() == 1 && chunks.size() == 1) return compare_plan_and_chunk(arguments, plans[0], chunks[0]);
  return tl::unexpected(
      Error{ErrorKind::input,
            fmt::format("expected one plan and one measured chunk, found {} and {}", plans.size(), chunks.size()), "",
            0, "", "a chunk measurement is a .csv file, see --help"});
}

int run(const Arguments& arguments) {
  const auto done = compare(arguments);
  return done ? 0 : report(done.error());
}

}  // namespace

CLI::App* add_compare(CLI::App& root, int& exit_code) {
  CLI::App* verb = root.add_subcommand("compare", "Lay a prediction beside what was measured, kernel by kernel");
  const auto arguments = std::make_shared<Arguments>();
  verb->add_option("A B", arguments->subjects, "A plan and a chunk measurement (.csv), files or shipped names")
      ->required();
  verb->add_option("--set", arguments->overrides, "Override a key: --set overlap.communication_sms=24 (repeatable)")
      ->take_all()
      ->allow_extra_args(false);
  verb->add_option("--profile", arguments->profile, "Cost profile (default: the plan's)");
  verb->add_option("--waits", arguments->waits,
                   "measured: the rank's waits in its meetings, which depend on the other ranks, are an input;\n"
                   "predicted: the mean of the group")
      ->capture_default_str();
  verb->add_option("--classes", arguments->classes, "File of kernel classes (default: the shipped kernels.toml)");
  verb->add_option("--json", arguments->json, "Write the comparison as JSON to a file, or - for stdout");
  verb->footer(
      "A chunk measurement is what `plumbline import` makes of a profiler's trace. Expert rows are taken from\n"
      "its notes (rows=N), too.\n\n"
      "Examples:\n"
      "  plumbline compare deepseek-v3-2048xh800 h800_dualpipe_chunk\n"
      "  plumbline compare deepseek-v3-2048xh800 h800_dualpipe_chunk --profile h800-public --waits predicted\n"
      "  plumbline import kineto trace.json.gz -o chunk.csv && plumbline compare my-plan.toml chunk.csv --json -");
  verb->callback([arguments, &exit_code] { exit_code = run(*arguments); });
  return verb;
}

}  // namespace plumbline::cli
