#include "sim/analysis/idle_time.h"

#include <algorithm>
#include <array>

#include "model/schedule/evaluate.h"
#include "sim/predict/closed_form.h"

namespace plumbline::sim {

namespace {

// Every op takes the mean of its kind over all ranks, so that the work of all ranks together stays the same.
std::vector<double> means_by_kind(const model::StepProgram& program, const std::vector<double>& template_seconds) {
  std::array<double, 5> sums{}, counts{};
  for (const auto& slots : program.slot_templates)
    for (const std::uint16_t slot : slots) {
      const auto type = static_cast<std::size_t>(program.templates[slot].type);
      sums[type] += template_seconds[slot];
      ++counts[type];
    }
  std::vector<double> means;
  for (const model::SlotTemplate& slot : program.templates) {
    const auto type = static_cast<std::size_t>(slot.type);
    means.push_back(sums[type] / std::max(1.0, counts[type]));
  }
  return means;
}

double idle_in_recurrence(const model::StepProgram& program, const std::vector<double>& template_seconds, double hop,
                          std::size_t rank) {
  std::vector<TemplateRun> runs(template_seconds.size());
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].seconds = template_seconds[i];
  const auto run =
      model::evaluate(program.schedule, TemplateCosts(program, runs, {}, hop), program.schedule.point_to_point);
  return run.value().idle[rank];
}

}  // namespace

IdleTime split_idle(const model::StepProgram& program, const std::vector<double>& template_seconds, double hop,
                    std::size_t rank, double idle) {
  IdleTime result;
  result.fill_and_drain = idle;
  if (program.schedule.ranks.size() == 1 || idle <= 0) return result;
  const auto take = [&result](double seconds) {
    const double taken = std::clamp(seconds, 0.0, result.fill_and_drain);
    result.fill_and_drain -= taken;
    return taken;
  };
  const double without_hops = idle_in_recurrence(program, template_seconds, 0, rank);
  result.point_to_point = take(idle_in_recurrence(program, template_seconds, hop, rank) - without_hops);
  result.uneven_stages =
      take(without_hops - idle_in_recurrence(program, means_by_kind(program, template_seconds), 0, rank));
  return result;
}

}  // namespace plumbline::sim
