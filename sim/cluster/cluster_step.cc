#include "sim/cluster/cluster_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "model/result/result.h"
#include "sim/cluster/detail/fleet_draw.h"
#include "sim/network/contention.h"
#include "sim/predict/predictor.h"
#include "sim/step/template_run.h"

namespace plumbline::sim {
namespace {

void scale(SegmentTime& time, double factor) {
  for (double& seconds : time.compute) seconds *= factor;
  for (double& seconds : time.compute_per_row) seconds *= factor;
  for (double SegmentTime::*const part :
       {&SegmentTime::drain, &SegmentTime::prepare, &SegmentTime::prepare_overlapped, &SegmentTime::notify,
        &SegmentTime::wait, &SegmentTime::transfer, &SegmentTime::transfer_overlapped, &SegmentTime::network,
        &SegmentTime::network_overlapped, &SegmentTime::node, &SegmentTime::network_bytes, &SegmentTime::node_bytes})
    time.*part *= factor;
}

// What decides on a bubble: the step, and the part of it in which rank 0 runs no slot before the optimizer.
struct StepAndBubble {
  double step = 0, bubble = 0;
};

void add_share(double& value, double other, double share) { value = share * value + (1 - share) * other; }

// Drawn fleets by what they lack, in the order in which causes are removed.
constexpr std::size_t drawn_levels = 3;
constexpr double mean_rounding = 1e-9;  // of a mean, over the mean
// The even steps: as it is, without messages, without messages and with mean stages.
constexpr std::size_t even_levels = 3;

// All runs of steps of one kind, those that reduce gradients or those between.
struct ClusterRuns {
  std::vector<std::array<StepAndBubble, drawn_levels>> drawn;  // [seed]
  std::array<StepAndBubble, even_levels> even;
  std::vector<double> compute, wait;  // [seed * gpus + gpu]

  void blend_with(const ClusterRuns& other, double share) {
    const auto both = [share](StepAndBubble& one, const StepAndBubble& two) {
      add_share(one.step, two.step, share);
      add_share(one.bubble, two.bubble, share);
    };
    for (std::size_t seed = 0; seed < drawn.size(); ++seed)
      for (std::size_t i = 0; i < drawn_levels; ++i) both(drawn[seed][i], other.drawn[seed][i]);
    for (std::size_t i = 0; i < even_levels; ++i) both(even[i], other.even[i]);
    for (std::size_t i = 0; i < compute.size(); ++i) {
      add_share(compute[i], other.compute[i], share);
      add_share(wait[i], other.wait[i], share);
    }
  }
};

StepAndBubble step_and_bubble(const Execution& execution) {
  return {execution.step_end, execution.pipeline_end - total(execution.ranks.front().slot_seconds)};
}

ExecutionInput with(ExecutionInput input, const Fleet& fleet) {
  input.fleet = &fleet;
  return input;
}

struct SampledGpu {
  std::int32_t gpu = 0;
  const char* what = "";  // after its name
};

// Returns GPUs of each pipeline rank by the seconds that they compute: the longest, the first, the median one, as many
// of these as fit in a trace that people look at, in the order of GPUs.
std::vector<SampledGpu> sampled_gpus(const std::vector<double>& compute, std::size_t ranks, std::int64_t replicas) {
  constexpr std::size_t most = 64;
  const std::size_t of_rank = std::clamp<std::size_t>(most / ranks, 1, 3);
  std::vector<SampledGpu> sample;
  for (std::size_t rank = 0; rank < std::min(ranks, most); ++rank) {
    const auto first = static_cast<std::int32_t>(static_cast<std::int64_t>(rank) * replicas);
    std::vector<std::int32_t> gpus(static_cast<std::size_t>(replicas));
    std::iota(gpus.begin(), gpus.end(), first);
    std::ranges::stable_sort(gpus, {}, [&](std::int32_t gpu) { return compute[static_cast<std::size_t>(gpu)]; });
    std::vector<SampledGpu> wanted = {
        {gpus.back(), " (computes longest)"}, {first, ""}, {gpus[gpus.size() / 2], " (median)"}};
    wanted.resize(of_rank);
    for (const SampledGpu& one : wanted)
      if (std::ranges::find(sample, one.gpu, &SampledGpu::gpu) == sample.end()) sample.push_back(one);
  }
  std::ranges::sort(sample, {}, &SampledGpu::gpu);
  return sample;
}

class ClusterStep {
 public:
  ClusterStep(const Inputs& inputs, const ClusterOptions& options)
      : options_(options), draw_(inputs, options.by_kernels), causes_(draw_.causes()) {
    causes_.slow_ranks &= options.slow_ranks;
    causes_.jitter &= options.jitter;
    causes_.imbalance &= options.imbalance;
    reducing_share_ = 1 / static_cast<double>(inputs.plan.parallelism.synchronization_interval);
    replicas_ = inputs.plan.cluster.gpus / inputs.plan.parallelism.pipeline;
    for (std::int64_t seed = 0; seed < options.seeds; ++seed) seeds_.push_back(seed);
  }

