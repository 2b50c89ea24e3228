#include "real/executor/measured_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <sstream>

#include "model/architecture/metrics.h"
#include "model/memory/memory.h"
#include "real/executor/infeasible.h"
#include "real/executor/step/step_timeline.h"

namespace plumbline::real {
namespace {

using model::OpType;
using model::Span;
using model::Stream;

constexpr double picosecond = 1e-12;
constexpr std::size_t kinds = 5;

double seconds_of(std::int64_t picoseconds) { return static_cast<double>(picoseconds) * picosecond; }

// The times of the slots of one pipeline rank, in seconds.
struct RankSlots {
  std::array<double, kinds> seconds{}, exposed{};
  std::array<std::int64_t, kinds> counts{};
  double end = 0;      // of the last slot
  double reduced = 0;  // end of the last reduction
  double waits = 0;    // waits for messages between slots
};

std::size_t kind_of(const std::string& name) {
  for (const OpType type : {OpType::F, OpType::B, OpType::I, OpType::W, OpType::FB})
    if (name == to_string(type)) return static_cast<std::size_t>(type);
  return kinds;
}

bool computes(Stream stream) { return stream == Stream::compute || stream == Stream::weight_gradient; }

// Returns the seconds of [from, to) in which a kernel of a computing stream runs; kernels are in order of start.
double busy(const std::vector<const Span*>& kernels, std::int64_t from, std::int64_t to) {
  std::int64_t sum = 0, until = from;
  for (const Span* kernel : kernels) {
    const std::int64_t start = std::max(kernel->start_ps, until);
    const std::int64_t end = std::min(kernel->start_ps + kernel->duration_ps, to);
    if (end <= start) continue;
    sum += end - start;
    until = end;
  }
  return seconds_of(sum);
}

std::vector<RankSlots> rank_slots(const model::Timeline& timeline) {
  std::vector<RankSlots> ranks(static_cast<std::size_t>(timeline.ranks));
  std::vector<std::vector<const Span*>> kernels(ranks.size());
  for (const Span& span : timeline.spans)
    if (span.depth == 2 && computes(span.stream)) kernels[static_cast<std::size_t>(span.rank)].push_back(&span);
  for (auto& list : kernels) std::ranges::sort(list, {}, &Span::start_ps);
  for (const Span& span : timeline.spans) {
    RankSlots& rank = ranks[static_cast<std::size_t>(span.rank)];
    const std::string& name = timeline.names[span.name];
    const std::int64_t end = span.start_ps + span.duration_ps;
    if (span.stream == Stream::pipeline) rank.waits += seconds_of(span.duration_ps);
    if (name == "reduce gradients") rank.reduced = std::max(rank.reduced, seconds_of(end));
    const std::size_t kind = span.depth == 0 ? kind_of(name) : kinds;
    if (kind == kinds) continue;
    const double length = seconds_of(span.duration_ps);
    rank.seconds[kind] += length;
    rank.exposed[kind] += length - busy(kernels[static_cast<std::size_t>(span.rank)], span.start_ps, end);
    ++rank.counts[kind];
    rank.end = std::max(rank.end, seconds_of(end));
  }
  return ranks;
}

double total(const std::array<double, kinds>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

// Returns the seconds of one chunk of each kind on a middle stage: the median over its slots.
model::PerOp middle_chunks(const model::StepProgram& program, const model::Timeline& timeline) {
  const std::int32_t middle = program.stages[program.stages.size() / 2].kind;
  const auto fits = [&](std::int32_t stage) {
    return stage < 0 || program.stages[static_cast<std::size_t>(stage)].kind == middle;
  };
  std::array<std::vector<double>, kinds> durations;
  std::vector<std::size_t> next(program.schedule.ranks.size(), 0);
  for (const Span& span : timeline.spans) {  // slots of a rank are in the order of its program
    if (span.depth != 0 || kind_of(timeline.names[span.name]) == kinds) continue;
    const auto rank = static_cast<std::size_t>(span.rank);
    const model::ScheduleOp& op = program.schedule.ranks[rank][next[rank]++];
    if (fits(op.f_stage) && fits(op.b_stage))
      durations[static_cast<std::size_t>(op.type)].push_back(seconds_of(span.duration_ps));
  }
  model::PerOp chunks;
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    std::vector<double>& all = durations[kind];
    if (all.empty()) continue;
    std::ranges::nth_element(all, all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2));
    chunks[kind] = all[all.size() / 2];
  }
  return chunks;
}

void add_rates(const model::Plan& plan, const model::Architecture& architecture, const model::ClusterShape& cluster,
               model::StepTimes& step) {
  const model::ModelMetrics metrics = model::model_metrics(architecture, plan.batch.sequence_length);
  const auto tokens = static_cast<double>(plan.batch.global_batch_size * plan.batch.sequence_length);
  const auto gpus = static_cast<double>(plan.cluster.gpus);
  step.tokens_per_s = tokens / step.time_s;
  step.tokens_per_s_per_gpu = step.tokens_per_s / gpus;
  constexpr double tera = 1e12;
  step.model_tflops_per_gpu = step.tokens_per_s_per_gpu * metrics.flops_per_token / tera;
  step.model_tflops_per_gpu_causal = step.tokens_per_s_per_gpu * metrics.flops_per_token_causal / tera;
  const double peak = cluster.device.bf16_peak.value() / tera;
  step.mfu = step.model_tflops_per_gpu / peak;
  step.mfu_causal = step.model_tflops_per_gpu_causal / peak;
}

model::Memory measured_memory(const model::Memory& predicted, const std::vector<RankMeasurement>& ranks,
                              std::int64_t per_stage) {
  std::map<std::int64_t, double> peaks;
  for (const RankMeasurement& rank : ranks) {
    double& peak = peaks[rank.world_rank / per_stage];
    peak = std::max(peak, rank.memory_bytes);
  }
  model::Memory memory;
  memory.measured = true;
  memory.capacity_bytes = predicted.capacity_bytes;
  for (const auto& [index, peak] : peaks) {
    model::RankMemory& rank = memory.ranks.emplace_back();
    rank.rank = index;
    rank.stages = predicted.ranks[static_cast<std::size_t>(index)].stages;
    rank.peak_bytes = peak;
    memory.peak_bytes = std::max(memory.peak_bytes, peak);
  }
  return memory;
}

// Adds the breakdown of a rank's step: kernels by class, in proportion to their busy times, then waits.
void add_breakdown(const RankSlots& rank, const std::vector<std::pair<std::string, double>>& classes,
                   model::StepTimes& step) {
  double all = 0;
  for (const auto& [name, seconds] : classes) all += name == "communication" ? 0 : seconds;
  const double computing = total(rank.seconds) - total(rank.exposed);
  for (const auto& [name, seconds] : classes)
    if (name != "communication" && all > 0) step.breakdown.push_back({name, seconds / all * computing});
  std::ranges::sort(step.breakdown, std::ranges::greater(), &model::StepTimes::ClassTime::seconds);
  step.breakdown.push_back({"exposed communication", total(rank.exposed)});
  step.breakdown.push_back({"bubble", *step.bubble_s});
  step.breakdown.push_back({"optimizer", *step.optimizer_s});
}

}  // namespace

