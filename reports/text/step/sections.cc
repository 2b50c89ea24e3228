#include "reports/text/step/sections.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "reports/text/table.h"
#include "sim/cluster/cluster_step.h"

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

constexpr std::size_t most_parts = 8;

constexpr double hundred = 100;

std::string rounded_percent(double share) { return fixed(share * hundred, 0) + " %"; }

// Returns "97 of 100 such runs", never all of them.
std::string most_runs(double share) {
  constexpr double most = 99;
  const double count = std::floor(share * hundred);
  return fmt::format("{} of 100 such runs", count < most ? fixed(count, 0) : "at least 99");
}

std::string conventions_text(const model::MeasuredStep& measured, const model::Quantiles& predicted) {
  if (measured.conventions.size() < 2) return "";
  Table table("counted as | >step | >faster");
  for (const model::RateConvention& one : measured.conventions)
    table.add({one.name, duration(one.time_s), rounded_percent(predicted.share_below(one.time_s))});
  return paragraph("How FLOPs were counted is not stated. The first comes closest to the prediction and is taken:") +
         table.to_string();
}

std::string counted_lines(std::int64_t lines, const char* what) {
  return lines == 0 ? "" : fmt::format(", {} {}", lines, what);
}

// Returns how much of the log the step is, and which FLOPs its rate counts.
std::string log_text(const model::MeasuredLog& log, double step_s) {
  std::string text =
      fmt::format("A log of {}: the median of {} line{} of steps, P10 to P90 {} to {}", log.format, log.steps,
                  log.steps == 1 ? "" : "s", duration(step_s * log.low), duration(step_s * log.high));
  const std::string left = counted_lines(log.warm_up, "of warm-up") + counted_lines(log.pauses, "of pauses") +
                           counted_lines(log.damaged, "damaged");
  text += left.empty() ? "." : fmt::format("; left out are{}.", left.substr(1));
  if (!log.count) return paragraph(text);
  constexpr double most = 0.05;  // by which counts of embeddings, routers and padding differ
  const double off = log.count->time_s / step_s - 1;
  return paragraph(fmt::format("{} Its {:.1f} TFLOP/s are {} ({:+.0f} %){}.", text, *log.tflops, log.count->name,
                               off * hundred,
                               std::abs(off) < most ? "" : " at best: look whether the log is of this plan's model"));
}

// Returns "60.0 GB", and what of it no program counted.
std::string peak_text(const model::MeasuredMemory& memory) {
  const std::string peak = gigabytes(memory.peak_bytes) + " GB";
  if (memory.counted == model::MemoryCount::device) return peak;
  return fmt::format(
      "{} ({} {}, and {} around it as predicted)", peak, gigabytes(memory.peak_bytes - memory.added_bytes),
      memory.counted == model::MemoryCount::reserved ? "reserved" : "allocated", gigabytes(memory.added_bytes));
}

// `what` is "Step" or "TPOT".
std::string causes_text(const model::MeasuredStep& measured, const model::Quantiles& predicted, std::string_view what) {
  if (measured.causes.empty()) return "";
  const bool slower = measured.time_s > predicted.p50;
  const bool reached = measured.causes.front().reaches;
  Table table(fmt::format("cause | >{} | to try", what == "Step" ? "step" : what));
  for (const model::MeasuredCause& cause : measured.causes)
    table.add({cause.name, duration(cause.time_s), cause.remedy});
  return paragraph(fmt::format(
             "{} than the middle of {}: {} {}s that {} make:", slower ? "Longer" : "Shorter", duration(predicted.p50),
             reached ? "each of these alone may reach that far." : "no single cause reaches that far.", what,
             reached ? "they" : "the largest")) +
         table.to_string();
}

