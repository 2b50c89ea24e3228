#include "sim/step/chunk.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "model/cost/operator_class.h"
#include "model/cost/work.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/program/compile.h"
#include "sim/engine/gpu_model.h"
#include "sim/engine/heap_loop.h"
#include "sim/predict/cost_models.h"
#include "sim/predict/inputs.h"
#include "sim/predict/memos.h"
#include "sim/step/detail/predicted_kernel.h"
#include "sim/step/slot_host.h"
#include "sim/step/slot_power.h"
#include "sim/step/stragglers.h"

namespace plumbline::sim {
namespace {

using model::Segment;

int launches(const model::KernelCost& kernels, const model::Graph& graph, const model::Operator& op, double share) {
  if (op.kind != model::OperatorKind::grouped_matmul || op.phase != model::Phase::W) return 1;
  return std::max(1, static_cast<int>(std::lround(share * kernels.kernels(graph, op))));
}

}  // namespace

KernelSlot take_apart(const model::StepProgram& program, const model::SlotTemplate& slot, const CostModels& costs) {
  KernelSlot result;
  std::vector<std::uint16_t> last_kernel;  // of each segment of the template
  PowerWindows windows;
  SegmentCalls calls;
  const double clock = slot_power(program, slot, costs, windows).clock;
  const SlotHost host = slot_host(program, slot, costs, SegmentTimer(program, costs).times(slot, clock), calls);
  const auto append = [&](Segment kernel, std::size_t origin) {
    result.times.push_back(segment_time(program.blocks[kernel.block], kernel, costs, clock));
    for (double& compute : result.times.back().compute) compute += host_seconds(program, kernel, costs, host);
    result.segments.push_back(std::move(kernel));
    result.origins.push_back(static_cast<std::uint16_t>(origin));
  };
  for (std::size_t i = 0; i < slot.segments.size(); ++i) {
    Segment segment = slot.segments[i];
    for (std::uint16_t& wait : segment.waits) wait = last_kernel[wait];
    if (segment.stream == model::Stream::communication || segment.stream == model::Stream::collective) {
      append(segment, i);
    } else {
      const model::Graph& graph = program.blocks[segment.block];
      for (const std::uint16_t op : slot.segments[i].operators) {
        const int count = launches(costs.kernels, graph, graph.operators[op], segment.share);
        for (int k = 0; k < count; ++k) {
          Segment kernel = segment;
          kernel.operators = {op};
          kernel.share = segment.share / count;
          append(std::move(kernel), i);
          segment.waits.clear();  // stream order keeps the other kernels behind the first
        }
      }
    }
    last_kernel.push_back(static_cast<std::uint16_t>(result.segments.size() - 1));
  }
  return result;
}

namespace {

using model::Section;
using model::Stream;

// Returns the index of an all-to-all in ChunkRank::Slot::waits.
std::size_t all_to_all_index(const Segment& segment) {
  const bool dispatch = segment.section == Section::dispatch;
  return segment.forward_side ? (dispatch ? 1 : 3) : (dispatch ? 2 : 0);
}

const model::SlotTemplate* middle_pair(const model::StepProgram& program) {
  const std::int32_t middle = program.stages[program.stages.size() / 2].kind;
  const auto found = std::ranges::find_if(program.templates, [&](const model::SlotTemplate& slot) {
    return slot.type == model::OpType::FB && slot.f_stage_kind == middle && slot.b_stage_kind == middle;
  });
  return found == program.templates.end() ? nullptr : &*found;
}

// Returns the expert rows that a rank expects in a layer, or 0 in a layer without experts.
double expected_rows(const model::Graph& block) {
  for (const model::Tensor& tensor : block.tensors)
    for (const model::Dimension& dimension : tensor.shape)
      if (dimension.extent == model::Extent::rows) return static_cast<double>(dimension.size);
  return 0;
}

// Returns the pair of layers of a segment; a slot pairs forward layer s with backward layer (layers - 1 - s).
std::int32_t slot_of(const Segment& segment, std::int32_t layers) {
  return segment.forward_side ? segment.block_of_stage : layers - 1 - segment.block_of_stage;
}

// Returns the waits of the pair's segments when the whole expert group runs it.
GroupRun group_waits(const Inputs& inputs, const model::StepProgram& program, const model::SlotTemplate& pair,
                     const CostModels& costs) {
  const model::Plan& plan = inputs.plan;
  const Imbalance imbalance = imbalance_of(plan, inputs.architecture.experts, slot_seed(pair.type));
  const std::vector<double> none(pair.segments.size());
  if (imbalance.even() || plan.parallelism.expert == 1) return {0, none, none};
  return run_group(pair, segment_times(program, pair, costs), plan.parallelism.expert, costs.partition.device_sms,
                   imbalance);
}

class Run final : public GpuListener, public Handler {
 public:
  Run(const std::vector<model::Graph>& blocks, KernelSlot kernels, std::int32_t layers, const ChunkRank& rank)
      : blocks_(blocks), kernels_(std::move(kernels)), gpu_(loop_, *this, 0), layers_(layers) {
    for (std::size_t i = 0; i < kernels_.segments.size(); ++i) {
      const Segment& segment = kernels_.segments[i];
      const ChunkRank::Slot here = rank.slots.empty() ? ChunkRank::Slot{} : rank.slots[slot_of(segment)];
      const double rows = segment.forward_side ? here.forward_rows : here.backward_rows;
      const double expected = expected_rows(blocks_[segment.block]);
      row_scales_.push_back(rows > 0 && expected > 0 ? rows / expected : 1);
      if (segment.stream != Stream::communication) continue;
      SegmentTime& time = kernels_.times[i];
      if (const auto given = here.waits[all_to_all_index(segment)]) time.wait = std::max(0.0, *given - time.notify);
    }
    runs_.resize(kernels_.segments.size());
  }

