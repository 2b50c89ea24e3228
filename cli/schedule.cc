#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "cli/outputs.h"
#include "cli/verb.h"
#include "model/schedule/comparison.h"
#include "reports/text/plan/schedule_report.h"
#include "reports/text/table.h"

namespace plumbline::cli {
namespace {

using model::Result;

constexpr std::string_view all_kinds = "all";
constexpr std::int32_t compared_chunks = 2;  // in the comparison, of schedules with a free number of chunks

struct Options {
  std::string kind;
  model::ScheduleShape shape;
  std::optional<std::int32_t> virtual_stages;
  std::string costs;
  Outputs outputs;
};

// Returns the columns of the terminal, or the default width of tables when stdout is none.
std::size_t terminal_columns() {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : reports::terminal_width;
}

Result<void> run_one(const Options& options, const model::CostTable& costs) {
  const auto kind = TRY(model::find_schedule(options.kind));
  model::ScheduleShape shape = options.shape;
  shape.virtual_stages = options.virtual_stages.value_or(shape.virtual_stages);
  const auto output = TRY(model::evaluate_schedule(*kind, shape, costs));
  if (!options.outputs.any()) return write_output("-", reports::schedule_text(output, terminal_columns(), color()));
  return options.outputs.write(
      {{"--csv", [&] { return reports::schedule_csv(output.schedule); }},
       {"--json", [&] { return reports::schedule_json(output); }},
       {"--svg", [&] { return reports::schedule_svg(output); }},
       {"--html",
        [&] { return options.outputs.page(reports::schedule_json(output), reports::schedule_page_data(output)); }}});
}

Result<void> run_all(const Options& options, const model::CostTable& costs) {
  if (options.outputs.given("--svg")) return model::wrong_input("--svg", "one schedule at a time");
  model::ScheduleShape shape = options.shape;
  shape.virtual_stages = options.virtual_stages.value_or(compared_chunks);
  const auto rows = TRY(model::compare_schedules(shape, costs));
  const auto json = [&] { return reports::comparison_json(rows, shape, costs); };
  TRY(options.outputs.write({{"--json", json},
                             {"--csv", [&] { return reports::comparison_csv(rows); }},
                             {"--html", [&] { return options.outputs.page(json()); }}}));
  if (!options.outputs.any()) TRY(write_output("-", reports::comparison_table(rows, shape, costs)));
  if (std::ranges::none_of(rows, [](const model::ComparedSchedule& row) { return !row.infeasible; }))
    return model::infeasible("", "no schedule exists for this shape");
  return {};
}

Result<void> run(const Options& options) {
  TRY(options.outputs.check());
  const auto costs = TRY(model::read_costs(options.costs));
  return options.kind == all_kinds ? run_all(options, costs) : run_one(options, costs);
}

std::string known_kinds() {
  std::string names;
  for (const model::ScheduleKind* kind : model::schedule_kinds()) names += fmt::format("{}, ", kind->name());
  return names + "or all to compare them";
}

}  // namespace

void add_schedule(CLI::App& root, int& exit_code) {
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
  options->outputs.add(*verb, "--csv",
                       "write the order of ops, of all a row for each schedule, to FILE, or to stdout with -");
  options->outputs.add(*verb, "--json", "write makespan, busy, idle, window, peak activations to FILE or -");
  options->outputs.add(*verb, "--svg", "draw the picture to FILE or -");
  options->outputs.add_page(*verb);
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
  verb->callback([options, &exit_code] { exit_code = exit_of(run(*options)); });
}

}  // namespace plumbline::cli