  // Runs one kind of step for all seeds and returns the mean over seeds and replicas.
  model::Result<Execution> run(const ExecutionInput& of_one_gpu) {
    ExecutionInput input = without_waits(of_one_gpu);
    const Recording record = std::exchange(input.record, false);
    const double jitter = draw_.kernel_jitter(input);
    ClusterRuns runs;
    TRY(run_even(input, runs));
    Execution mean = TRY(run_drawn(input, jitter, runs));
    if (record.on) mean.timeline = TRY(run_sample(std::move(input), record, jitter, runs));
    if (runs_)
      runs_->blend_with(runs, reducing_share_);
    else
      runs_ = std::move(runs);
    return mean;
  }

  // Names the GPUs of the timeline in a simulation whose names are those of pipeline ranks.
  void name_sample(Simulation& simulation) const {
    if (sample_.empty()) return;
    std::vector<std::string> names;
    for (const SampledGpu& one : sample_)
      names.push_back(
          fmt::format("{}, replica {}{}", simulation.rank_names[one.gpu / replicas_], one.gpu % replicas_, one.what));
    simulation.rank_names = std::move(names);
    if (!options_.record.ranks.empty()) return;
    simulation.sample = fmt::format(
        "{} of {} GPUs: of each pipeline rank the first replica, and those that compute longest and at the "
        "median, as many as fit",
        sample_.size(), runs_->compute.size() / seeds_.size());
  }

  // `step` is the mean, with what it waits for that its events do not have: the input and the host.
  model::ClusterSpread spread(const model::StepTimes& step) const {
    const ClusterRuns& runs = *runs_;
    model::ClusterSpread spread;
    spread.seeds = std::ssize(seeds_);
    spread.by_kernels = options_.by_kernels;
    spread.events = events_;
    std::vector<double> steps;
    for (const auto& seed : runs.drawn) steps.push_back(seed.front().step);
    const double mean = std::accumulate(steps.begin(), steps.end(), 0.0) / static_cast<double>(steps.size());
    const double outside = step.time_s - mean > mean_rounding * mean ? step.time_s - mean : 0;
    for (double& seconds : steps) seconds += outside;
    spread.step_s = model::quantiles_of(steps);
    spread.mean_step_s = step.time_s;
    spread.even_step_s = runs.even.front().step + outside;
    spread.gpus = std::ssize(runs.compute) / spread.seeds;
    spread.compute_s = model::quantiles_of(runs.compute);
    spread.wait_s = model::quantiles_of(runs.wait);
    spread.rank_wait_s.assign(static_cast<std::size_t>(spread.gpus / replicas_), 0);
    for (std::size_t i = 0; i < runs.wait.size(); ++i)
      spread.rank_wait_s[i % static_cast<std::size_t>(spread.gpus) / static_cast<std::size_t>(replicas_)] +=
          runs.wait[i] / static_cast<double>(replicas_ * spread.seeds);
    spread.bubble = bubble_parts(outside);
    spread.priors = draw_.priors(causes_);
    return spread;
  }

 private:
  model::Result<void> run_even(const ExecutionInput& input, ClusterRuns& runs) const {
    const ExecutionInput silent = without_messages(input);
    const ExecutionInput balanced = with_mean_stages(silent);
    std::size_t level = 0;
    for (const ExecutionInput* one : {&input, &silent, &balanced})
      runs.even[level++] = step_and_bubble(TRY(execute(*one)));
    return {};
  }

  FleetCauses causes_of(std::size_t level) const {
    FleetCauses causes = causes_;
    if (level > 0) causes.slow_ranks = false;
    if (level > 1) causes.imbalance = false;
    return causes;
  }
  // Returns the number of seeds whose causes are removed.
  std::size_t taken_apart() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(seeds_, [](std::int64_t seed) { return seed < most_taken_apart; }));
  }
  // Returns whether a level lacks something that the one before it has.
  bool differs(std::size_t level) const {
    if (level == 0) return true;
    return level == 1 ? causes_.slow_ranks : causes_.imbalance;
  }

