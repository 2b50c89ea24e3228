#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/schedule.h"
#include "model/base/version.h"
#include "reports/charts/schedule_picture.h"
#include "reports/text/table.h"

namespace plumbline::cli {
namespace {

using model::OpType;
using model::Result;
using model::ScheduleOp;
using model::ScheduleShape;

constexpr std::array op_types = {OpType::F, OpType::B, OpType::I, OpType::W, OpType::FB};

std::string field(std::int32_t value) { return value < 0 ? std::string() : fmt::format("{}", value); }
std::string number(double value) { return fmt::format("{:.6g}", value); }

std::string heading(const ScheduleOutput& output) {
  const ScheduleShape& shape = output.schedule.shape;
  std::string text =
      fmt::format("{}, {} ranks, {} micro-batches; ", output.schedule.kind, shape.ranks, shape.micro_batches);
  if (output.costs.stages.empty()) {
    text += "costs";
    for (const OpType type : op_types) {
      text += fmt::format(" {}={:.6g}", model::to_string(type), output.costs.uniform.of(type));
    }
  } else {
    text += fmt::format("costs per stage from {},", output.costs.file);
  }
  return text + fmt::format(" p2p={:.6g}\n\n", output.costs.uniform.p2p);
}

std::string rank_table(const ScheduleOutput& output) {
  const model::ScheduleEvaluation& evaluation = output.evaluation;
  std::vector<reports::Column> columns = {{"rank", reports::Align::right}};
  for (const OpType type : op_types) columns.push_back({std::string(model::to_string(type)), reports::Align::right});
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
  return table.to_string();
}

std::string makespan_lines(const ScheduleOutput& output) {
  const double makespan = output.evaluation.makespan;
  std::string text = fmt::format("makespan     {}\n", number(makespan));
  text += fmt::format("lower bound  {}", number(output.lower_bound));
  if (output.lower_bound > 0) text += fmt::format("  ({:+.1f} %)", (makespan / output.lower_bound - 1) * 100);
  if (!output.exact_makespan) return text + "\nexact form   none for this shape and these costs\n";
  return text + fmt::format("\nexact form   {}\ndifference   {:.1e}\n", number(*output.exact_makespan),
                            makespan - *output.exact_makespan);
}

reports::SchedulePicture picture_of(const ScheduleOutput& output) {
  return reports::schedule_picture(output.schedule, output.evaluation, output.end);
}

}  // namespace

std::string schedule_csv(const model::Schedule& schedule) {
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
  results["lower_bound"] = output.lower_bound;
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
  schedule["costs"] = Json::parse(costs_json(output.costs));
  schedule.update(results);
  json.update(results);
  return json.dump(2) + "\n";
}

std::string schedule_text(const ScheduleOutput& output, std::size_t width, bool colour) {
  const std::string picture = reports::picture_text(picture_of(output), width, colour);
  return heading(output) + rank_table(output) + "\n" + (picture.empty() ? "" : picture + "\n") + makespan_lines(output);
}

std::string schedule_svg(const ScheduleOutput& output) { return reports::picture_svg(picture_of(output)); }

}  // namespace plumbline::cli
