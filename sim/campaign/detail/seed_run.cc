#include "sim/campaign/detail/seed_run.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "model/base/random.h"
#include "sim/campaign/closed_form.h"

namespace plumbline::sim {
namespace {

constexpr std::int64_t failures_without_progress = 10'000;  // after which a run is stuck

enum DrawStream : std::uint64_t { arrivals, repairs, durations, neighbors, draw_streams };

// A checkpoint as it ages: written in the background, then usable. Contents are useful seconds since the begin.
struct Saved {
  double usable = 0, pending = 0, pending_at = never;
  bool settle(double now) {
    if (pending_at > now) return false;
    usable = pending;
    pending_at = never;
    return true;
  }
};

struct Slow {  // what makes steps longer
  std::size_t mode = 0;
  double ends_at = never;
  bool found = false;  // at its end its nodes leave
};

class SeedRun {
 public:
  SeedRun(const CampaignInput& input, std::uint64_t seed, std::vector<CampaignEvent>* events)
      : input_(input),
        events_(events),
        ideal_(ideal_seconds(input.phases)),
        all_nodes_((input.gpus + input.gpus_per_node - 1) / input.gpus_per_node),
        nodes_(all_nodes_),
        idle_(input.spare_nodes),
        stream_seeds_(input.failures.size() * draw_streams),
        next_(input.failures.size()),
        checkpoint_at_(input.checkpoint.interval_s),
        health_at_(period(input.health_check_every_s)),
        planned_at_(input.planned_stops_per_day > 0 ? 86400 / input.planned_stops_per_day : never) {
    model::Random seeds(seed);
    for (std::uint64_t& stream : stream_seeds_) stream = seeds.next();
    outcome_.of_mode.resize(input.failures.size());
    for (std::size_t mode = 0; mode < next_.size(); ++mode) draw_arrival(mode);
  }

  SeedOutcome run() {
    while (outcome_.stuck == Stuck::no && done_ < ideal_) advance();
    record(outcome_.stuck == Stuck::no ? "finished" : "never finishes");
    return outcome_;
  }

 private:
  static double period(double seconds) { return seconds > 0 ? seconds : never; }
  const FailureMode& mode_of(std::size_t mode) const { return input_.failures[mode]; }
  bool stops(std::size_t mode) const { return mode_of(mode).slows <= 1; }
  std::int64_t replicas(std::int64_t nodes) const { return nodes / input_.replica_nodes; }
  // Nodes that train: whole replicas of those that are there, all of them where none is missing.
  double share() const {
    if (nodes_ >= all_nodes_) return 1;
    return static_cast<double>(replicas(nodes_)) / static_cast<double>(replicas(all_nodes_));
  }
  // GPUs that may fail and stop the run with that.
  double gpus() const {
    const double there = static_cast<double>(nodes_) / static_cast<double>(all_nodes_);
    return static_cast<double>(input_.gpus) * (input_.elastic ? share() : there);
  }
  double next_failure() const {
    if (next_.empty() || gpus() <= 0) return never;
    return now_ + std::max(0.0, next_[first_] - exposure_) / gpus();
  }
  // Useful seconds by second.
  double speed() const {
    double factor = 1;
    for (const Slow& slow : slow_) factor = std::max(factor, mode_of(slow.mode).slows);
    return share() / factor;
  }

  double uniform(std::size_t mode, DrawStream stream) const {
    const auto count = static_cast<std::uint64_t>(outcome_.of_mode[mode]);
    return model::Random(stream_seeds_[mode * draw_streams + stream], count).uniform();
  }
  double exponential(std::size_t mode, DrawStream stream, double mean) const {
    return std::isfinite(mean) ? -mean * std::log(uniform(mode, stream)) : never;
  }
  void draw_arrival(std::size_t mode) {
    const double rate = mode_of(mode).per_gpu_hour / 3600;
    next_[mode] = rate > 0 ? exposure_ + exponential(mode, arrivals, 1 / rate) : never;
    first_ = static_cast<std::size_t>(std::ranges::min_element(next_) - next_.begin());
  }

