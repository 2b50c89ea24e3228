#include <fmt/format.h>

#include <optional>
#include <utility>

#include "reports/text/step/sections.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

using model::RunCost;

std::string whole_dollars(std::optional<double> usd) { return usd ? fmt::format("${}", grouped(*usd)) : "unknown"; }

std::string range_text(const model::HourlyPrice& price) {
  return price.low < price.high ? fmt::format("{:.2f} - {:.2f}", price.low, price.high) : "";
}

std::string parts_text(const model::HourlyPrice& price) {
  if (!price.capital || !price.electricity) return price.source;
  return fmt::format("capital {:.2f}, electricity {:.2f}; {}", *price.capital, *price.electricity, price.source);
}

struct Ownership {
  std::string name;
  const model::Known<model::HourlyPrice>* known;
};

// Returns both, first the one that the costs use.
std::pair<Ownership, Ownership> both(const RunCost& run) {
  const Ownership rent{"rent", &run.rent}, purchase{"purchase", &run.purchase};
  return run.ownership == "purchase" ? std::pair(purchase, rent) : std::pair(rent, purchase);
}

std::string phases_table(const RunCost& run) {
  Table table("phase | >GPU-hours | >cost |  | source");
  const auto& price = run.price().value;
  const auto cost = [&](double hours) { return price ? whole_dollars(hours * price->value) : std::string(); };
  for (const model::RunPhaseCost& phase : run.phases)
    table.add({phase.name, grouped(phase.gpu_hours), cost(phase.gpu_hours), phase.kind, phase.source});
  table.add_rule();
  table.add({"total", grouped(run.total_gpu_hours), cost(run.total_gpu_hours)});
  return table.to_string();
}

std::string prices_table(const RunCost& run) {
  Table table("USD/GPU-h | > | >range | >total | kind | source");
  const auto [used, other] = both(run);
  for (const Ownership& option : {used, other}) {
    const auto& price = option.known->value;
    if (!price) {
      table.add({option.name, "unknown", "", "", "", option.known->missing});
      continue;
    }
    table.add({option.name, fixed(price->value, 2), range_text(*price),
               whole_dollars(run.total_gpu_hours * price->value), price->kind, parts_text(*price)});
  }
  return table.to_string();
}

std::string energy_text(const RunCost& run) {
  const auto energy = run.energy_mwh(run.total_gpu_hours);
  return energy ? fmt::format("Energy: {} MWh, {}.", grouped(*energy), energy_source(run))
                : fmt::format("Energy: unknown, {}.", energy_source(run));
}

std::string goodput_source(const RunCost& run) {
  return run.goodput_source.empty() ? "" : fmt::format(", {}", run.goodput_source);
}

}  // namespace

std::string energy_source(const RunCost& run) {
  if (!run.power_w.value) return run.power_w.missing;
  return fmt::format("from {}: {} W a GPU with its share of host, network and building",
                     run.power_predicted ? "the step's power" : "TDP, an upper estimate", grouped(*run.power_w.value));
}

std::string fabric_text(const model::FabricParts& parts, std::optional<double> usd) {
  if (parts.nics == 0) return "";
  return fmt::format("{} NICs, {} switches, {} cables between switches{}", grouped(parts.nics), grouped(parts.switches),
                     grouped(parts.links), usd ? fmt::format(", ${}", scaled(*usd)) : "");
}

std::string run_report(const RunCost& run) {
  std::string out =
      paragraph(fmt::format("{} tokens in {} steps take {} days at goodput {}{}.", scaled(run.tokens),
                            grouped(run.steps), days_text(run.days), fixed(run.goodput, 3), goodput_source(run)));
  out += phases_table(run) + '\n' + prices_table(run) + paragraph(energy_text(run));
  const std::string fabric = fabric_text(run.fabric, run.fabric_usd);
  return fabric.empty() ? out : out + paragraph(fmt::format("Fabric of these GPUs: {}.", fabric));
}

}  // namespace plumbline::reports