// Returns "Mean of 8 drawn fleets of 2,048 GPUs; eight of ten steps take 19.41 to 19.63 s, 19.02 s on GPUs that are all
// alike." and how long the GPUs compute and wait.
std::string cluster_sentence(const model::ClusterSpread& cluster) {
  return fmt::format(
      "{} of {} GPUs, {}; eight of ten steps take {}, and one on GPUs that are all alike {}. Eight of ten GPUs compute "
      "for {} and wait for others for {}.",
      cluster.seeds == 1 ? "One drawn fleet" : fmt::format("Mean of {} drawn fleets", cluster.seeds),
      grouped(cluster.gpus), cluster.by_kernels ? "kernel by kernel" : "slot by slot", seconds_span(cluster.step_s),
      duration(cluster.even_step_s), seconds_span(cluster.compute_s), seconds_span(cluster.wait_s));
}

std::string plus_minus(double half_width) { return fmt::format("±{}", percent(half_width)); }

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

std::string seconds_span(const model::Quantiles& quantiles) {
  const std::string low = duration(quantiles.p10), high = duration(quantiles.p90);
  const std::size_t unit = low.rfind(' ');
  const bool same = unit != std::string::npos && high.ends_with(low.substr(unit));
  return fmt::format("{} to {}", same ? low.substr(0, unit) : low, high);
}

std::string left_sentence(const model::PredictionInterval& interval) {
  if (interval.left_rows.empty()) return "";
  return fmt::format("Measured steps took {} times what is predicted ({}).", fixed(interval.left_factor, 2),
                     interval.left_rows);
}

std::string memory_sentence(const model::StepResult& result) {
  const model::Quantiles& peak = result.interval->peak_bytes;
  const bool above = peak.p90 > result.memory.capacity_bytes;
  return fmt::format(
      "{} to {} GB in eight of ten cases{}.", gigabytes(peak.p10), gigabytes(peak.p90),
      above ? ", on a device without limit: before it fails, the allocator returns what it holds unused" : "");
}

std::string run_interval_table(const model::PredictionInterval& interval) {
  if (!interval.days) return "";
  Table table("as clusters run it | >p10 | >middle | >p90");
  const auto row = [&table](const char* name, const std::optional<model::Quantiles>& quantiles,
                            std::string (*text)(double)) {
    if (quantiles) table.add({name, text(quantiles->p10), text(quantiles->p50), text(quantiles->p90)});
  };
  row("days", interval.days, days_text);
  row("GPU-hours", interval.gpu_hours, grouped);
  row("cost, with the range of the price", interval.cost_usd, [](double usd) { return dollars(usd, 2); });
  return table.to_string();
}

std::string parts_section(const model::PredictionInterval& interval) {
  std::string out = paragraph(fmt::format(
      "The step time is its middle {}, from {} draws. Shares of the variance, and the interval after a measurement:",
      plus_minus(interval.time_s.half_width()), interval.draws));
  Table table("source | >share | to measure | >then");
  const std::size_t shown = std::min(interval.parts.size(), most_parts);
  for (std::size_t i = 0; i < shown; ++i) {
    const model::IntervalPart& part = interval.parts[i];
    table.add({part.source, percent(part.share), part.measurement,
               part.half_width_after ? plus_minus(*part.half_width_after) : ""});
  }
  out += table.to_string();
  std::vector<std::string> others;
  for (std::size_t i = shown; i < interval.parts.size(); ++i)
    others.push_back(fmt::format("{} {}", interval.parts[i].source, percent(interval.parts[i].share)));
  return others.empty() ? out : out + paragraph(fmt::format("Others: {}.", fmt::join(others, ", ")));
}

std::string verdict_sentence(const model::MeasuredStep& measured, double bound_s) {
  using enum model::MeasuredVerdict;
  switch (measured.verdict) {
    case slower:
      return fmt::format("Slower than {}: look for what runs otherwise than the plan says.",
                         most_runs(measured.share_below));
    case faster:
      return fmt::format("Faster than {}: look for what the plan has and the run left out, and how it was timed.",
                         most_runs(1 - measured.share_below));
    case impossible:
      return fmt::format(
          "Faster than what the hardware allows: below the lower bound of {}. Tokens, GPUs or FLOPs were counted "
          "otherwise than in this plan.",
          duration(bound_s));
    case as_predicted:
      break;
  }
  return fmt::format("As predicted: {} of such runs are faster.", rounded_percent(measured.share_below));
}