  // Lets time pass until then or until something fails, which is returned.
  std::optional<std::size_t> pass(double until, double& account) {
    const double fails_at = next_failure();
    if (fails_at >= until) {
      exposure_ += (until - now_) * gpus();
      account += until - now_;
      now_ = until;
      return std::nullopt;
    }
    account += fails_at - now_;
    now_ = fails_at;
    exposure_ = next_[first_];
    const std::size_t mode = first_;
    outcome_.of_mode[mode] += 1;
    draw_arrival(mode);
    if (!stops(mode)) begin_slow(mode);
    return mode;
  }
  // Lets time pass in which nothing fails.
  void rest(double until, double& account) {
    account += until - now_;
    now_ = until;
  }
  // Spends seconds while the run stands; false: a failure stopped it, and it is past the restart.
  bool spend(double seconds, double& account) {
    const double until = now_ + seconds;
    while (now_ < until) {
      const auto mode = pass(until, account);
      if (mode && stops(*mode)) {
        fail(*mode);
        return false;
      }
    }
    return true;
  }

  // Trains until the next event and handles it.
  void advance() {
    const double rate = speed(), end = now_ + (ideal_ - done_) / rate, event = std::min(next_event(), end);
    const double until = std::max(now_, std::min(event, checkpoint_at_)), before = now_;
    double trained = 0;
    const auto failed = pass(until, trained);
    add_training((now_ - before) * rate, trained);
    if (failed) {
      if (stops(*failed)) fail(*failed);
    } else if (until >= end) {
      done_ = ideal_;
    } else if (until >= planned_at_) {
      stop_as_planned();
    } else if (until >= health_at_) {
      check_health();
    } else if (until >= checkpoint_at_) {
      skip_checkpoints(event, rate);
      take_checkpoint();
    } else {
      end_slow();
    }
  }
  // Returns when the next event other than failures and checkpoints comes.
  double next_event() {
    double event = std::min(health_at_, planned_at_);
    for (const Slow& slow : slow_) event = std::min(event, slow.ends_at);
    return event;
  }
  void add_training(double useful, double seconds) {
    done_ += useful;
    outcome_.time.useful_s += useful;
    outcome_.time.slow_s += seconds - useful;
  }

  // Passes over whole periods of checkpoints before the next event, all but the last.
  void skip_checkpoints(double event, double rate) {
    const CheckpointPolicy& policy = input_.checkpoint;
    const double pause = policy.pause_s(), period = pause + policy.stall_s;
    if (input_.elastic && nodes_ < all_nodes_ && !returns_.empty())
      event = std::min(event, std::max(now_, *std::ranges::min_element(returns_)));
    double count = std::min((std::min(event, next_failure()) - now_) / period, (ideal_ - done_) / (pause * rate));
    if (policy.copies > 0 && policy.storage_every > 0)
      count = std::min(count, static_cast<double>(policy.storage_every - taken_ % policy.storage_every - 1));
    count = std::floor(count) - 1;
    if (!(count >= 1)) return;
    now_ += count * period;
    exposure_ += count * period * gpus();
    outcome_.time.checkpoint_s += count * policy.stall_s;
    add_training(count * pause * rate, count * pause);
    taken_ += static_cast<std::int64_t>(count);
    progressed();
    copy().pending_at = never;
    copy().usable = done_ - pause * rate;
    storage_.settle(now_);
  }
  Saved& copy() { return input_.checkpoint.copies > 0 ? near_ : storage_; }
  void take_checkpoint() {
    const CheckpointPolicy& policy = input_.checkpoint;
    ++taken_;
    settle();
    const bool also_storage = policy.copies > 0 && policy.storage_every > 0 && taken_ % policy.storage_every == 0 &&
                              storage_.pending_at == never;
    const double begin = now_, content = done_;
    if (!spend(policy.stall_s + (also_storage ? policy.storage_stall_s : 0), outcome_.time.checkpoint_s)) return;
    copy() = {copy().usable, content, begin + policy.write_s};
    if (also_storage) storage_ = {storage_.usable, content, begin + policy.stall_s + policy.storage_write_s};
    checkpoint_at_ = std::max(now_ + policy.interval_s, begin + policy.write_s);
    if (more_replicas()) {
      record("nodes return");
      stop_and_go();
    }
  }
  // Makes what was written usable.
  void settle() {
    const bool near = near_.settle(now_), stored = storage_.settle(now_);
    if (near || stored) progressed();
  }
  void progressed() { futile_ = 0; }

