// These rules set the pipeline: virtual stages and the layers of each stage.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/megatron/detail/arithmetic.h"
#include "model/megatron/detail/stages.h"
#include "model/megatron/rules.h"
#include "model/plan/layout.h"

namespace plumbline::model::megatron {
namespace {

constexpr std::int64_t kMostStages = 1'000'000;

std::optional<std::int64_t> number(const RuleReader& in, std::string_view argument) {
  return integer(in.given.value(argument).value_or(""));
}

std::int64_t virtual_stages(const RuleReader& in) {
  const std::int64_t pipeline = in.plan.parallelism.pipeline;
  if (const auto count = number(in, "--num-virtual-stages-per-pipeline-rank")) return *count;
  const auto layers = number(in, "--num-layers-per-virtual-pipeline-stage");
  if (!layers || *layers < 1 || pipeline < 1) return 1;
  if (in.shape.layers / pipeline % *layers != 0) {
    in.note("--num-layers-per-virtual-pipeline-stage", "does not divide the layers of a rank; no virtual stages");
    return 1;
  }
  return std::max<std::int64_t>(1, in.shape.layers / pipeline / *layers);
}

void read_layout(const RuleReader& in, const std::string& layout) {
  auto& schedule = in.plan.schedule;
  const std::int64_t pipeline = in.plan.parallelism.pipeline;
  const auto counts = parse_layout(layout);
  if (!counts || pipeline < 1 || static_cast<std::int64_t>(counts->size()) % pipeline != 0) {
    return in.note("--pipeline-model-parallel-layout",
                   fmt::format("'{}' is not understood; layers are spread evenly", layout));
  }
  schedule.virtual_stages = static_cast<std::int64_t>(counts->size()) / pipeline;
  if (std::ranges::find(*counts, 0) != counts->end()) {
    return in.note("--pipeline-model-parallel-layout",
                   "has stages without layers, which no plan has; layers are spread evenly");
  }
  schedule.layers_per_stage = *counts;
}

void read_ends(const RuleReader& in) {
  const auto first = number(in, "--decoder-first-pipeline-num-layers");
  const auto last = number(in, "--decoder-last-pipeline-num-layers");
  if (!first && !last) return;
  auto& schedule = in.plan.schedule;
  const auto counts = uneven_ends(in.shape.layers, in.plan.parallelism.pipeline, schedule.virtual_stages, first, last);
  if (counts) {
    schedule.layers_per_stage = *counts;
  } else {
    in.note(first ? "--decoder-first-pipeline-num-layers" : "--decoder-last-pipeline-num-layers",
            "the other ranks cannot share the rest evenly; layers are spread evenly over all");
  }
}

void read_schedule(const RuleReader& in) {
  auto& schedule = in.plan.schedule;
  const std::int64_t pipeline = in.plan.parallelism.pipeline;
  schedule.virtual_stages = virtual_stages(in);
  if (pipeline < 1 || schedule.virtual_stages < 1 || pipeline > kMostStages / schedule.virtual_stages) return;
  const std::string layout = in.given.value("--pipeline-model-parallel-layout").value_or("");
  if (layout.empty()) {
    read_ends(in);
  } else {
    read_layout(in, layout);
  }
  // An even split needs no list.
  const std::int64_t stages = pipeline * schedule.virtual_stages;
  if (schedule.layers_per_stage == even_layer_counts(in.shape.layers, stages)) schedule.layers_per_stage.clear();
  const bool overlapped = in.given.has("--overlap-moe-expert-parallel-comm");
  if (schedule.virtual_stages > 1) {
    schedule.kind = overlapped ? "interleaved-overlap" : "interleaved";
  } else if (overlapped) {
    in.note("--overlap-moe-expert-parallel-comm", "is priced with virtual stages only");
  }
}

bool ends_say_it(const std::vector<std::int64_t>& counts) {
  for (std::size_t i = 2; i + 1 < counts.size(); ++i) {
    if (counts[i] != counts[1]) return false;
  }
  return counts.size() > 2;
}

void write_layers(const RuleWriter& out, std::int64_t chunks) {
  const std::int64_t pipeline = out.plan.parallelism.pipeline, layers = out.shape.layers;
  const std::int64_t stages = pipeline * chunks;
  std::vector<std::int64_t> counts = out.plan.schedule.layers_per_stage;
  if (counts.empty() && layers % stages == 0) return;
  if (counts.empty()) counts = even_layer_counts(layers, stages);
  if (static_cast<std::int64_t>(counts.size()) != stages) return;
  if (chunks == 1 && ends_say_it(counts)) {
    out.out.put("--decoder-first-pipeline-num-layers", std::to_string(counts.front()));
    out.out.put("--decoder-last-pipeline-num-layers", std::to_string(counts.back()));
  } else {
    out.out.put("--pipeline-model-parallel-layout", layout_text(counts, out.shape.prediction_layers.value_or(0) > 0));
  }
}

void write_schedule(const RuleWriter& out) {
  const auto& schedule = out.plan.schedule;
  const bool interleaved = schedule.kind.starts_with("interleaved");
  const std::int64_t chunks = interleaved ? schedule.virtual_stages : 1;
  if (out.plan.parallelism.pipeline > kMostStages / chunks) return;
  write_layers(out, chunks);
  // A layout's length gives the number of virtual stages, and Megatron accepts only one of both.
  if (chunks > 1 && !out.out.has("--pipeline-model-parallel-layout")) {
    out.out.put("--num-virtual-stages-per-pipeline-rank", std::to_string(chunks));
  }
  if (chunks > 1 && schedule.kind == "interleaved-overlap") out.out.put_flag("--overlap-moe-expert-parallel-comm");
}

}  // namespace

Rule schedule_rule() { return {read_schedule, write_schedule}; }

}  // namespace plumbline::model::megatron