MeasuredStep measured_step(const model::Plan& plan, const model::Architecture& architecture,
                           const model::Layout& layout, const model::StepProgram& program,
                           const model::ClusterShape& cluster, const std::vector<RankMeasurement>& ranks,
                           double seconds) {
  const std::int64_t per_stage = plan.cluster.gpus / plan.parallelism.pipeline;
  std::vector<model::Timeline> pipeline;
  for (const RankMeasurement& rank : ranks)
    if (rank.world_rank % per_stage == 0) pipeline.push_back(rank.timeline);
  MeasuredStep measured;
  measured.timeline = join(pipeline);
  model::StepResult& result = measured.result;
  result.fidelity = "measured";
  result.device = cluster.device.name;
  result.memory = model::memory(plan, layout, program, cluster.device);
  if (std::ranges::all_of(ranks, [](const RankMeasurement& rank) { return rank.memory_bytes > 0; }))
    result.memory = measured_memory(result.memory, ranks, per_stage);
  model::StepTimes& step = result.step;
  step.time_s = seconds;
  add_rates(plan, architecture, cluster, step);
  const std::vector<RankSlots> slots = rank_slots(measured.timeline);
  double pipeline_end = 0, reduced = 0;
  for (const RankSlots& rank : slots) {
    pipeline_end = std::max(pipeline_end, rank.end);
    reduced = std::max(reduced, rank.reduced);
  }
  const RankSlots& first = slots[static_cast<std::size_t>(ranks.front().world_rank / per_stage)];
  step.optimizer_s = std::max(0.0, seconds - pipeline_end);
  step.bubble_s = pipeline_end - total(first.seconds);
  step.exposed_communication_s = total(first.exposed);
  step.exposed_gradient_reduce_s = std::max(0.0, reduced - pipeline_end);
  step.slot_counts = first.counts;
  const auto mean = [&](std::array<double, kinds> RankSlots::*values, std::size_t kind) {
    double sum = 0;
    for (const RankSlots& rank : slots) sum += (rank.*values)[kind];
    return sum / static_cast<double>(pipeline.size());
  };
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    step.slots_s[kind] = first.seconds[kind];
    step.slots_mean_s[kind] = mean(&RankSlots::seconds, kind);
    step.exposed_mean_s[kind] = mean(&RankSlots::exposed, kind);
  }
  step.chunk_s = middle_chunks(program, measured.timeline);
  add_breakdown(first, ranks.front().class_seconds, step);
  return measured;
}

