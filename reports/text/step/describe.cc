#include "reports/text/step/describe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "model/base/text.h"
#include "model/schedule/schedule.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

using model::Evidence;

constexpr std::array kinds = {Evidence::measured, Evidence::fitted, Evidence::published, Evidence::datasheet,
                              Evidence::assumed};

// Returns ", FSDP over 128", ", HSDP of 2 x 64" (replicas and ranks of a group), ", ZeRO-1"; empty where all is
// replicated.
std::string sharding_words(const model::Plan& plan) {
  const auto& degrees = plan.parallelism;
  if (degrees.zero_stage == 0) return "";
  const std::int64_t blocks = degrees.tensor * degrees.pipeline;
  const std::int64_t ranks = blocks > 0 ? plan.cluster.gpus / blocks : 0;
  const std::int64_t group = degrees.shard_group == 0 ? ranks : degrees.shard_group;
  if (degrees.zero_stage < 3) return fmt::format(", ZeRO-{}", degrees.zero_stage);
  if (group == ranks) return fmt::format(", FSDP over {}", ranks);
  return fmt::format(", HSDP of {} x {}", ranks / group, group);
}

}  // namespace

std::string_view describe(model::OpType type) {
  switch (type) {
    case model::OpType::F:
      return "forward";
    case model::OpType::B:
      return "backward";
    case model::OpType::I:
      return "input gradient";
    case model::OpType::W:
      return "weight gradient";
    case model::OpType::FB:
      return "overlapped pair";
  }
  return "";
}

std::string hardware(const model::Plan& plan, const std::string& device) {
  const std::string gpus = grouped(plan.cluster.gpus);
  if (device.empty()) return fmt::format("{} GPUs ({})", gpus, plan.cluster.topology);
  return fmt::format("{} {} ({})", gpus, device, plan.cluster.topology);
}

std::string constants_words(const model::StepResult& result) {
  return model::printable(
      fmt::format("profile {}{}{}", result.profile, result.stack.empty() ? "" : ", stack ", result.stack));
}

std::string stack_share(const std::vector<model::ProvenanceEntry>& provenance) {
  std::string name;
  std::size_t constants = 0;
  double share = 0;
  for (const model::ProvenanceEntry& entry : provenance) {
    if (entry.parameter.stack.empty()) continue;
    name = entry.parameter.stack;
    share += entry.share_of_step;
    ++constants;
  }
  if (constants == 0) return "";
  return fmt::format("Software stack {}: {} ({} {}).", name, percent(share), constants,
                     constants == 1 ? "constant" : "constants");
}

std::string parallelism(const model::Plan& plan) {
  std::string text = plan.schedule.kind;
  const auto degree = [&](const char* name, std::int64_t value) {
    if (value > 1) text += fmt::format(", {} {}", name, value);
  };
  const auto& degrees = plan.parallelism;
  const std::int64_t per_replica = degrees.tensor * degrees.context * degrees.pipeline;
  degree("pipeline", degrees.pipeline);
  degree("tensor", degrees.tensor);
  degree("context", degrees.context);
  degree("expert", degrees.expert);
  degree("data", per_replica > 0 ? plan.cluster.gpus / per_replica : 0);
  const model::StageLayers& layers = plan.schedule.layers_per_stage;
  if (layers.found) text += fmt::format(", layers balanced {}", fmt::join(layers.counts, " "));
  text += sharding_words(plan);
  const auto& training = plan.training;
  if (training.method != "full") text += fmt::format(", {} of rank {}", training.method, training.rank);
  if (training.objective == "dpo") text += training.reference == "model" ? ", DPO with a reference model" : ", DPO";
  if (plan.optimizer.kind == "muon") text += ", Muon";
  return text + fmt::format(", {}", model::to_string(plan.precision.gemm));
}

std::string plan_title(const model::Plan& plan, const std::string& device, Style style) {
  std::string text;
  for (const std::string& line :
       wrap(fmt::format("{} on {}", model_name(plan), hardware(plan, device)), terminal_width))
    text += bold(line, style) + '\n';
  return text + wrapped(parallelism(plan));
}

std::string routing(const model::Plan& plan) {
  const auto& stated = plan.routing;
  if (stated.pad_to_capacity.value_or(false)) return "every expert filled up to its capacity";
  if (!stated.rows_per_rank.empty()) return "rows of the expert ranks as stated";
  if (stated.load_file) return fmt::format("routing by the loads of {}", *stated.load_file);
  if (stated.skew)
    return fmt::format("routing by a gate of skew {:g}, balancing {}", *stated.skew, stated.balancing.value_or("none"));
  if (stated.imbalance > 0)
    return fmt::format("natural routing, rows of expert ranks vary by {:.3g} %", 100 * stated.imbalance);
  return plan.places.contains("routing.imbalance")
             ? "routing with forced balance"
             : "routing with forced balance assumed; natural routing takes longer (routing.imbalance)";
}

std::string assumed_words(const std::vector<model::AssumedKey>& assumed) {
  std::string text;
  for (const model::AssumedKey& one : assumed)
    text += fmt::format("{} {}{}{} ({}: {})", text.empty() ? "assumed:" : ",", one.name, one.value.empty() ? "" : " ",
                        one.value, one.other, signed_percent(one.ratio - 1));
  return text;
}

std::string stage_list(const model::RankMemory& rank) { return fmt::format("{}", fmt::join(rank.stages, ", ")); }

std::vector<EvidenceShare> evidence_shares(const std::vector<model::ProvenanceEntry>& provenance) {
  std::vector<EvidenceShare> shares;
  for (const Evidence kind : kinds) {
    EvidenceShare share{kind};
    for (const model::ProvenanceEntry& entry : provenance) {
      if (entry.parameter.kind != kind) continue;
      share.share += entry.share_of_step;
      ++share.constants;
    }
    if (share.constants > 0) shares.push_back(share);
  }
  return shares;
}

std::vector<model::ProvenanceEntry> unmeasured(const std::vector<model::ProvenanceEntry>& provenance) {
  std::vector<model::ProvenanceEntry> entries;
  for (const model::ProvenanceEntry& entry : provenance) {
    const Evidence kind = entry.parameter.kind;
    if (kind == Evidence::datasheet || kind == Evidence::assumed) entries.push_back(entry);
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.share_of_step > b.share_of_step; });
  return entries;
}

std::string evidence_counts(const std::vector<model::Parameter>& parameters, std::string_view prefix) {
  std::string text;
  for (const Evidence kind : kinds) {
    const auto count = std::ranges::count_if(
        parameters, [&](const model::Parameter& p) { return p.kind == kind && p.name.starts_with(prefix); });
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, model::to_string(kind));
  }
  return text;
}

}  // namespace plumbline::reports
