#include "cli/schedule.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "cli/output.h"
#include "cli/schedule_comparison.h"
#include "cli/verb.h"
#include "reports/text/table.h"

namespace plumbline::cli {
namespace {

using model::Error;
using model::ErrorKind;
using model::Result;

constexpr std::string_view all_kinds = "all";
constexpr std::int32_t compared_chunks = 2;  // of schedules that let one choose, in the comparison

struct Options {
  std::string kind;
  model::ScheduleShape shape;
  std::optional<std::int32_t> virtual_stages;
  std::string costs, csv, json, svg;
};

tl::unexpected<Error> input_error(std::string message, std::string key) {
  return tl::make_unexpected(Error{ErrorKind::input, std::move(message), "", 0, std::move(key), ""});
}

// Columns of the terminal that stdout is; where it is none, what tables take.
std::size_t terminal_columns() {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : reports::terminal_width;
}

struct Destination {
  std::string path;  // "" for none
  std::string content;
};

Result<void> write_all(const std::vector<Destination>& destinations) {
  for (const auto& [path, content] : destinations) {
    if (path.empty()) continue;
    if (auto written = write_output(path, content); !written) return written;
  }
  return {};
}

Result<void> run_one(const Options& options, const CostInput& costs) {
  const auto kind = model::find_schedule(options.kind);
  if (!kind) return tl::make_unexpected(kind.error());
  model::ScheduleShape shape = options.shape;
  shape.virtual_stages = options.virtual_stages.value_or(shape.virtual_stages);
  const auto output = evaluate_schedule(**kind, shape, costs);
  if (!output) return tl::make_unexpected(output.error());
  if (options.csv.empty() && options.json.empty() && options.svg.empty()) {
    return write_output("-", schedule_text(*output, terminal_columns(), colour()));
  }
  return write_all({{options.csv, options.csv.empty() ? "" : schedule_csv(output->schedule)},
                    {options.json, options.json.empty() ? "" : schedule_json(*output)},
                    {options.svg, options.svg.empty() ? "" : schedule_svg(*output)}});
}

Result<void> run_all(const Options& options, const CostInput& costs) {
  if (!options.csv.empty()) return input_error("one schedule at a time", "--csv");
  if (!options.svg.empty()) return input_error("one schedule at a time", "--svg");
  model::ScheduleShape shape = options.shape;
  shape.virtual_stages = options.virtual_stages.value_or(compared_chunks);
  const auto rows = compare_schedules(shape, costs);
  if (!rows) return tl::make_unexpected(rows.error());
  const bool json = !options.json.empty();
  auto written = write_output(json ? options.json : "-",
                              json ? comparison_json(*rows, shape, costs) : comparison_table(*rows, shape, costs));
  const bool possible = std::ranges::any_of(*rows, [](const ComparedSchedule& row) { return !row.impossible; });
  if (!written || possible) return written;
  return tl::make_unexpected(Error{ErrorKind::infeasible, "no schedule exists for this shape", "", 0, "", ""});
}

Result<void> run(const Options& options) {
  int to_stdout = 0;
  for (const std::string* path : {&options.csv, &options.json, &options.svg}) to_stdout += *path == "-" ? 1 : 0;
  if (to_stdout > 1) return input_error("only one output can go to stdout", options.json == "-" ? "--json" : "--svg");
  const auto costs = read_costs(options.costs);
  if (!costs) return tl::make_unexpected(costs.error());
  return options.kind == all_kinds ? run_all(options, *costs) : run_one(options, *costs);
}

std::string known_kinds() {
  std::string names;
  for (const model::ScheduleKind* kind : model::schedule_kinds()) names += fmt::format("{}, ", kind->name());
  return names + "or all to compare them";
}

}  // namespace

CLI::App* add_schedule(CLI::App& root, int& exit_code) {
  CLI::App* verb = root.add_subcommand("schedule", "Show a pipeline schedule: its order, makespan, idle time, memory");
  const auto options = std::make_shared<Options>();
  verb->add_option("KIND", options->kind, known_kinds())->required();
  verb->add_option("--ranks", options->shape.ranks, "pipeline ranks P")->required();
  verb->add_option("--micro-batches", options->shape.micro_batches,
                   "micro-batches M of a step, both directions together")
      ->required();
  verb->add_option("--virtual-stages", options->virtual_stages, "chunks per rank (default 1; for all 2)");
  verb->add_option("--micro-batch-group", options->shape.micro_batch_group,
                   "micro-batches that pass a chunk before the next one starts (default: the schedule's own)");
  verb->add_option("--costs", options->costs,
                   "cost per op, e.g. F=1,I=1,W=1,FB=3,p2p=0 (B defaults to I + W, FB to F + B), or a .toml or .csv "
                   "file of costs per stage");
  verb->add_option("--csv", options->csv, "write the order of ops to FILE, or to stdout with -");
  verb->add_option("--json", options->json, "write makespan, busy, idle, window, peak activations to FILE or -");
  verb->add_option("--svg", options->svg, "draw the picture to FILE or -");
  verb->footer(
      "Without --csv, --json and --svg a table and a picture are printed. Messages are eager: one leaves when its\n"
      "producer ends and arrives p2p later. Activations are counted in chunks. For `all`, costs are those of a full\n"
      "stage, one per rank, and schedules that cut it into c chunks pay 1/c for each.\n\n"
      "A file of costs has one [[stage]] with F, I, W (and perhaps B, FB) for each stage, p2p, and a factor for each\n"
      "micro-batch in micro_batch_factors; a .csv has a header F,I,W and one line for each stage.\n\n"
      "Examples:\n"
      "  plumbline schedule 1f1b --ranks 4 --micro-batches 8\n"
      "  plumbline schedule dualpipe --ranks 16 --micro-batches 120 --costs F=49,I=75,W=32,FB=144\n"
      "  plumbline schedule gpipe --ranks 4 --micro-batches 8 --csv -\n"
      "  plumbline schedule 1f1b --ranks 4 --micro-batches 8 --costs stages.toml --svg picture.svg\n"
      "  plumbline schedule all --ranks 8 --micro-batches 32 --costs F=1,I=1,W=1,p2p=0.1");
  verb->callback([options, &exit_code] {
    const auto done = run(*options);
    exit_code = done ? 0 : report(done.error());
  });
  return verb;
}

}  // namespace plumbline::cli
