#include "sim/step/chunk.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "model/cost/work.h"
#include "model/plan/layout.h"
#include "model/program/compile.h"
#include "sim/engine/heap_loop.h"
#include "sim/engine/lane.h"
#include "sim/predict/cost_models.h"
#include "sim/predict/routing_memo.h"
#include "sim/step/kernel_slot.h"
#include "sim/step/stragglers.h"

namespace plumbline::sim {

namespace {

using model::Section;
using model::Segment;
using model::Stream;

// The exchanges of a slot in the order of ChunkRank::Slot::waits.
std::size_t exchange_index(const Segment& segment) {
  const bool dispatch = segment.section == Section::dispatch;
  return segment.forward_side ? (dispatch ? 1 : 3) : (dispatch ? 2 : 0);
}

const model::SlotTemplate* interior_pair(const model::StepProgram& program) {
  const std::int32_t interior = program.stages[program.stages.size() / 2].kind;
  const auto found = std::ranges::find_if(program.templates, [&](const model::SlotTemplate& slot) {
    return slot.type == model::OpType::FB && slot.f_stage_kind == interior && slot.b_stage_kind == interior;
  });
  return found == program.templates.end() ? nullptr : &*found;
}

// Expert rows that a rank expects in a layer; 0 in layers without experts.
double expected_rows(const model::Graph& block) {
  for (const model::Tensor& tensor : block.tensors)
    for (const model::Dimension& dimension : tensor.shape)
      if (dimension.extent == model::Extent::rows) return static_cast<double>(dimension.size);
  return 0;
}

// Mean waits of the pair's segments when the whole expert group runs it.
std::vector<double> group_waits(const Inputs& inputs, const model::StepProgram& program,
                                const model::SlotTemplate& pair, const CostModels& costs) {
  const model::Plan& plan = inputs.plan;
  const Imbalance imbalance = {plan.routing.imbalance, relative_rows(plan.routing.rows_per_rank), slot_seed(pair.type)};
  if (imbalance.even() || plan.parallelism.expert == 1) return std::vector<double>(pair.segments.size(), 0.0);
  return run_group(pair, segment_times(program, pair, costs), plan.parallelism.expert, costs.partition.device_sms,
                   imbalance)
      .waits;
}

class Run final : public LaneListener, public Handler {
 public:
  Run(const std::vector<model::Graph>& blocks, KernelSlot kernels, std::int32_t layers, const ChunkRank& rank)
      : blocks_(blocks), kernels_(std::move(kernels)), lane_(loop_, *this, 0), layers_(layers) {
    for (std::size_t i = 0; i < kernels_.segments.size(); ++i) {
      const Segment& segment = kernels_.segments[i];
      const ChunkRank::Slot here = rank.slots.empty() ? ChunkRank::Slot{} : rank.slots[slot_of(segment)];
      const double rows = segment.forward_side ? here.forward_rows : here.backward_rows;
      const double expected = expected_rows(blocks_[segment.block]);
      row_scales_.push_back(rows > 0 && expected > 0 ? rows / expected : 1);
      if (segment.stream != Stream::communication) continue;
      SegmentTime& time = kernels_.times[i];
      if (const auto given = here.waits[exchange_index(segment)]) time.wait = std::max(0.0, *given - time.notify);
    }
    runs_.resize(kernels_.segments.size());
  }

  ChunkRun run(std::int64_t device_sms) {
    lane_.start({.segments = &kernels_.segments,
                 .times = &kernels_.times,
                 .row_scales = &row_scales_,
                 .device_sms = device_sms,
                 .kernel_by_kernel = true});
    loop_.run();
    ChunkRun result;
    result.seconds = to_seconds(end_);
    result.compute_busy = to_seconds(lane_.compute_busy());
    result.exposed_communication = result.seconds - result.compute_busy;
    collect_kernels(result);
    collect_spans(result);
    return result;
  }

  void arrived(Lane& /*lane*/, std::uint32_t segment) override {
    loop_.at(loop_.now() + to_time(kernels_.times[segment].wait), {this, 0, 0, segment});
  }
  void handle(std::uint32_t /*code*/, std::uint64_t argument) override {
    lane_.proceed(static_cast<std::uint32_t>(argument));
  }
  void slot_ended(Lane& /*lane*/) override { end_ = loop_.now(); }
  void segment_ended(const Lane& /*lane*/, std::uint32_t segment, const SegmentRun& run) override {
    runs_[segment] = run;
  }

 private:
  std::int32_t slot_of(const Segment& segment) const {
    return segment.forward_side ? segment.block_of_stage : layers_ - 1 - segment.block_of_stage;
  }

  void add(ChunkRun& result, const Segment& segment, std::string name, model::OperatorClass kind, bool recomputed,
           Time start, Time end) const {
    if (end <= start) return;
    result.kernels.push_back({std::move(name), kind, segment.section, segment.phase, recomputed, segment.stream,
                              slot_of(segment), to_seconds(start), to_seconds(end)});
  }

