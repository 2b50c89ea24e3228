#include "real/executor/run.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <map>
#include <memory>
#include <numeric>

#include "model/architecture/metrics.h"
#include "model/base/bytes.h"
#include "model/base/statistics.h"
#include "model/memory/memory.h"
#include "model/program/compile.h"
#include "real/executor/agreement.h"
#include "real/executor/infeasible.h"
#include "real/executor/step/step_executor.h"
#include "real/executor/step/step_timeline.h"
#include "real/executor/training/prefetch.h"

namespace plumbline::real {
namespace {

using model::Result;

// Runs the steps of a rank whose peers are emulated: the same work in the same order as train(), with synthetic
// messages. Losses and norms are NaN, because they would be meaningless; seconds are the rank's own.
Result<TrainingResult> rehearse(TrainingStep& step, const TextSource& text, const TrainingOptions& options,
                                const StepObserver& observer) {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  Prefetcher batches(text, step.places(), options.batch, 0, options.prefetch_thread);
  const double parts =
      static_cast<double>(options.batch.global_batch_size) / static_cast<double>(options.batch.micro_batch_size);
  TrainingResult result;
  while (result.progress.step < options.steps) {
    const auto micro_batches = TRY(batches.next());
    auto outcome = TRY(
        step.run(micro_batches,
                 {.step = result.progress.step + 1, .loss_scale = 1 / parts, .learning_rate = options.learning_rate}));
    ++result.progress.step;
    result.losses.push_back(unknown);
    result.gradient_norms.push_back(unknown);
    result.seconds.push_back(outcome.seconds);
    if (observer)
      observer({.step = result.progress.step,
                .loss = unknown,
                .gradient_norm = unknown,
                .seconds = outcome.seconds,
                .tokens_per_second = unknown});
    result.timeline = std::move(outcome.timeline);
    if (options.stopped && options.stopped()) break;
  }
  return result;
}

// Runs the steps and keeps their outcomes, because the median step is only known after all have run.
class RememberedSteps final : public TrainingStep {
 public:
  explicit RememberedSteps(TrainingStep& step) : step_(step) {}

  std::vector<MicroBatchPlace> places() const override { return step_.places(); }
  model::Result<StepOutcome> run(const std::vector<MicroBatch>& batches, const StepNumbers& numbers) override {
    auto outcome = step_.run(batches, numbers);
    if (outcome) {
      if (outcomes_.size() == most) outcomes_.erase(outcomes_.begin());
      outcomes_.push_back(*outcome);
      ++count_;
    }
    return outcome;
  }
  std::vector<StatePiece> state() override { return step_.state(); }
  Device& device() override { return step_.device(); }
  std::vector<float> router_bias(std::int64_t layer) override { return step_.router_bias(layer); }
  void set_router_bias(std::int64_t layer, const std::vector<float>& bias) override {
    step_.set_router_bias(layer, bias);
  }

  std::size_t forgotten() const { return count_ - outcomes_.size(); }
  const StepOutcome& outcome(std::size_t step) const { return outcomes_[step - forgotten()]; }

 private:
  static constexpr std::size_t most = 32;  // outcomes that are kept: the timelines of a long run would fill the memory
  TrainingStep& step_;
  std::vector<StepOutcome> outcomes_;
  std::size_t count_ = 0;
};

// Returns the index of the median kept step, without the very first step.
std::size_t median_step(const std::vector<double>& seconds, std::size_t first) {
  if (seconds.size() > 1) first = std::max<std::size_t>(first, 1);
  std::vector<std::size_t> order;
  for (std::size_t i = first; i < seconds.size(); ++i) order.push_back(i);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return seconds[i]; });
  return order[(order.size() - 1) / 2];
}

class Rank {
 public:
  Rank(const RunInput& input, const RunOptions& options, Device& device, Communicator& communicator)
      : input_(input), options_(options), device_(device), communicator_(communicator) {}

