#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/detail/foreign_file.h"
#include "cli/outputs.h"
#include "cli/verb.h"
#include "model/base/text.h"
#include "model/base/text_file.h"
#include "model/schedule/evaluate.h"
#include "model/schedule/schedule_table.h"
#include "reports/text/plan/schedule_report.h"
#include "reports/text/table.h"
#include "sim/whatif/range.h"

namespace plumbline::cli {
namespace {

constexpr std::string_view all_kinds = "all";
constexpr std::int32_t compared_chunks = 2;  // in the comparison, of schedules with a free number of chunks

struct Options {
  std::string kind;
  model::ScheduleShape shape;
  std::optional<std::int32_t> ranks, virtual_stages;
  std::string micro_batches;  // a number or, of `all`, several
  std::string costs;
  Outputs outputs;
};

// Returns the columns of the terminal, or the default width of tables when stdout is none.
std::size_t terminal_columns() {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : reports::terminal_width;
}

model::Result<std::vector<std::int32_t>> micro_batches_of(const Options& options) {
  constexpr const char* option = "--micro-batches";
  const auto axis = TRY(sim::parse_axis("micro-batches=" + options.micro_batches).map_error([](model::Error error) {
    error.file = option;
    return error;
  }));
  std::vector<std::int32_t> numbers;
  for (const sim::SweepValue& value : axis.values) {
    const auto number = model::parse_number<std::int32_t>(value.text);
    if (number.value_or(0) < 1)
      return model::wrong_input(option, fmt::format("'{}' is no number of micro-batches", value.text));
    numbers.push_back(*number);
  }
  if (numbers.size() > 1 && options.kind != all_kinds)
    return model::wrong_input(option, "several numbers are for a comparison", "plumbline schedule all");
  return numbers;
}

model::Result<void> run_one(const model::ScheduleKind& kind, const Options& options, const model::CostTable& costs,
                            model::ScheduleShape shape) {
  if (!options.micro_batches.empty()) shape.micro_batches = TRY(micro_batches_of(options)).front();
  shape.ranks = options.ranks.value_or(shape.ranks);
  shape.micro_batch_group = options.shape.micro_batch_group;
  shape.virtual_stages = options.virtual_stages.value_or(shape.virtual_stages);
  const auto output = TRY(model::evaluate_schedule(kind, shape, costs));
  TRY(options.outputs.write({{"--csv", [&] { return reports::schedule_csv(output.schedule); }},
                             {"--json", [&] { return reports::schedule_json(output); }},
                             {"--svg", [&] { return reports::schedule_svg(output); }}},
                            [&] { return reports::schedule_page_data(output); }));
  return options.outputs.print(reports::schedule_text(output, terminal_columns(), color()));
}

model::Result<void> run_all(const Options& options, const model::CostTable& costs) {
  const auto numbers = TRY(micro_batches_of(options));
  if (numbers.size() > 1 && (options.outputs.given("--json") || options.outputs.given("--html")))
    return model::wrong_input(options.outputs.given("--json") ? "--json" : "--html",
                              "one number of micro-batches at a time", "--csv and --svg have several");
  model::ScheduleShape shape = options.shape;
  shape.ranks = *options.ranks;
  shape.virtual_stages = options.virtual_stages.value_or(compared_chunks);
  std::vector<model::ComparedSchedule> rows;
  std::string tables;
  for (const std::int32_t number : numbers) {
    shape.micro_batches = number;
    const auto compared = TRY(model::compare_schedules(shape, costs));
    tables += (tables.empty() ? "" : "\n") + reports::comparison_table(compared, shape, costs);
    rows.insert(rows.end(), compared.begin(), compared.end());
  }
  TRY(options.outputs.write({{"--json", [&] { return reports::comparison_json(rows, shape, costs); }},
                             {"--csv", [&] { return reports::comparison_csv(rows); }},
                             {"--svg", [&] { return reports::comparison_svg(rows, shape, costs); }}}));
  TRY(options.outputs.print(tables));
  if (std::ranges::none_of(rows, [](const model::ComparedSchedule& row) { return !row.infeasible; }))
    return model::infeasible("", "no schedule exists for this shape");
  return {};
}

model::Result<void> run(const Options& options) {
  const auto costs = TRY(model::read_costs(options.costs));
  if (options.kind.starts_with(model::schedule_file_prefix)) {
    const auto file = TRY(model::read_schedule_file(options.kind.substr(model::schedule_file_prefix.size())));
    return run_one(*file, options, costs, file->outline({}).shape);
  }
  const auto kind = model::find_schedule(options.kind);
  if (options.kind != all_kinds && !kind) {
    const bool csv = options.kind.ends_with(".csv"), file = model::is_file(options.kind);
    if (!csv && !file) return tl::unexpected(kind.error());
    if (!csv) TRY(refuse_foreign(options.kind, "schedule"));
    return model::wrong_input(
        "", fmt::format("'{}' is no kind of schedule", options.kind),
        fmt::format("{}{} reads the order that --csv wrote", model::schedule_file_prefix, options.kind));
  }
  if (!options.ranks || options.micro_batches.empty())
    return model::wrong_input(options.ranks ? "--micro-batches" : "--ranks", "is required", "only a file has its own");
  if (options.kind == all_kinds) return run_all(options, costs);
  return run_one(**kind, options, costs, options.shape);
}

std::string known_kinds() {
  std::string names;
  for (const model::ScheduleKind* kind : model::schedule_kinds()) names += fmt::format("{}, ", kind->name());
  return names + "file:FILE.csv, or all to compare them";
}

}  // namespace

void add_schedule(CLI::App& root, int& exit_code) {
  CLI::App* verb = root.add_subcommand("schedule", "Show a pipeline schedule: its order, makespan, idle time, memory");
  const auto options = std::make_shared<Options>();
  verb->add_option("KIND", options->kind, known_kinds())->required();
  verb->add_option("--ranks", options->ranks, "Pipeline ranks P; default: those of a file")
      ->check(CLI::Range(1, 1'000'000'000));
  verb->add_option("--micro-batches", options->micro_batches,
                   "Micro-batches M of a step, both directions together; for all also several, 16..64:8");
  verb->add_option("--virtual-stages", options->virtual_stages, "Chunks per rank (default: 1; for all 2)")
      ->check(CLI::Range(1, 1'000'000'000));
  verb->add_option("--micro-batch-group", options->shape.micro_batch_group,
                   "Micro-batches that pass a chunk before the next one starts (default: the schedule's own)")
      ->check(CLI::Range(1, 1'000'000'000));
  verb->add_option("--costs", options->costs,
                   "Cost per op, e.g. F=1,I=1,W=1,FB=3,p2p=0 (B defaults to I + W, FB to F + B), or a .toml or .csv "
                   "file of costs per stage");
  options->outputs.add(*verb, "--csv",
                       "Write the order of ops, which file:FILE.csv reads, of all a row for each schedule, as CSV to a "
                       "file, or - for stdout");
  options->outputs.add(*verb, "--json",
                       "Write makespan, busy, idle, window, peak activations as JSON to a file, or - for stdout");
  options->outputs.add(*verb, "--svg",
                       "Draw the picture, of all the idle time over micro-batches, to a file, or - for stdout");
  options->outputs.add_page(*verb);
  verb->footer(
      "Messages are eager: one leaves when its producer ends and arrives p2p later. Activations are counted in\n"
      "chunks. For `all`, costs are those of a full stage, one per rank, and schedules that cut it into c chunks pay\n"
      "1/c for each.\n\n"
      "A file of costs has one [[stage]] with F, I, W (and perhaps B, FB) for each stage, p2p, and a factor for each\n"
      "micro-batch in micro_batch_factors; a .csv has a header F,I,W and one line for each stage.\n\n"
      "Examples:\n"
      "  plumbline schedule 1f1b --ranks 4 --micro-batches 8\n"
      "  plumbline schedule dualpipe --ranks 16 --micro-batches 120 --costs F=49,I=75,W=32,FB=144\n"
      "  plumbline schedule gpipe --ranks 4 --micro-batches 8 --csv mine.csv\n"
      "  plumbline schedule file:mine.csv --costs F=1,I=1,W=1,p2p=0.1\n"
      "  plumbline schedule 1f1b --ranks 4 --micro-batches 8 --costs stages.toml --svg picture.svg\n"
      "  plumbline schedule all --ranks 8 --micro-batches 32 --costs F=1,I=1,W=1,p2p=0.1\n"
      "  plumbline schedule all --ranks 8 --micro-batches 16..64:8 --svg schedules.svg");
  verb->callback([options, &exit_code] { exit_code = exit_of(run(*options)); });
}

}  // namespace plumbline::cli