  void collect_kernels(ChunkRun& result) const {
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const Segment& segment = kernels_.segments[i];
      const model::Graph& graph = blocks_[segment.block];
      const model::Operator& op = graph.operators[segment.operators.front()];
      const SegmentRun& run = runs_[i];
      const model::OperatorClass kind = model::operator_class(graph, op);
      if (op.phase == model::Phase::F) result.model_flops += 3 * model::flops(graph, op, 1, false).value();
      if (segment.stream != Stream::communication) {
        add(result, segment, op.name, kind, op.recomputed, run.start, run.end);
        continue;
      }
      const bool prepares = kind != model::OperatorClass::exchange;  // else it lays out what goes where
      add(result, segment, prepares ? op.name : "layout", kind, false, run.start, run.prepared);
      add(result, segment, "notify", model::OperatorClass::exchange, false, run.arrival, run.transfer);
      add(result, segment, "transfer", model::OperatorClass::exchange, false, run.transfer, run.end);
      result.communication_busy += to_seconds(run.end - run.start);
    }
    std::ranges::stable_sort(result.kernels, {}, [](const ChunkKernel& k) { return std::pair(k.stream, k.start); });
  }

  // A phase runs from its first kernel to its last, whatever stands between them.
  void collect_spans(ChunkRun& result) const {
    std::map<std::pair<std::int32_t, std::string>, ChunkSpan> spans;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const Segment& segment = kernels_.segments[i];
      if (model::on_host_link(segment.stream)) continue;  // beside whichever phase
      const std::string name = model::span_name(segment.section, segment.phase);
      const double start = to_seconds(runs_[i].start), end = to_seconds(runs_[i].end);
      const auto [entry, fresh] =
          spans.try_emplace({slot_of(segment), name}, ChunkSpan{name, slot_of(segment), start, end});
      ChunkSpan& span = entry->second;
      span.start = std::min(span.start, start);
      span.end = std::max(span.end, end);
    }
    for (const auto& [key, span] : spans) result.spans.push_back(span);
    for (std::int32_t slot = 1; slot < layers_; ++slot) {
      const std::string last = model::span_name(Section::attention, model::Phase::I);
      result.slot_periods.push_back(spans.at({slot, last}).end - spans.at({slot - 1, last}).end);
    }
    std::ranges::stable_sort(result.spans, {}, &ChunkSpan::start);
  }

  const std::vector<model::Graph>& blocks_;
  KernelSlot kernels_;
  HeapLoop loop_;
  Lane lane_;
  std::int32_t layers_ = 0;
  std::vector<double> row_scales_;
  std::vector<SegmentRun> runs_;
  Time end_ = 0;
};

}  // namespace

model::Result<ChunkModel> ChunkModel::make(const Inputs& inputs) {
  const model::Result<model::Layout> layout = model::make_layout(inputs.plan, inputs.architecture);
  if (!layout) return tl::unexpected(layout.error());
  const auto compiled = model::compile(inputs.plan, inputs.architecture, *layout, spread_of(inputs));
  if (!compiled) return tl::unexpected(compiled.error());
  const model::Result<CostModels> models = cost_models(inputs, *layout);
  if (!models) return tl::unexpected(models.error());
  const model::StepProgram& program = *compiled;
  const CostModels& costs = *models;
  const model::SlotTemplate* pair = interior_pair(program);
  if (pair == nullptr)
    return tl::unexpected(model::plan_error(inputs.plan, model::ErrorKind::infeasible, "schedule.kind",
                                            fmt::format("{} overlaps no two chunks", inputs.plan.schedule.kind),
                                            "choose dualpipe, dualpipev or interleaved-overlap"));
  ChunkModel chunk;
  chunk.plan_file_ = inputs.plan.file;
  chunk.layers_ = static_cast<std::int32_t>(program.stage_kinds[pair->f_stage_kind].blocks.size());
  chunk.device_sms_ = costs.partition.device_sms;
  chunk.kernels_ = take_apart(program, *pair, costs);
  const std::vector<double> waits = group_waits(inputs, program, *pair, costs);
  for (std::size_t i = 0; i < chunk.kernels_.times.size(); ++i)
    chunk.kernels_.times[i].wait = waits[chunk.kernels_.origins[i]];
  chunk.blocks_ = program.blocks;
  return chunk;
}

model::Result<ChunkRun> ChunkModel::run(const ChunkRank& rank) const {
  if (!rank.slots.empty() && rank.slots.size() != static_cast<std::size_t>(layers_))
    return tl::unexpected(model::Error{
        model::ErrorKind::input,
        fmt::format("the measured chunk has {} layers, an interior stage of the plan {}", rank.slots.size(), layers_),
        plan_file_, 0, "schedule.layers_per_stage", "give a plan with as many layers per stage as were measured"});
  return Run(blocks_, kernels_, layers_, rank).run(device_sms_);
}

model::Result<ChunkRun> run_chunk(const Inputs& inputs, const ChunkRank& rank) {
  const model::Result<ChunkModel> chunk = ChunkModel::make(inputs);
  if (!chunk) return tl::unexpected(chunk.error());
  return chunk->run(rank);
}

}  // namespace plumbline::sim