  struct SeedRuns {
    std::int64_t seed = 0;  // after the first
    std::array<std::optional<model::Result<Execution>>, drawn_levels> at;
    std::vector<double> compute, wait;  // [gpu]
  };

  bool wanted(std::int64_t seed, std::size_t level) const {
    return differs(level) && (level == 0 || seed < most_taken_apart);
  }
  bool finished(const SeedRuns& runs) const {
    for (std::size_t level = 0; level < drawn_levels; ++level)
      if (wanted(runs.seed, level) && !runs.at[level]) return false;
    return true;
  }

  // The mean of each seed's replicas is taken where it ran, those of the seeds are summed in their order. Steps of the
  // second kind run for the seeds that the first kind has.
  model::Result<Execution> run_drawn(const ExecutionInput& input, double jitter, ClusterRuns& runs) {
    std::vector<SeedRuns> of_seeds;
    for (const std::int64_t seed : seeds_) of_seeds.push_back({.seed = seed});
    for_each_index(of_seeds.size() * drawn_levels, runs_ ? Watch() : options_.watch, [&](std::size_t task) {
      SeedRuns& of_seed = of_seeds[task / drawn_levels];
      const std::size_t level = task % drawn_levels;
      if (!wanted(of_seed.seed, level)) return;
      const auto drawn = draw_.draw(options_.seed + static_cast<std::uint64_t>(of_seed.seed), causes_of(level), jitter);
      auto& place = of_seed.at[level] =
          drawn.and_then([&](const FleetDraw::Drawn& one) { return execute(with(input, one.fleet)); });
      if (!*place) return;
      if (level == 0) note_gpus(**place, of_seed);
      (*place)->ranks = mean_over_replicas((*place)->ranks, replicas_);
    });
    std::erase_if(of_seeds, [&](const SeedRuns& of_seed) { return !finished(of_seed); });
    if (of_seeds.empty() || of_seeds.front().seed >= most_taken_apart)
      return model::interrupted("", "stopped before the step of a drawn fleet was there");
    seeds_.clear();
    Execution mean;
    for (SeedRuns& of_seed : of_seeds) {
      const auto before = static_cast<double>(seeds_.size());
      seeds_.push_back(of_seed.seed);
      std::array<StepAndBubble, drawn_levels>& drawn = runs.drawn.emplace_back();
      for (std::size_t level = 0; level < drawn_levels; ++level) {
        const auto& one = of_seed.at[level];
        drawn[level] = one ? step_and_bubble(TRY(*one)) : drawn[level - 1];
        if (one) events_ += static_cast<std::int64_t>((*one)->events);
      }
      const Execution& first = **of_seed.at.front();
      mean = before == 0 ? first : mean_of(std::move(mean), first, before / (before + 1));
      runs.compute.insert(runs.compute.end(), of_seed.compute.begin(), of_seed.compute.end());
      runs.wait.insert(runs.wait.end(), of_seed.wait.begin(), of_seed.wait.end());
      of_seed = SeedRuns();
    }
    mean.events = static_cast<std::uint64_t>(events_);
    return mean;
  }

  // Runs the first fleet again and records some of its GPUs.
  model::Result<model::Timeline> run_sample(ExecutionInput input, const Recording& record, double jitter,
                                            const ClusterRuns& runs) {
    for (const std::int32_t gpu : record.ranks) sample_.push_back({gpu, ""});
    if (sample_.empty()) sample_ = sampled_gpus(runs.compute, input.program->schedule.ranks.size(), replicas_);
    FleetDraw::Drawn drawn = TRY(draw_.draw(options_.seed, causes_, jitter));
    input.fleet = &drawn.fleet;
    input.record = record;
    input.record.ranks.clear();
    for (const SampledGpu& one : sample_) input.record.ranks.push_back(one.gpu);
    return TRY(execute(input)).timeline;
  }

  static void note_gpus(const Execution& execution, SeedRuns& runs) {
    for (const RankTimes& times : execution.ranks) {
      const double slots = total(times.slot_seconds);
      runs.compute.push_back(slots - total(times.exposed));
      runs.wait.push_back(execution.pipeline_end - slots + times.barrier_wait);
    }
  }