std::string memory_verdict(const model::MeasuredMemory& memory) {
  constexpr double tail = 0.1;  // outside of P10 and P90
  if (memory.share_below > 1 - tail)
    return fmt::format("More than in {}: look for what else is on the GPU.", most_runs(memory.share_below));
  if (memory.share_below < tail)
    return fmt::format("Less than in {}: look whether the fullest GPU was read, at its peak.",
                       most_runs(1 - memory.share_below));
  return fmt::format("As predicted: {} of such runs take less.", rounded_percent(memory.share_below));
}

std::string measured_section(const model::StepResult& result) {
  const model::MeasuredStep& measured = *result.measured;
  const model::Quantiles& predicted = result.interval->time_s;
  std::string out = paragraph(fmt::format("{} is a step of {}. {}", measured.given, duration(measured.time_s),
                                          verdict_sentence(measured, result.bound_s.value_or(0))));
  if (measured.log) out += log_text(*measured.log, measured.time_s);
  out += conventions_text(measured, predicted) + causes_text(measured, predicted, "Step");
  if (measured.memory) {
    // No measured peak is above the capacity: the range is that in which `share_below` counts.
    const model::Quantiles peak = result.interval->peak_bytes.at_most(result.memory.capacity_bytes);
    out += paragraph(fmt::format("Memory: {} where {} are predicted, {} to {} as clusters run it. {}",
                                 peak_text(*measured.memory), gigabytes(result.memory.peak_bytes), gigabytes(peak.p10),
                                 gigabytes(peak.p90), memory_verdict(*measured.memory)));
  }
  return out;
}

std::string measured_section(const sim::MeasuredDeployment& found) {
  const model::MeasuredStep& measured = found.measured;
  return paragraph(fmt::format("{} is a TPOT of {}. {}", measured.given, duration(measured.time_s),
                               verdict_sentence(measured, 0))) +
         causes_text(measured, found.predicted, "TPOT");
}

std::string cluster_section(const model::StepResult& result, const std::vector<Comparison>& comparisons) {
  const model::ClusterSpread& cluster = *result.cluster;
  std::string out = paragraph(cluster_sentence(cluster)) + '\n';
  Table table("cause | >of the bubble | >of the step");
  double bubble = 0;
  for (const model::BubblePart& part : cluster.bubble) {
    table.add({part.cause, fixed(part.seconds, 3) + " s", fixed(part.step_s, 3) + " s"});
    bubble += part.seconds;
  }
  table.add_rule();
  const std::string of =
      cluster.seeds > sim::most_taken_apart ? fmt::format(", first {} fleets", sim::most_taken_apart) : "";
  table.add({"bubble of rank 0" + of, fixed(bubble, 3) + " s"});
  const auto published = std::ranges::find(comparisons, "bubble", &Comparison::name);
  if (published != comparisons.end()) table.add({"published", fixed(published->published, 3) + " s"});
  out += table.to_string();
  if (cluster.rank_wait_s.size() > 1) {
    const auto [least, most] = std::ranges::minmax_element(cluster.rank_wait_s);
    out += paragraph(fmt::format("GPUs of pipeline rank {} wait least ({}), those of rank {} most ({}).",
                                 least - cluster.rank_wait_s.begin(), duration(*least),
                                 most - cluster.rank_wait_s.begin(), duration(*most)));
  }
  if (!cluster.priors.empty()) out += paragraph("Drawn:");
  for (const std::string& prior : cluster.priors) out += paragraph("- " + prior);
  return out;
}

}  // namespace plumbline::reports