std::string to_text(const RankMeasurement& measurement) {
  std::string text =
      fmt::format("{} {} {} {} {}\n", measurement.world_rank, measurement.timeline.names.size(),
                  measurement.timeline.spans.size(), measurement.class_seconds.size(), measurement.memory_bytes);
  for (const std::string& name : measurement.timeline.names) text += name + "\n";
  for (const Span& s : measurement.timeline.spans)
    text += fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {}\n", s.name, s.rank, static_cast<int>(s.stream),
                        s.layer, s.micro_batch, s.start_ps, s.duration_ps, static_cast<int>(s.depth),
                        static_cast<int>(s.direction), s.stage, s.chunk, s.overlapped_stage, s.overlapped_micro_batch,
                        s.peer, s.work);
  for (const auto& [name, seconds] : measurement.class_seconds) text += fmt::format("{} {}\n", seconds, name);
  text += fmt::format("{} {}\n", measurement.timeline.works.size(), measurement.timeline.stage_layers.size());
  for (const model::SpanWork& work : measurement.timeline.works)
    text += fmt::format("{} {} {}\n", work.flops, work.bytes, work.class_name);
  for (const auto& layers : measurement.timeline.stage_layers)
    text += fmt::format("{} {}\n", layers.size(), fmt::join(layers, " "));
  return text + fmt::format("{}\n", measurement.timeline.end_ps);
}

model::Result<RankMeasurement> rank_measurement(const std::string& text) {
  RankMeasurement measurement;
  std::istringstream in(text);
  std::size_t names = 0, spans = 0, classes = 0;
  in >> measurement.world_rank >> names >> spans >> classes >> measurement.memory_bytes;
  in.ignore();
  model::Timeline& timeline = measurement.timeline;
  timeline.names.resize(names);
  for (std::string& name : timeline.names) std::getline(in, name);
  timeline.spans.resize(spans);
  for (Span& s : timeline.spans) {
    int stream = 0, depth = 0, direction = 0;
    in >> s.name >> s.rank >> stream >> s.layer >> s.micro_batch >> s.start_ps >> s.duration_ps >> depth >> direction >>
        s.stage >> s.chunk >> s.overlapped_stage >> s.overlapped_micro_batch >> s.peer >> s.work;
    s.stream = static_cast<Stream>(stream);
    s.direction = static_cast<model::Direction>(direction);
    s.depth = static_cast<std::uint8_t>(depth);
    timeline.ranks = std::max(timeline.ranks, s.rank + 1);
  }
  measurement.class_seconds.resize(classes);
  for (auto& [name, seconds] : measurement.class_seconds) {
    in >> seconds;
    in.ignore();
    std::getline(in, name);
  }
  std::size_t works = 0, stages = 0;
  in >> works >> stages;
  timeline.works.resize(works);
  for (model::SpanWork& work : timeline.works) {
    in >> work.flops >> work.bytes;
    in.ignore();
    std::getline(in, work.class_name);
  }
  timeline.stage_layers.resize(stages);
  for (auto& layers : timeline.stage_layers) {
    std::size_t count = 0;
    in >> count;
    layers.resize(count);
    for (std::int32_t& layer : layers) in >> layer;
  }
  in >> timeline.end_ps;
  if (!in) return infeasible("a rank's measurements cannot be read", "run the same version of plumbline on all ranks");
  return measurement;
}

}  // namespace plumbline::real
