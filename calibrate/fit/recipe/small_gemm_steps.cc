// Steps of a recipe that fit GEMMs of few rows to component tables.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "calibrate/components/load.h"
#include "calibrate/fit/detail/log_fit.h"
#include "calibrate/fit/detail/tables/tables.h"
#include "calibrate/fit/recipe/detail/draft.h"

namespace plumbline::calibrate {
namespace {

// Returns the rows of the step's format and softwares; an error where there is none.
template <class Row>
model::Result<std::vector<Row>> rows_of_step(const Draft& draft,
                                             model::Result<std::vector<Row>> (*load)(const std::string& path)) {
  const RecipeStep& step = draft.step();
  auto rows = TRY(load(draft.table(step.fit)));
  std::erase_if(rows, [&](const Row& row) {
    return row.format != step.format || (!step.software.empty() && !step.names(row.software));
  });
  if (!rows.empty()) return rows;
  return draft.wrong("step.software", fmt::format("{} has no such {} row", draft.cited(step.fit), step.format));
}

// Sets those of the constants that are named, in the fit's order. Rows of an engine hold the gaps between its launches;
// others are what a profiler states of the kernel alone.
void set_small(Draft& draft, const SmallGemmFit& fit, const std::string& prefix, bool holds_gaps,
               const std::vector<bool>& sets) {
  const RecipeStep& step = draft.step();
  std::set<std::string> softwares;
  for (std::size_t i = 0; i < fit.held_out.size(); ++i) {
    const HeldOut& table = fit.held_out[i];
    softwares.insert(table.table);
    draft.held_out.push_back(table);
    if (fit.fitted_errors[i].empty()) continue;
    draft.notes.push_back(
        fmt::format("{} of {}: rows of the fit with M of 64 and 128 are off by {:.1f} % (median of {})", table.family,
                    table.table, 100 * quantile(fit.fitted_errors[i], 0.5), fit.fitted_errors[i].size()));
  }
  const std::string how =
      fmt::format("fitted to two thirds of the rows of {} ({}){}", fmt::join(softwares, ", "), draft.cited(step.fit),
                  softwares.size() > 1 ? ", at the mean of their levels" : "");
  const double gap = holds_gaps ? draft.si("kernel.launch_gap").value_or(0) : 0;
  const Draft::Fitted all[] = {{"start", std::max(0.0, fit.constants.start - gap), "us", 0},
                               {"bandwidth", fit.constants.bandwidth, "TB/s", 0},
                               {"rate", fit.constants.rate, "TFLOP/s", 0},
                               {"k_time", fit.constants.k_time, "ns", 0}};
  std::vector<Draft::Fitted> constants;
  std::vector<std::vector<double>> correlation;
  for (std::size_t i = 0; i < fit.deviations.size(); ++i) {
    if (!sets[i]) continue;
    if (!constants.empty()) correlation.emplace_back();
    for (std::size_t j = 0; j < i; ++j)
      if (sets[j]) correlation.back().push_back(fit.correlation[i - 1][j]);
    constants.push_back({fmt::format("gemm.{}.{}small_m_{}", step.kind, prefix, all[i].name), all[i].value, all[i].unit,
                         std::min(1.0, fit.deviations[i])});
    draft.set({constants.back()}, i == 0 && holds_gaps ? how + ", less kernel.launch_gap" : how);
  }
  draft.correlate(constants, correlation);
}

}  // namespace

// The start of a quantized format whose rows hold the quantizing kernel is that of BF16: what is left is that kernel's.
model::Result<void> fit_small_gemm_step(Draft& draft) {
  const RecipeStep& step = draft.step();
  const auto rows = TRY(rows_of_step(draft, load_gemm_rows));
  const SmallGemmFit fit = fit_small_gemms(rows, draft.machine());
  const bool quantizes = step.quantizes && step.format != "bf16";
  set_small(draft, fit, "", step.quantizes, {!quantizes, true, true, true});
  if (!quantizes) return {};
  const auto start = draft.si("gemm.bf16.small_m_start");
  if (!start) return draft.wrong("step.kind", "gemm.bf16.small_m_start is not fitted yet", "fit bf16 before");
  draft.set(fmt::format("gemm.{}.small_m_start", step.kind), *start, "us",
            draft.find("gemm.bf16.small_m_start")->relative_uncertainty, model::Evidence::assumed,
            fmt::format("as gemm.bf16.small_m_start; rows with the quantizing kernel start after {:.3g} us",
                        fit.constants.start * 1e6));
  return {};
}

model::Result<void> fit_small_grouped_step(Draft& draft) {
  const auto rows = TRY(rows_of_step(draft, load_grouped_gemm_rows));
  set_small(draft, fit_small_grouped_gemms(rows, draft.machine()), "grouped_", false, {true, true, true});
  return {};
}

// The start of a block of experts is of its software.
model::Result<void> fit_small_experts_step(Draft& draft) {
  const auto rows = TRY(rows_of_step(draft, load_expert_rows));
  set_small(draft, fit_small_experts(rows, draft.machine()), "grouped_", true, {false, true, true});
  return {};
}

}  // namespace plumbline::calibrate