  Result<RunResult> run(const StepObserver& observer) {
    auto layout = TRY(model::make_layout(input_.plan, input_.architecture));
    auto program = TRY(model::compile(input_.plan, input_.architecture, layout));
    auto step = TRY(make_step({&input_.plan, &input_.architecture, &layout, &program, &device_, &communicator_}));
    const auto text = make_text();
    const auto readable = text ? Result<void>() : tl::unexpected(text.error());
    TRY(options_.emulated ? readable : agree(communicator_, readable));
    RememberedSteps remembered(*step);
    auto training = TRY(options_.emulated ? rehearse(remembered, **text, training_options(), observer)
                                          : train(remembered, communicator_, **text, training_options(), observer));
    return measure(remembered, std::move(training), layout, program);
  }

 private:
  Result<std::unique_ptr<TextSource>> make_text() const {
    const TextOptions text{input_.architecture.vocabulary, input_.plan.batch.sequence_length};
    return options_.text.empty() ? synthetic_text(text) : file_text(options_.text, text);
  }

  TrainingOptions training_options() const {
    TrainingOptions training;
    training.steps = options_.steps;
    training.learning_rate = options_.learning_rate;
    training.batch = {input_.plan.batch.micro_batch_size, input_.plan.batch.global_batch_size};
    training.prefetch_thread = options_.prefetch_thread;
    training.fp16 = input_.plan.precision.gemm == model::Precision::fp16;
    training.layers = input_.architecture.layers;
    training.experts = input_.architecture.experts.routed_experts;
    training.balance_speed = options_.balance_speed;
    training.checkpoint.folder = options_.checkpoint;
    training.checkpoint.fingerprint = model::to_toml(input_.plan);  // it names the model and its changed keys
    training.checkpoint_interval = options_.checkpoint_interval;
    training.resume = options_.resume;
    training.stopped = options_.stopped;
    return training;
  }

  // Returns all ranks' texts on the rank that returns the result.
  Result<std::vector<std::string>> gathered(const std::string& own) {
    if (options_.emulated) return std::vector{own};
    return communicator_.gather(own);
  }

  Result<RunResult> measure(const RememberedSteps& steps, TrainingResult training, const model::Layout& layout,
                            const model::StepProgram& program) {
    RunResult result;
    if (training.seconds.empty()) {
      result.training = std::move(training);
      return result;
    }
    const std::size_t chosen = median_step(training.seconds, steps.forgotten());
    const StepOutcome& outcome = steps.outcome(chosen);
    result.issue_seconds = outcome.issue_seconds;
    const RankMeasurement own{communicator_.rank(), outcome.timeline, outcome.class_seconds, device_.memory_bytes()};
    const auto texts = TRY(gathered(model::to_bytes(own)));
    const std::size_t first = training.seconds.size() > 1 ? 1 : 0;
    result.measured_seconds.assign(training.seconds.begin() + static_cast<std::ptrdiff_t>(first),
                                   training.seconds.end());
    if (!texts.empty()) {
      std::vector<RankMeasurement> ranks;
      for (const std::string& text : texts) {
        auto rank = model::from_bytes<RankMeasurement>(text);
        if (!rank)
          return infeasible("a rank's measurements cannot be read", "run the same version of plumbline on all ranks");
        ranks.push_back(std::move(*rank));
      }
      result.step = measured_step(input_.plan, input_.architecture, layout, program, input_.cluster, ranks,
                                  training.seconds[chosen]);
    }
    result.training = std::move(training);
    return result;
  }

  const RunInput& input_;
  const RunOptions& options_;
  Device& device_;
  Communicator& communicator_;
};

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
  for (std::size_t kind = 0; kind < kinds; ++kind)
    if (!durations[kind].empty()) chunks[kind] = model::upper_median(std::move(durations[kind]));
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

Result<RunResult> run_rank(const RunInput& input, const RunOptions& options, Device& device, Communicator& communicator,
                           const StepObserver& observer) {
  return Rank(input, options, device, communicator).run(observer);
}

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

}  // namespace plumbline::real
