// The step of a recipe that fits recurrences in chunks to a component table.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/components/load.h"
#include "calibrate/fit/detail/tables/tables.h"
#include "calibrate/fit/recipe/detail/draft.h"
#include "topologies/device.h"

namespace plumbline::calibrate {
namespace {

// Returns the GPU that the step's tables are of.
model::Result<model::Device> device_of_tables(const Draft& draft) {
  const std::string& folder = draft.step().tables;
  if (folder.empty()) return draft.machine().device;
  const auto devices = TRY(topologies::load_devices(draft.inputs().devices));
  const model::Device* found = topologies::find_device(devices, folder + "-sxm");
  if (found == nullptr) found = topologies::find_device(devices, folder);
  if (found == nullptr) return draft.wrong("step.tables", fmt::format("no device is named as '{}'", folder));
  return *found;
}

}  // namespace

// `kind` is the recurrence; the directions that the tables have are fitted.
model::Result<void> fit_scan_step(Draft& draft) {
  const RecipeStep& step = draft.step();
  const auto all = TRY(load_scan_rows(draft.table("scan")));
  const FitMachine own = draft.machine();
  const FitMachine machine{.device = TRY(device_of_tables(draft))};
  const auto gemm = gemm_constants(draft, "bf16");
  const auto bandwidth = draft.si("memory.default.bandwidth");
  if (!gemm || !bandwidth) return draft.wrong("step.fit", "gemm.bf16.k_time is not fitted yet", "fit gemm before scan");
  // The rates of another GPU are to its own as their datasheets' are.
  const double rate = 2 * gemm->tile_m * gemm->tile_n * static_cast<double>(own.device.sms) / gemm->k_time;
  ScanConstants known{.bandwidth = *bandwidth * (machine.device.memory_bandwidth / own.device.memory_bandwidth),
                      .rate = rate * (machine.device.bf16_peak / own.device.bf16_peak)};
  bool any = false;
  for (const bool backward : {false, true}) {
    std::vector<ScanRow> rows = all;
    std::erase_if(rows, [&](const ScanRow& row) {
      return row.recurrence != step.kind || row.backward != backward || !step.names(row.software);
    });
    if (rows.empty()) continue;
    any = true;
    const std::string name = fmt::format("scan.{}.{}.", step.kind, backward ? "backward" : "forward");
    known.chunk_time = draft.si(name + "chunk_time").value_or(0);
    TableFit<ScanConstants> fit = fit_scan_table(rows, machine, known);
    for (Fitted& constant : fit.fitted) constant.name = name + constant.name;
    draft.set(
        fit.fitted,
        fmt::format("fitted to {} of {} shapes of {} ({}), with memory.default.bandwidth and gemm.bf16",
                    rows.size() - fit.held_out.errors.size(), rows.size(), fit.held_out.table, draft.cited("scan")),
        step.tables.empty() ? model::Evidence::fitted : model::Evidence::assumed);
    draft.correlate(fit.fitted, fit.correlation);
    if (step.tables.empty()) draft.held_out.push_back(std::move(fit.held_out));
  }
  if (!any) return draft.wrong("step.kind", fmt::format("{} has no row of {}", draft.cited("scan"), step.kind));
  return {};
}

}  // namespace plumbline::calibrate