  // Notes a failure: its nodes leave, and what was not saved is lost.
  void note(std::size_t mode) {
    outcome_.interruptions += 1;
    if (++futile_ > failures_without_progress) outcome_.stuck = Stuck::progress;
    settle();
    near_.pending_at = storage_.pending_at = never;
    if (mode_of(mode).repair_s > 0) {
      if (input_.checkpoint.copies > 0 && loses_copies(mode)) near_.usable = 0;
      leave(mode);
      whole_ = false;
    }
    const double saved = std::max(near_.usable, storage_.usable), lost = std::max(0.0, done_ - saved);
    done_ -= lost;
    outcome_.time.useful_s -= lost;
    outcome_.time.lost_s += lost;
    record("failure: ", mode_of(mode).name, lost);
  }
  bool loses_copies(std::size_t mode) const {
    const FailureMode& failure = mode_of(mode);
    if (failure.nodes >= input_.checkpoint.copies) return true;
    const double others = static_cast<double>(std::max<std::int64_t>(1, all_nodes_ - 1));
    return !whole_ && uniform(mode, neighbors) < static_cast<double>(failure.nodes) / others;
  }
  void leave(std::size_t mode) {
    const std::int64_t count = std::min(nodes_, mode_of(mode).nodes);
    nodes_ -= count;
    const double back = now_ + mode_of(mode).detect_s + exponential(mode, repairs, mode_of(mode).repair_s);
    if (std::isfinite(back)) returns_.insert(returns_.end(), static_cast<std::size_t>(count), back);
  }

  void fail(std::size_t mode) {
    note(mode);
    bring_up(now_ + mode_of(mode).detect_s);
  }
  // Brings the run up after it stops at a time; failures meanwhile stop it again.
  void bring_up(double stopped) {
    bool up = false;
    while (!up && outcome_.stuck == Stuck::no) {
      while (now_ < stopped && outcome_.stuck == Stuck::no)
        if (const auto mode = pass(stopped, outcome_.time.detect_s); mode && stops(*mode)) {
          note(*mode);
          stopped = std::max(stopped, now_ + mode_of(*mode).detect_s);
        }
      const bool swapped = take_nodes();
      if (outcome_.stuck != Stuck::no) return;
      const double until = now_ + (swapped ? input_.swap_s : 0) + input_.restart_s + load_seconds();
      up = true;
      while (up && now_ < until)
        if (const auto mode = pass(until, outcome_.time.restart_s); mode && stops(*mode)) {
          note(*mode);
          stopped = now_ + mode_of(*mode).detect_s;
          up = false;
        }
    }
    whole_ = true;
    checkpoint_at_ = now_ + input_.checkpoint.interval_s;
    record("restart");
  }
  double load_seconds() const {
    const CheckpointPolicy& policy = input_.checkpoint;
    return policy.copies > 0 && near_.usable < storage_.usable ? policy.storage_load_s : policy.load_s;
  }
  void settle_repairs() {
    const auto back = std::partition(returns_.begin(), returns_.end(), [&](double at) { return at > now_; });
    idle_ += returns_.end() - back;
    returns_.erase(back, returns_.end());
  }
  bool take_spares() {
    settle_repairs();
    const std::int64_t taken = std::min(idle_, all_nodes_ - nodes_);
    idle_ -= taken;
    nodes_ += taken;
    return taken > 0;
  }
  // Replaces missing nodes, and waits where too few are left; returns whether there is one to prepare.
  bool take_nodes() {
    bool swapped = take_spares();
    const auto short_of_nodes = [&] { return input_.elastic ? replicas(nodes_) < 1 : nodes_ < all_nodes_; };
    if (short_of_nodes()) record("waits for nodes");
    while (short_of_nodes()) {
      if (returns_.empty()) {
        outcome_.stuck = Stuck::nodes;
        return false;
      }
      rest(std::max(now_, *std::ranges::min_element(returns_)), outcome_.time.wait_s);
      swapped = take_spares() || swapped;
    }
    return swapped;
  }
  // Whether nodes are back that make up another replica.
  bool more_replicas() {
    if (!input_.elastic || nodes_ >= all_nodes_) return false;
    settle_repairs();
    return replicas(std::min(all_nodes_, nodes_ + idle_)) > replicas(nodes_);
  }

