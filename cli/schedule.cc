#include "cli/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "cli/output.h"
#include "cli/verb.h"
#include "model/version.h"
#include "reports/table.h"

namespace plumbline::cli {
namespace {

using model::Error;
using model::OpType;
using model::Result;
using model::Schedule;
using model::ScheduleCosts;
using model::ScheduleOp;
using model::ScheduleShape;

constexpr std::array op_types = {OpType::F, OpType::B, OpType::I, OpType::W, OpType::FB};

tl::unexpected<Error> input_error(std::string message, std::string key, std::string hint = {}) {
  Error error;
  error.message = std::move(message);
  error.key = std::move(key);
  error.hint = std::move(hint);
  return tl::make_unexpected(std::move(error));
}

struct CostEntry {
  std::string_view key;
  double* value = nullptr;
  bool given = false;
};

// One "KEY=VALUE" of --costs.
Result<void> parse_cost(std::string_view item, std::span<CostEntry> entries) {
  const std::size_t equals = item.find('=');
  const std::string_view key = item.substr(0, equals);
  const auto entry = std::find_if(entries.begin(), entries.end(), [&](const CostEntry& e) { return e.key == key; });
  if (equals == std::string_view::npos || entry == entries.end()) {
    std::vector<std::string> names;
    for (const CostEntry& known : entries) names.emplace_back(known.key);
    const std::string nearest = model::nearest_name(key, names);
    return input_error(fmt::format("'{}' is no cost", item), "--costs",
                       nearest.empty() || equals == std::string_view::npos
                           ? std::string("write KEY=VALUE with F, B, I, W, FB or p2p")
                           : fmt::format("did you mean '{}'?", nearest));
  }
  const std::string_view text = item.substr(equals + 1);
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value < 0) {
    return input_error(fmt::format("'{}' is not a number of at least 0", item), "--costs");
  }
  if (entry->given) return input_error(fmt::format("'{}' is given twice", key), "--costs");
  *entry->value = value;
  entry->given = true;
  return {};
}

std::string field(std::int32_t value) { return value < 0 ? std::string() : fmt::format("{}", value); }

nlohmann::ordered_json costs_json(const ScheduleCosts& costs) {
  nlohmann::ordered_json json;
  for (const OpType type : op_types) json[std::string(model::to_string(type))] = costs.of(type);
  json["p2p"] = costs.p2p;
  return json;
}

struct Options {
  std::string kind;
  ScheduleShape shape;
  std::string costs, csv, json;
};

Result<ScheduleOutput> compute(const Options& options) {
  const auto kind = model::find_schedule(options.kind);
  if (!kind) return tl::make_unexpected(kind.error());
  const auto costs = parse_costs(options.costs);
  if (!costs) return tl::make_unexpected(costs.error());
  if (const auto feasible = (*kind)->check(options.shape); !feasible) return tl::make_unexpected(feasible.error());
  ScheduleOutput output{(*kind)->build(options.shape), *costs, {}, (*kind)->exact_makespan(options.shape, *costs)};
  auto evaluation = model::evaluate(output.schedule, *costs);
  if (!evaluation) return tl::make_unexpected(evaluation.error());
  output.evaluation = std::move(*evaluation);
  return output;
}

int run(const Options& options) {
  if (options.csv == "-" && options.json == "-") {
    return report(input_error("--csv and --json cannot both go to stdout", "--json").value());
  }
  const auto output = compute(options);
  if (!output) return report(output.error());
  if (options.csv.empty() && options.json.empty()) {
    const auto written = write_output("-", schedule_table(*output));
    return written ? 0 : report(written.error());
  }
  if (!options.csv.empty()) {
    if (const auto written = write_output(options.csv, schedule_csv(output->schedule)); !written) {
      return report(written.error());
    }
  }
  if (!options.json.empty()) {
    if (const auto written = write_output(options.json, schedule_json(*output)); !written) {
      return report(written.error());
    }
  }
  return 0;
}

std::string known_kinds() {
  std::string names;
  for (const model::ScheduleKind* kind : model::schedule_kinds()) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", kind->name());
  }
  return names;
}

}  // namespace

Result<ScheduleCosts> parse_costs(std::string_view text) {
  ScheduleCosts costs;
  std::array<CostEntry, 6> entries = {
      {{"F", &costs.F}, {"B", &costs.B}, {"I", &costs.I}, {"W", &costs.W}, {"FB", &costs.FB}, {"p2p", &costs.p2p}}};
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    if (auto parsed = parse_cost(text.substr(0, comma), entries); !parsed) return tl::make_unexpected(parsed.error());
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  if (!entries[1].given) costs.B = costs.I + costs.W;
  if (!entries[4].given) costs.FB = costs.F + costs.B;
  return costs;
}

std::string schedule_csv(const Schedule& schedule) {
  std::string csv = "rank,slot,op,f_dir,f_stage,f_mb,b_dir,b_stage,b_mb\n";
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (std::size_t slot = 0; slot < schedule.ranks[rank].size(); ++slot) {
      const ScheduleOp& op = schedule.ranks[rank][slot];
      csv += fmt::format("{},{},{},{},{},{},{},{},{}\n", rank, slot, model::to_string(op.type), field(op.f_dir),
                         field(op.f_stage), field(op.f_mb), field(op.b_dir), field(op.b_stage), field(op.b_mb));
    }
  }
  return csv;
}