  ChunkRun run(std::int64_t device_sms) {
    gpu_.start({.segments = &kernels_.segments,
                .times = &kernels_.times,
                .row_scales = &row_scales_,
                .device_sms = device_sms,
                .kernel_by_kernel = true});
    loop_.run();
    ChunkRun result;
    for (std::size_t i = 0; i < runs_.size(); ++i) add_kernels(result, i);
    add_phases();
    result.timeline = timeline_.finish();
    result.timeline.end_ps = end_;
    result.timeline.layer_pairs = layers_;
    return result;
  }

  void arrived(GpuModel& /*gpu*/, std::uint32_t segment) override {
    loop_.at(loop_.now() + to_time(kernels_.times[segment].wait), {this, 0, 0, segment});
  }
  void handle(std::uint32_t /*code*/, std::uint64_t argument) override {
    gpu_.proceed(static_cast<std::uint32_t>(argument));
  }
  void slot_ended(GpuModel& /*gpu*/) override { end_ = loop_.now(); }
  void segment_ended(const GpuModel& /*gpu*/, std::uint32_t segment, const SegmentRun& run) override {
    runs_[segment] = run;
  }

 private:
  std::int32_t slot_of(const Segment& segment) const { return sim::slot_of(segment, layers_); }

  model::Span place_of(const Segment& segment) const {
    return {.stream = segment.stream, .layer = segment.block_of_stage, .layer_pair = slot_of(segment)};
  }

  void add(const Segment& segment, const std::string& name, model::Kernel kernel, Time start, Time end) {
    if (end <= start) return;
    timeline_.add(place_of(segment), name, std::move(kernel), start, end);
  }

  void add_kernels(ChunkRun& result, std::size_t index) {
    const Segment& segment = kernels_.segments[index];
    const model::Graph& graph = blocks_[segment.block];
    const model::Operator& op = graph.operators[segment.operators.front()];
    const SegmentRun& run = runs_[index];
    const model::OperatorClass kind = model::operator_class(graph, op);
    if (op.phase == model::Phase::F) result.model_flops += 3 * model::flops(graph, op, 1, false).value();
    const bool prepares = segment.stream == Stream::communication && kind != model::OperatorClass::exchange;
    model::Kernel kernel = predicted_kernel(graph, op, segment);
    if (segment.stream != Stream::communication) {
      add(segment, op.name, std::move(kernel), run.start, run.end);
      return;
    }
    if (!prepares) kernel.row = "layout";
    add(segment, prepares ? op.name : "layout", kernel, run.start, run.prepared);
    kernel.row = "notify";
    add(segment, "notify", kernel, run.arrival, run.transfer);
    kernel.row = transfer_row(segment);
    add(segment, "transfer", kernel, run.transfer, run.end);
  }