  void begin_slow(std::size_t mode) {
    const FailureMode& failure = mode_of(mode);
    const double found_at = period(failure.detect_s), lasts = period(failure.lasts_s);
    const double ends = lasts < never ? exponential(mode, durations, lasts) : never;
    slow_.push_back({mode, now_ + std::min(found_at, ends), found_at < ends});
    record("slow: ", failure.name);
  }
  void end_slow() {
    bool evicts = false;
    std::erase_if(slow_, [&](const Slow& slow) {
      if (slow.ends_at > now_) return false;
      if (slow.found) evicts = evict(slow) || evicts;
      return true;
    });
    if (evicts) stop_and_go();
  }
  bool evict(const Slow& slow) {
    record("evicted: ", mode_of(slow.mode).name);
    if (mode_of(slow.mode).repair_s > 0) leave(slow.mode);
    return true;
  }
  // Saves the state and restarts with the nodes that are there.
  void stop_and_go() {
    if (save()) bring_up(now_);
  }
  bool save() {
    const double content = done_;
    if (!spend(std::max(input_.checkpoint.stall_s, input_.checkpoint.write_s), outcome_.time.checkpoint_s))
      return false;
    copy() = {content, 0, never};
    progressed();
    return true;
  }
  void check_health() {
    health_at_ = now_ + input_.health_check_every_s;
    if (!spend(input_.health_check_s, outcome_.time.planned_s)) return;
    health_at_ = now_ + input_.health_check_every_s;
    const auto evicted = std::erase_if(slow_, [&](const Slow& slow) {
      return mode_of(slow.mode).lasts_s <= 0 && evict(slow);  // What ends by itself is no node's fault.
    });
    if (evicted > 0) stop_and_go();
  }
  void stop_as_planned() {
    if (!save()) return;
    record("planned stop");
    rest(now_ + input_.planned_stop_s, outcome_.time.planned_s);
    planned_at_ = now_ + 86400 / input_.planned_stops_per_day;
    bring_up(now_);
  }

  void record(const char* what, const std::string& name = {}, double lost = 0) {
    if (events_ != nullptr) events_->push_back({now_, what + name, lost, progress()});
  }
  double progress() const {
    double left = done_, tokens = 0, all = 0;
    for (const CampaignPhase& phase : input_.phases) {
      const double seconds = ideal_seconds({phase}), share = seconds > 0 ? std::clamp(left / seconds, 0.0, 1.0) : 1;
      tokens += share * phase.tokens;
      all += phase.tokens;
      left -= seconds;
    }
    return tokens / all;
  }

  const CampaignInput& input_;
  std::vector<CampaignEvent>* events_;
  double ideal_;
  std::int64_t all_nodes_, nodes_, idle_;
  std::vector<std::uint64_t> stream_seeds_;
  std::vector<double> next_;  // GPU-seconds at which each mode fails next
  std::size_t first_ = 0;     // the first of them
  double checkpoint_at_, health_at_, planned_at_;
  double now_ = 0, exposure_ = 0, done_ = 0;  // seconds, GPU-seconds of GPUs at work, useful seconds
  Saved near_, storage_;
  bool whole_ = true;  // all copies on nodes are there
  std::int64_t taken_ = 0, futile_ = 0;
  std::vector<double> returns_;  // when nodes in repair are back
  std::vector<Slow> slow_;
  SeedOutcome outcome_;
};

}  // namespace

SeedOutcome run_seed(const CampaignInput& input, std::uint64_t seed, std::vector<CampaignEvent>* events) {
  return SeedRun(input, seed, events).run();
}

}  // namespace plumbline::sim
