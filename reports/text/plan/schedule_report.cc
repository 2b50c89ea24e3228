#include "reports/text/plan/schedule_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "reports/charts/charts.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

using model::OpType;
using model::ScheduleOp;
using model::ScheduleShape;

// Wide enough that names of schedules do not wrap, even next to numbers of many digits.
constexpr std::array op_types = {OpType::F, OpType::B, OpType::I, OpType::W, OpType::FB};

std::string field(std::int32_t value) { return value < 0 ? std::string() : fmt::format("{}", value); }
std::string short_number(double value) { return fmt::format("{:.6g}", value); }

std::string heading(const model::CostedSchedule& output) {
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
  return wrapped(text + fmt::format(" p2p={:.6g}", output.costs.uniform.p2p)) + "\n";
}

std::string rank_table(const model::CostedSchedule& output) {
  const model::ScheduleEvaluation& evaluation = output.evaluation;
  std::vector<Column> columns = {{"rank", Align::right}};
  for (const OpType type : op_types) columns.push_back({std::string(model::to_string(type)), Align::right});
  for (const char* title : {"busy", "idle", "window", "activations"}) columns.push_back({title, Align::right});
  Table table(columns);
  for (std::size_t rank = 0; rank < output.schedule.ranks.size(); ++rank) {
    std::array<std::int64_t, op_types.size()> counts{};
    for (const ScheduleOp& op : output.schedule.ranks[rank]) ++counts[static_cast<std::size_t>(op.type)];
    std::vector<std::string> row = {fmt::format("{}", rank)};
    for (const std::int64_t count : counts) row.push_back(fmt::format("{}", count));
    for (const auto* seconds : {&evaluation.busy, &evaluation.idle, &evaluation.window}) {
      row.push_back(short_number((*seconds)[rank]));
    }
    row.push_back(fmt::format("{}", evaluation.peak_activations[rank]));
    table.add(std::move(row));
  }
  return table.to_string();
}

std::string makespan_lines(const model::CostedSchedule& output) {
  const double makespan = output.evaluation.makespan;
  std::string text = fmt::format("makespan     {}\n", short_number(makespan));
  text += fmt::format("lower bound  {}", short_number(output.lower_bound));
  if (output.lower_bound > 0) text += fmt::format("  ({:+.1f} %)", (makespan / output.lower_bound - 1) * 100);
  if (!output.exact_makespan) return text + "\nexact form   none for this shape and these costs\n";
  return text + fmt::format("\nexact form   {}\ndifference   {:.1e}\n", short_number(*output.exact_makespan),
                            makespan - *output.exact_makespan);
}

SchedulePicture picture_of(const model::CostedSchedule& output) {
  return schedule_picture(output.schedule, output.evaluation, output.end);
}

std::string in_percent(double share) { return fmt::format("{:.1f}", share * 100); }

std::string heading(const model::ScheduleShape& shape, const model::CostTable& costs) {
  std::string text = fmt::format(
      "{} ranks, {} micro-batches, the same work in every schedule;\ninterleaved: {} chunks per rank\n"
      "a full stage costs ",
      shape.ranks, shape.micro_batches, shape.virtual_stages);
  if (!costs.stages.empty()) {
    return text + fmt::format("what\n{}\nlists, a message {:.6g}\n\n", costs.file, costs.uniform.p2p);
  }
  const model::ScheduleCosts& c = costs.uniform;
  return text + fmt::format("F={:.6g} B={:.6g} I={:.6g} W={:.6g} FB={:.6g}, a message {:.6g}\n\n", c.F, c.B, c.I, c.W,
                            c.FB, c.p2p);
}

// Returns one line, or several aligned ones, for each schedule that does not exist for the shape.
std::string impossible_lines(const std::vector<model::ComparedSchedule>& schedules) {
  constexpr std::size_t name_width = 19, margin = 2 + name_width + 2;
  std::string text;
  for (const model::ComparedSchedule& row : schedules)
    if (row.infeasible) text += fmt::format("  {:<{}}  {}", row.kind, name_width, hanging(row.reason(), margin));
  return text.empty() ? text : "\nnot possible here:\n" + text;
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

std::string schedule_text(const model::CostedSchedule& output, std::size_t width, bool color) {
  const std::string picture = picture_text(picture_of(output), width, color);
  return heading(output) + rank_table(output) + "\n" + (picture.empty() ? "" : picture + "\n") + makespan_lines(output);
}

std::string schedule_svg(const model::CostedSchedule& output) { return picture_svg(picture_of(output)); }

std::string comparison_table(const std::vector<model::ComparedSchedule>& schedules, const model::ScheduleShape& shape,
                             const model::CostTable& costs) {
  Table table("schedule | >makespan | >bubble | >worst | >peak | >copies | >p2p | >bound | >over");
  const auto digits = [](double value) { return fmt::format("{:.5g}", value); };
  const auto short_number = [](double value) { return fmt::format("{:.4g}", value); };
  for (const model::ComparedSchedule& row : schedules) {
    if (row.infeasible) continue;
    // A sum of the same costs in another order may be below the bound by a rounding error.
    table.row(row.kind, digits(row.makespan), in_percent(row.average_bubble), in_percent(row.worst_bubble),
              short_number(row.peak_activations), row.parameter_copies,
              row.exposed_p2p ? short_number(*row.exposed_p2p) : "-", digits(row.lower_bound),
              row.lower_bound > 0 ? in_percent(std::max(0.0, row.makespan / row.lower_bound - 1)) : "-");
  }
  const std::string infeasible = impossible_lines(schedules);
  if (table.empty()) return heading(shape, costs) + infeasible.substr(1);
  return heading(shape, costs) + table.to_string() + infeasible + R"(
bubble, worst  idle of the average and of the worst rank, % of the makespan
peak           activations of the fullest rank, in micro-batches of a full stage
copies         of the parameters in the pipeline
p2p            what point-to-point adds to the makespan, in messages; needs p2p
               above 0
bound, over    no order of these ops on these ranks is shorter; the makespan
               above it, in %
)";
}

std::string comparison_svg(const std::vector<model::ComparedSchedule>& schedules, const model::ScheduleShape& shape,
                           const model::CostTable& costs) {
  LineChart chart;
  chart.title = fmt::format("Pipeline schedules of {} ranks", shape.ranks);
  chart.subtitle = fmt::format("the same work in every schedule; a message costs {:.6g}", costs.uniform.p2p);
  chart.x_title = "micro-batches";
  chart.panels = {{"idle time of the average rank in % of the makespan", true, {}},
                  {"activations of the fullest rank, in micro-batches of a full stage", true, {}}};
  for (LineChart::Panel& panel : chart.panels)
    for (const model::ComparedSchedule& row : schedules) {
      auto series = std::ranges::find(panel.series, row.kind, &LineChart::Series::name);
      if (series == panel.series.end()) series = panel.series.insert(series, {row.kind, {}});
      const double value = &panel == &chart.panels.front() ? 100 * row.average_bubble : row.peak_activations;
      series->points.push_back(
          {static_cast<double>(row.micro_batches), row.infeasible ? std::nullopt : std::optional(value)});
    }
  return line_chart_svg(chart);
}

}  // namespace plumbline::reports