  // A phase lasts from its first kernel to its last, with whatever runs between them.
  void add_phases() {
    std::map<std::pair<std::int32_t, std::string>, model::Span> phases;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const Segment& segment = kernels_.segments[i];
      if (model::on_host_link(segment.stream)) continue;  // overlaps other phases
      model::Span place = place_of(segment);
      place.start_ps = runs_[i].start;
      const auto [entry, fresh] =
          phases.try_emplace({place.layer_pair, model::span_name(segment.section, segment.phase)}, place);
      model::Span& span = entry->second;
      const Time end = std::max(fresh ? runs_[i].end : span.end_ps(), runs_[i].end);
      span.start_ps = std::min(span.start_ps, runs_[i].start);
      span.duration_ps = end - span.start_ps;
    }
    for (const auto& [key, span] : phases)
      timeline_.add(span, key.second, model::phase_depth, span.start_ps, span.end_ps());
  }

  const std::vector<model::Graph>& blocks_;
  KernelSlot kernels_;
  HeapLoop loop_;
  GpuModel gpu_;
  std::int32_t layers_ = 0;
  std::vector<double> row_scales_;
  std::vector<SegmentRun> runs_;
  model::TimelineWriter timeline_;
  Time end_ = 0;
};

}  // namespace

model::Result<ChunkModel> ChunkModel::make(const Inputs& inputs) {
  const auto layout = TRY(model::make_layout(inputs.plan, inputs.architecture));
  const auto program = TRY(model::compile(inputs.plan, inputs.architecture, layout, spread_of(inputs)));
  auto costs = TRY(cost_models(inputs, layout));
  costs.kernels.slow_down(1);  // the profiled rank is any
  const model::SlotTemplate* pair = middle_pair(program);
  if (pair == nullptr)
    return tl::unexpected(model::plan_error(inputs.plan, model::ErrorKind::infeasible, "schedule.kind",
                                            fmt::format("{} overlaps no two chunks", inputs.plan.schedule.kind),
                                            "choose dualpipe, dualpipev or interleaved-overlap"));
  ChunkModel chunk;
  chunk.plan_file_ = inputs.plan.file;
  chunk.layers_ = static_cast<std::int32_t>(program.stage_kinds[pair->f_stage_kind].blocks.size());
  chunk.device_sms_ = costs.partition.device_sms;
  chunk.kernels_ = take_apart(program, *pair, costs);
  const GroupRun group = group_waits(inputs, program, *pair, costs);
  chunk.barriers_.resize(static_cast<std::size_t>(chunk.layers_));
  for (std::size_t i = 0; i < chunk.kernels_.times.size(); ++i) {
    const Segment& segment = chunk.kernels_.segments[i];
    SegmentTime& time = chunk.kernels_.times[i];
    const std::uint16_t origin = chunk.kernels_.origins[i];
    time.wait = group.waits[origin];
    if (segment.stream != Stream::communication) continue;
    Barriers& barriers = chunk.barriers_[static_cast<std::size_t>(slot_of(segment, chunk.layers_))];
    barriers.following += time.notify + time.wait;
    barriers.together += time.notify + group.first[origin];
  }
  chunk.blocks_ = program.blocks;
  return chunk;
}

model::Result<ChunkRun> ChunkModel::run(const ChunkRank& rank) const {
  if (!rank.slots.empty() && rank.slots.size() != static_cast<std::size_t>(layers_))
    return model::wrong_input_at(
        plan_file_, 0, "schedule.layers_per_stage",
        fmt::format("the measured chunk has {} layers, a middle stage of the plan {}", rank.slots.size(), layers_),
        "give a plan with as many layers per stage as were measured");
  return Run(blocks_, kernels_, layers_, rank).run(device_sms_);
}

model::Result<ChunkRun> run_chunk(const Inputs& inputs, const ChunkRank& rank) {
  return TRY(ChunkModel::make(inputs)).run(rank);
}

}  // namespace plumbline::sim