std::string schedule_json(const ScheduleOutput& output) {
  using Json = nlohmann::ordered_json;
  const model::ScheduleEvaluation& evaluation = output.evaluation;
  Json results;
  results["makespan"] = evaluation.makespan;
  results["exact_makespan"] = output.exact_makespan ? Json(*output.exact_makespan) : Json(nullptr);
  results["busy"] = evaluation.busy;
  results["idle"] = evaluation.idle;
  results["window"] = evaluation.window;
  results["peak_activations"] = evaluation.peak_activations;
  Json json;
  json["plumbline"] = {{"version", model::version}, {"schema", model::schema}};
  Json& schedule = json["schedule"];
  schedule["kind"] = output.schedule.kind;
  schedule["ranks"] = output.schedule.shape.ranks;
  schedule["micro_batches"] = output.schedule.shape.micro_batches;
  schedule["virtual_stages"] = output.schedule.shape.virtual_stages;
  schedule["costs"] = costs_json(output.costs);
  schedule.update(results);
  json.update(results);
  return json.dump(2) + "\n";
}

std::string schedule_table(const ScheduleOutput& output) {
  const auto number = [](double value) { return fmt::format("{:.6g}", value); };
  const model::ScheduleEvaluation& evaluation = output.evaluation;
  const ScheduleShape& shape = output.schedule.shape;
  std::string text =
      fmt::format("{}, {} ranks, {} micro-batches; costs", output.schedule.kind, shape.ranks, shape.micro_batches);
  std::vector<reports::Column> columns = {{"rank", reports::Align::right}};
  for (const OpType type : op_types) {
    text += fmt::format(" {}={:.6g}", model::to_string(type), output.costs.of(type));
    columns.push_back({std::string(model::to_string(type)), reports::Align::right});
  }
  text += fmt::format(" p2p={:.6g}\n\n", output.costs.p2p);
  for (const char* title : {"busy", "idle", "window", "activations"}) columns.push_back({title, reports::Align::right});
  reports::Table table(columns);
  for (std::size_t rank = 0; rank < output.schedule.ranks.size(); ++rank) {
    std::array<std::int64_t, op_types.size()> counts{};
    for (const ScheduleOp& op : output.schedule.ranks[rank]) ++counts[static_cast<std::size_t>(op.type)];
    std::vector<std::string> row = {fmt::format("{}", rank)};
    for (const std::int64_t count : counts) row.push_back(fmt::format("{}", count));
    for (const auto* column : {&evaluation.busy, &evaluation.idle, &evaluation.window}) {
      row.push_back(number((*column)[rank]));
    }
    row.push_back(fmt::format("{}", evaluation.peak_activations[rank]));
    table.add(std::move(row));
  }
  text += table.to_string();
  text += fmt::format("\nmakespan    {}\n", number(evaluation.makespan));
  if (!output.exact_makespan) return text + "exact form  none for this shape and these costs\n";
  text += fmt::format("exact form  {}\n", number(*output.exact_makespan));
  return text + fmt::format("difference  {:.1e}\n", evaluation.makespan - *output.exact_makespan);
}

CLI::App* add_schedule(CLI::App& root, int& exit_code) {
  CLI::App* verb = root.add_subcommand("schedule", "Show a pipeline schedule: its order, makespan, idle time, memory");
  const auto options = std::make_shared<Options>();
  verb->add_option("KIND", options->kind, known_kinds())->required();
  verb->add_option("--ranks", options->shape.ranks, "pipeline ranks P")->required();
  verb->add_option("--micro-batches", options->shape.micro_batches,
                   "micro-batches M of a step, both directions together")
      ->required();
  verb->add_option("--virtual-stages", options->shape.virtual_stages, "chunks per rank (default 1)");
  verb->add_option("--micro-batch-group", options->shape.micro_batch_group,
                   "micro-batches that pass a chunk before the next one starts (default: the schedule's own)");
  verb->add_option("--costs", options->costs,
                   "cost per op, e.g. F=1,I=1,W=1,FB=3,p2p=0; B defaults to I + W, FB to F + B");
  verb->add_option("--csv", options->csv, "write the order of ops to FILE, or to stdout with -");
  verb->add_option("--json", options->json, "write makespan, busy, idle, window, peak activations to FILE or -");
  verb->footer(
      "Without --csv and --json a table is printed. Messages are eager: one leaves when its producer ends and\n"
      "arrives p2p later. Activations are counted in chunks.\n\n"
      "Examples:\n"
      "  plumbline schedule 1f1b --ranks 4 --micro-batches 8\n"
      "  plumbline schedule dualpipe --ranks 16 --micro-batches 120 --costs F=49,I=75,W=32,FB=144\n"
      "  plumbline schedule gpipe --ranks 4 --micro-batches 8 --csv -");
  verb->callback([options, &exit_code] { exit_code = run(*options); });
  return verb;
}

}  // namespace plumbline::cli