  std::vector<model::BubblePart> bubble_parts(double outside) const {
    const ClusterRuns& runs = *runs_;
    std::vector<StepAndBubble> levels(drawn_levels);
    const double share = 1 / static_cast<double>(taken_apart());
    for (std::size_t seed = 0; seed < taken_apart(); ++seed)
      for (std::size_t level = 0; level < drawn_levels; ++level) {
        levels[level].step += share * runs.drawn[seed][level].step;
        levels[level].bubble += share * runs.drawn[seed][level].bubble;
      }
    levels.insert(levels.end(), runs.even.begin(), runs.even.end());
    const char* const causes[] = {"slow ranks", "imbalance", "jitter", "point-to-point", "uneven stages"};
    std::vector<model::BubblePart> parts;
    for (std::size_t i = 0; i + 1 < levels.size(); ++i)
      parts.push_back({causes[i], levels[i].bubble - levels[i + 1].bubble, levels[i].step - levels[i + 1].step});
    parts.push_back({"schedule", levels.back().bubble, levels.back().bubble});
    if (outside > 0) parts.push_back({"input and host", outside, outside});
    return parts;
  }

  const ClusterOptions& options_;
  FleetDraw draw_;
  FleetCauses causes_;
  double reducing_share_ = 1;
  std::int64_t replicas_ = 1;
  std::optional<ClusterRuns> runs_;
  std::vector<std::int64_t> seeds_;  // after the first; in the end those of `runs_`
  std::vector<SampledGpu> sample_;
  std::int64_t events_ = 0;
};

// Returns the inputs with what a loop that shares no links needs of shared ones. The slowest GPU is drawn.
model::Result<Inputs> inputs_of_steps(const Inputs& inputs) {
  Inputs changed = inputs;
  changed.plan.cluster.speed_deviation = 0;
  if (!inputs.fabric || inputs.contention) return changed;
  const auto table = std::make_shared<ContentionTable>();
  TRY(table->add(inputs));
  if (table->find(inputs) != nullptr) changed.contention = table;
  return changed;
}

}  // namespace

ExecutionInput without_waits(ExecutionInput input) {
  for (auto& segments : input.template_times)
    for (SegmentTime& time : segments) time.wait = 0;
  return input;
}

ExecutionInput without_messages(ExecutionInput input) {
  input.p2p_latency = input.stage_message_bytes = 0;
  return input;
}

ExecutionInput with_mean_stages(ExecutionInput input) {
  const model::StepProgram& program = *input.program;
  std::vector<std::optional<double>> seconds(program.templates.size());
  const auto seconds_of = [&](std::uint16_t slot, std::int32_t rank) {
    if (!seconds[slot]) {
      const auto& times = input.template_times[slot];
      const model::SlotTemplate& whole = program.templates[slot];
      seconds[slot] =
          (input.links == nullptr ? run_template(whole, times, input.device_sms)
                                  : run_template(whole, times, input.device_sms, *input.links,
                                                 links_of_groups(input, static_cast<std::size_t>(rank)), rank))
              .seconds;
    }
    return *seconds[slot];
  };
  std::array<double, 5> sums{}, counts{};
  for (std::size_t rank = 0; rank < program.slot_templates.size(); ++rank)
    for (const std::uint16_t slot : program.slot_templates[rank]) {
      const auto type = static_cast<std::size_t>(program.templates[slot].type);
      sums[type] += seconds_of(slot, static_cast<std::int32_t>(rank));
      ++counts[type];
    }
  for (std::size_t slot = 0; slot < seconds.size(); ++slot) {
    const auto type = static_cast<std::size_t>(program.templates[slot].type);
    if (!seconds[slot] || *seconds[slot] <= 0) continue;
    for (SegmentTime& time : input.template_times[slot]) scale(time, sums[type] / counts[type] / *seconds[slot]);
  }
  return input;
}

model::Result<Simulation> simulate_cluster(const Inputs& inputs, const ClusterOptions& options) {
  if (options.seeds < 1 || options.seeds > most_fleets)
    return model::wrong_input("--seeds", fmt::format("{} fleets cannot be drawn", options.seeds),
                              fmt::format("draw at least one, and at most {}", most_fleets));
  Inputs equal = TRY(inputs_of_steps(inputs));
  const model::Plan plan = equal.plan;
  Predictor predictor(std::move(equal));
  ClusterStep step(inputs, options);
  auto simulation = TRY(predictor.simulate(
      plan, {.fidelity = Fidelity::cluster, .record = options.record, .execute = [&](const ExecutionInput& input) {
               return step.run(input);
             }}));
  simulation.result.cluster = step.spread(simulation.result.step);
  step.name_sample(simulation);
  return simulation;
}

}  // namespace plumbline::sim
